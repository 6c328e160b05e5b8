import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lila.augment.exponential import affine_exp

entries = st.lists(st.floats(-4, 4), min_size=6, max_size=6)


def algebra(values: list[float], dtype: torch.dtype = torch.float64) -> torch.Tensor:
    X = torch.zeros(1, 3, 3, dtype=dtype)
    X[0, :2] = torch.tensor(values, dtype=dtype).reshape(2, 3)
    return X


@given(entries)
def test_it_is_the_matrix_exponential(values: list[float]) -> None:
    X = algebra(values)
    expected = torch.linalg.matrix_exp(X.expand(2, 3, 3))[:1]
    torch.testing.assert_close(affine_exp(X), expected, rtol=1e-10, atol=1e-10 * float(expected.abs().max()))


@pytest.mark.parametrize(
    "values",
    [
        [0.0] * 6,
        [0.0, -3.14159, 0.3, 3.14159, 0.0, -0.2],  # half a turn
        [0.5, 0.0, 0.1, 0.0, 0.5, 0.2],  # a multiple of the identity
        [0.0, 1.0, 0.3, 0.0, 0.0, 0.7],  # nilpotent: the eigenvalues coincide, but it is no multiple of the identity
        [1e-9, 2e-9, 1e-9, -1e-9, 3e-9, 1e-9],
        [0.4, 1.3, 0.3, -0.9, -0.2, 0.7],
    ],
)
def test_value_and_gradients_at_special_points(values: list[float]) -> None:
    X = algebra(values).requires_grad_()
    assert torch.autograd.gradcheck(lambda X: affine_exp(X * mask()), (X,))
    assert torch.autograd.gradgradcheck(lambda X: affine_exp(X * mask()), (X,))
    torch.testing.assert_close(affine_exp(X), torch.linalg.matrix_exp(X))


def mask() -> torch.Tensor:
    """The last row is zero, and stays so."""
    return torch.tensor([[1.0, 1, 1], [1, 1, 1], [0, 0, 0]], dtype=torch.float64)


def test_small_motions_keep_their_digits_in_single_precision() -> None:
    values = [1e-5, -2e-5, 3e-5, 2e-5, 1e-5, -1e-5]
    exact = torch.linalg.matrix_exp(algebra(values).expand(2, 3, 3))[0] - torch.eye(3, dtype=torch.float64)
    found = affine_exp(algebra(values, torch.float32))[0].double() - torch.eye(3, dtype=torch.float64)
    torch.testing.assert_close(found, exact, rtol=0, atol=2**-23)
    torch.testing.assert_close(found[:2, 2], exact[:2, 2], rtol=1e-6, atol=0)


def test_a_result_does_not_depend_on_the_batch() -> None:
    X = torch.zeros(7, 3, 3)
    X[:, :2] = torch.rand(7, 2, 3) - 0.5
    assert torch.equal(affine_exp(X)[3:4], affine_exp(X[3:4]))
