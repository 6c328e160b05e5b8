"""The gradient through the weights that minimise a loss, beside that through their closed form."""

from collections.abc import Callable, Sequence
from functools import partial

import pytest
import torch
from torch import Tensor

import lila
from lila.compare.implicit import Product, Vectors, conjugate_gradients, hypergradient, neumann

FEATURES, COUNT, SAMPLES = 9, 30, 5


class Ridge:
    """Linear regression on averaged views of images, whose ranges and prior precision are the hyperparameters."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.augmentation = lila.Affine2d(["rotation", "x-translation"], init=[0.7, 0.2]).double()
        self.log_precision = torch.tensor(1.5, dtype=torch.float64, requires_grad=True)
        self.x, self.y = torch.rand(2, COUNT, 1, 3, 3, dtype=torch.float64), torch.randn(2, COUNT, dtype=torch.float64)
        self.learned = [self.augmentation.eta, self.log_precision]
        self.w = self.closed_form().detach().requires_grad_()

    def features(self, part: int) -> Tensor:
        noise = lila.Draw(1, part).uniform(torch.arange(COUNT), (SAMPLES, 2), torch.float64)
        return self.augmentation(self.x[part], noise).flatten(2).mean(1)

    def closed_form(self) -> Tensor:
        phi = self.features(0)
        hessian = phi.mT @ phi + self.log_precision.exp() * torch.eye(FEATURES, dtype=torch.float64)
        return torch.linalg.solve(hessian, phi.mT @ self.y[0])

    def train_loss(self) -> Tensor:
        residual = self.y[0] - self.features(0) @ self.w
        return (0.5 * residual.square().sum() + 0.5 * self.log_precision.exp() * self.w.square().sum()) / COUNT

    def validation_loss(self, w: Tensor | None = None) -> Tensor:
        return (self.y[1] - self.features(1) @ (self.w if w is None else w)).square().mean()


@pytest.mark.parametrize(
    "inverse",
    [partial(conjugate_gradients, iterations=2 * FEATURES), partial(neumann, terms=300, step=0.3)],
    ids=["conjugate gradients", "Neumann"],
)
def test_the_hypergradient_is_that_through_the_closed_form(
    inverse: Callable[[Product, Vectors], Vectors],
) -> None:
    ridge = Ridge()
    found = hypergradient(ridge.train_loss, ridge.validation_loss, [ridge.w], ridge.learned, inverse)
    wanted = torch.autograd.grad(ridge.validation_loss(ridge.closed_form()), ridge.learned)
    direct = torch.autograd.grad(ridge.validation_loss(), ridge.learned, materialize_grads=True)
    assert float(direct[1]) == 0  # the precision acts through the weights alone
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-9)
    assert not torch.allclose(found[0], direct[0], rtol=0.1)  # the weights' response matters


def test_the_series_and_conjugate_gradients_solve_a_linear_system() -> None:
    torch.manual_seed(1)
    root, v = torch.randn(6, 6, dtype=torch.float64), torch.randn(6, dtype=torch.float64)
    H = root @ root.mT + torch.eye(6, dtype=torch.float64)
    wanted, step = torch.linalg.solve(H, v), 1 / float(torch.linalg.matrix_norm(H, 2))

    def product(vectors: Sequence[Tensor]) -> list[Tensor]:
        return [H @ vector for vector in vectors]

    torch.testing.assert_close(conjugate_gradients(product, [v], iterations=6)[0], wanted)
    errors = [float((neumann(product, [v], terms=n, step=step)[0] - wanted).norm()) for n in (1, 10, 100, 2000)]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 1e-6
    torch.testing.assert_close(neumann(product, [v], terms=1, step=step)[0], step * v)


def test_conjugate_gradients_stop_at_negative_curvature() -> None:
    v = torch.tensor([1.0, 2.0])
    assert torch.equal(conjugate_gradients(lambda u: [-u[0]], [v], iterations=5)[0], v)
