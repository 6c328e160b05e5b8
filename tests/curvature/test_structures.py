"""One suite for all structures: each says how it is made and what its dense form is, and inherits every test."""

from typing import ClassVar

import pytest
import torch
from torch import Tensor, nn

import lila
import oracles
from cases import LIKELIHOODS, NETWORKS, Case, make_case
from dense import block_order, curvature, dense
from lila.curvature import Full, Kron, Structure, find_layers
from lila.curvature.eigen import eigh, with_eigenvalues
from lila.curvature.moments import add_second_moment_, bilinear, quadratic
from lila.data.examples import Examples
from lila.laplace.passes import Pass


class Suite:
    structure: ClassVar[str]

    @pytest.mark.parametrize("kind", ["ggn", "ef"])
    @pytest.mark.parametrize("samples", [1, 3])
    @pytest.mark.parametrize("network", NETWORKS)
    def test_value_is_the_oracles(self, network: str, samples: int, kind: str) -> None:
        case = make_case(network, samples=samples)
        found = dense(curvature(case, self.structure, kind))
        torch.testing.assert_close(found, oracles.curvature_matrix(case, self.structure, kind).detach())

    @pytest.mark.parametrize("kind", ["ggn", "ef"])
    @pytest.mark.parametrize("likelihood", LIKELIHOODS)
    @pytest.mark.parametrize("network", ["mlp", "cnn", "residual", "attention"])
    def test_value_for_each_likelihood(self, network: str, likelihood: str, kind: str) -> None:
        case = make_case(network, likelihood, n=2)
        found = dense(curvature(case, self.structure, kind))
        torch.testing.assert_close(found, oracles.curvature_matrix(case, self.structure, kind).detach())

    @pytest.mark.parametrize("batch", [1, 2, 3])
    def test_batches_add_up(self, batch: int) -> None:
        case = make_case("cnn")
        whole = dense(curvature(case, self.structure, batch=100))
        torch.testing.assert_close(dense(curvature(case, self.structure, batch=batch)), whole)

    @pytest.mark.parametrize("network", ["mlp", "cnn", "residual", "partly_frozen"])
    def test_log_determinant_is_slogdet(self, network: str) -> None:
        case = make_case(network)
        made, prior = curvature(case, self.structure), case.prior()
        H = dense(made) + torch.diag(oracles.precision_vector(case, prior))
        torch.testing.assert_close(made.log_det(prior.precisions()), torch.linalg.slogdet(H).logabsdet)

    @pytest.mark.parametrize("network", ["mlp", "cnn", "residual", "shared"])
    def test_cotangent_is_autograd_through_slogdet(self, network: str) -> None:
        case = make_case(network)
        made, prior = curvature(case, self.structure), case.prior()
        delta = oracles.precision_vector(case, prior).detach()
        leaves, structure = with_leaves(made)
        value = torch.linalg.slogdet(dense(structure) + torch.diag(delta)).logabsdet
        expected = torch.autograd.grad(value, leaves)
        cotangent = made.cotangent(prior.precisions()).factors().values()
        for found, gradient in zip(cotangent, expected, strict=True):
            # Factors are symmetric, so only the symmetric part of a gradient means anything.
            symmetric = gradient if self.structure == "diag" else (gradient + gradient.mT) / 2
            torch.testing.assert_close(found, symmetric)

    def test_gradient_in_the_precisions_is_autograd_through_slogdet(self) -> None:
        case = make_case("residual")
        made, prior = curvature(case, self.structure), case.prior()
        parameters = list(prior.parameters())
        H = dense(made) + torch.diag(oracles.precision_vector(case, prior))
        expected = torch.autograd.grad(torch.linalg.slogdet(H).logabsdet, parameters)
        torch.testing.assert_close(torch.autograd.grad(made.log_det(prior.precisions()), parameters), expected)

    @pytest.mark.parametrize("network", ["mlp", "residual", "partly_frozen", "decoder"])
    def test_ratio_of_determinants_and_its_gradient_are_those_of_slogdet(self, network: str) -> None:
        case = make_case(network)
        made, prior = curvature(case, self.structure), case.prior()
        parameters, delta = list(prior.parameters()), oracles.precision_vector(case, prior)
        identity = torch.eye(len(delta), dtype=torch.float64)
        expected = torch.linalg.slogdet(identity + dense(made) / delta[:, None]).logabsdet
        found = made.log_det_ratio(prior.precisions())
        torch.testing.assert_close(found, expected)
        torch.testing.assert_close(torch.autograd.grad(found, parameters), torch.autograd.grad(expected, parameters))

    def test_inner_product_is_bilinear_in_the_parts(self) -> None:
        case = make_case("cnn")
        one, two = curvature(case, self.structure), curvature(case, self.structure, "ef")
        expected = sum(((a * b).sum() for a, b in zip(one.factors().values(), two.factors().values(), strict=True)))
        torch.testing.assert_close(one.inner(two), torch.as_tensor(expected))

    def test_scaling_is_that_of_repeated_data(self) -> None:
        case = make_case("cnn")
        made, thrice = (curvature(case, self.structure, repeats=repeats) for repeats in (1, 3))
        torch.testing.assert_close(dense(made.scaled(3.0)), dense(thrice))

    def test_a_layer_that_is_never_reached_has_no_curvature(self) -> None:
        case = make_case("mlp")
        case.net.add_module("spare", torch.nn.Identity())
        case.net.spare.extra = torch.nn.Linear(2, 2).double()  # type: ignore[union-attr]
        matrix = dense(curvature(case, self.structure))
        assert matrix[-6:].abs().max() == 0

    @pytest.mark.parametrize("network", NETWORKS)
    def test_float32_stays_float32_and_agrees(self, network: str) -> None:
        case = make_case(network)
        expected = dense(curvature(case, self.structure))
        case.model.float()
        case.likelihood.float()
        single = Case(case.model, case.likelihood, case.x.float(), case.y, case.draw)
        found = dense(curvature(single, self.structure))
        assert found.dtype == torch.float32
        assert (found - expected).norm() < 1e-4 * expected.norm()


class TestKron(Suite):
    structure = "kron"


class TestDiag(Suite):
    structure = "diag"


class TestFull(Suite):
    structure = "full"

    @pytest.mark.parametrize("network", NETWORKS)
    def test_value_is_that_of_torch_func(self, network: str) -> None:
        case = make_case(network)
        blocks = []
        for views, y in zip(case.views().detach(), case.y, strict=True):
            J = oracles.jacobian_by_func(case.net, views)
            f = oracles.average_output(case.net, views, oracles.trainable(case.net))
            blocks.append(J.mT @ oracles.output_hessian(case.likelihood, f, y) @ J)
        torch.testing.assert_close(dense(curvature(case, "full")), torch.stack(blocks).sum(0))


def with_leaves(structure: Structure) -> tuple[list[Tensor], Structure]:
    """The same structure, its parts replaced by leaves of a graph."""
    leaves = [part.clone().requires_grad_() for part in structure.factors().values()]
    if isinstance(structure, Kron):
        pairs = zip(structure.blocks, leaves[::2], leaves[1::2], strict=True)
        return leaves, Kron(tuple(type(b)(b.layer, A, G, b.positions) for b, A, G in pairs))
    if isinstance(structure, Full):
        return leaves, Full(structure.layers, leaves[0])
    return leaves, type(structure)(structure.layers, tuple(leaves))  # type: ignore[call-arg]


def layer_blocks(case: Case) -> list[Tensor]:
    """The blocks of the full curvature that belong to one layer each."""
    full = oracles.full_curvature(case).detach()
    sizes = [layer.size for layer in find_layers(case.net)]
    ends = torch.tensor(sizes).cumsum(0).tolist()
    return [full[end - size : end, end - size : end] for size, end in zip(sizes, ends, strict=True)]


def test_kron_is_the_full_block_for_one_datum() -> None:
    case = make_case("mlp", samples=1, n=1)
    torch.testing.assert_close(dense(curvature(case, "kron")), torch.block_diag(*layer_blocks(case)))


@pytest.mark.parametrize("samples", [1, 3])
@pytest.mark.parametrize("likelihood", ["gaussian", "gaussian-per-output"])
def test_kron_is_exact_for_an_invariant_linear_model(samples: int, likelihood: str) -> None:
    case = make_case("linear", likelihood, samples=samples, n=5)
    torch.testing.assert_close(dense(curvature(case, "kron")), oracles.full_curvature(case).detach())


def test_kron_is_the_full_block_for_repeated_views() -> None:
    case = make_case("mlp", samples=3, n=1)
    with torch.no_grad():
        for parameter in case.model.augmentation.parameters():
            parameter.zero_()
    torch.testing.assert_close(dense(curvature(case, "kron")), torch.block_diag(*layer_blocks(case)))


def test_kron_is_exact_for_scalars_and_for_scale_and_shift_of_each_unit() -> None:
    case = make_case("residual", samples=1, n=4)
    found, full = dense(curvature(case, "kron")), oracles.full_curvature(case).detach()
    names = [name for name, p in case.net.named_parameters() for _ in range(p.numel())]
    scalars = [i for i, name in enumerate(names) if "bias1" in name or "bias2" in name or "scale" in name]
    torch.testing.assert_close(found.diagonal()[scalars], full.diagonal()[scalars])
    scales = [i for i, name in enumerate(names) if name == "2.weight"]
    shifts = [i for i, name in enumerate(names) if name == "2.bias"]
    torch.testing.assert_close(found[scales, shifts], full[scales, shifts])
    torch.testing.assert_close(found.diagonal()[scales], full.diagonal()[scales])


@pytest.mark.parametrize("network", NETWORKS)
def test_split_undoes_join(network: str) -> None:
    case = make_case(network)
    weights = oracles.trainable(case.net)
    layers = find_layers(case.net)
    joined = torch.cat([layer.join(weights).flatten() for layer in layers])
    torch.testing.assert_close(joined[block_order(layers)], torch.cat([w.flatten() for w in weights.values()]))


def test_a_pass_with_a_graph_has_the_same_values() -> None:
    case = make_case("cnn")
    evidence = case.evidence("kron")
    pass_ = Pass(case.model, case.likelihood, find_layers(case.net), Kron, roots=evidence.roots, draw=case.draw)
    batch = next(Examples(case.data).batches(10))
    for plain, graph in zip(pass_.batch(batch, False), pass_.batch(batch, True), strict=True):
        if isinstance(plain, Tensor):
            torch.testing.assert_close(graph, plain)
        else:
            torch.testing.assert_close(dense(graph), dense(plain))  # type: ignore[arg-type]


def test_what_a_library_cannot_decompose_in_single_precision_is_done_in_double(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some return NaN for finite matrices of low rank, without a word."""
    decompose = torch.linalg.eigh

    def silently_failing(matrix: Tensor) -> tuple[Tensor, Tensor]:
        values, vectors = decompose(matrix)
        return (values * float("nan"), vectors) if matrix.dtype == torch.float32 else (values, vectors)

    monkeypatch.setattr(torch.linalg, "eigh", silently_failing)
    v = torch.rand(1, 257, 1)
    values, vectors = eigh(v @ v.mT)
    assert values.dtype == torch.float32
    torch.testing.assert_close((vectors * values[:, None, :]) @ vectors.mT, v @ v.mT, rtol=0, atol=1e-4)


def test_factors_that_cannot_be_decomposed_name_their_layer() -> None:
    case = make_case("mlp")
    curvature = case.evidence("kron").estimate(case.data, case.draw).curvature
    broken = curvature.scaled(float("nan"))
    with pytest.raises(lila.NumericalError, match="factors of layer '1'"):
        broken.log_det(case.prior().precisions())


def test_factors_that_do_not_fit_into_memory_are_refused_with_the_layer_named() -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(1_000_000, 1))
    model = lila.InvariantModel(net, lila.Affine2d(), samples=1)
    evidence = lila.Evidence(model, lila.Categorical(), lila.GaussianPrior(net))
    with pytest.raises(lila.MemoryBudgetError, match=r"layer '1' with 1,000,001 inputs and 1 outputs"):
        evidence.no_curvature()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_rows_of_zeros_are_left_out_of_the_decomposition_and_put_back(dtype: torch.dtype) -> None:
    rows = torch.randn(2, 12, 9, dtype=torch.float64)
    rows[:, :, [0, 3, 4, 8]] = 0
    rows[1, :, 5] = 0  # of one of two groups only, so it stays in
    matrix = (rows.mT @ rows).to(dtype)
    values, vectors = eigh(matrix)
    assert values.dtype == vectors.dtype == dtype
    atol = 1e-4 if dtype == torch.float32 else 1e-12
    torch.testing.assert_close((vectors * values[:, None, :]) @ vectors.mT, matrix, rtol=0, atol=atol)
    other = torch.rand(2, 9, dtype=dtype)  # eigenvalues; those of the rows of zeros too
    made = with_eigenvalues(other, vectors, matrix)
    torch.testing.assert_close(made, (vectors * other[:, None, :]) @ vectors.mT, rtol=0, atol=atol)
    torch.testing.assert_close(vectors.mT @ vectors, torch.eye(9, dtype=dtype).expand(2, 9, 9), rtol=0, atol=atol)
    assert (values >= 0).all()


def test_what_fails_in_double_precision_too_is_shifted(monkeypatch: pytest.MonkeyPatch) -> None:
    decompose, tried = torch.linalg.eigh, []

    def failing_twice(matrix: Tensor) -> tuple[Tensor, Tensor]:
        tried.append(matrix)
        if len(tried) < 3:
            raise torch.linalg.LinAlgError("not today")  # type: ignore[attr-defined]
        return decompose(matrix)

    monkeypatch.setattr(torch.linalg, "eigh", failing_twice)
    v = torch.rand(1, 20, 3)
    values, vectors = eigh(v @ v.mT)
    torch.testing.assert_close((vectors * values[:, None, :]) @ vectors.mT, v @ v.mT)
    assert float((tried[2] - tried[1]).abs().max()) > 0


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 2, 3, 1), (2, 0, 1, 3)])
def test_moments_and_quadratic_forms_of_vectors_in_any_order_in_memory(order: tuple[int, ...]) -> None:
    lies = torch.randn(4, 5, 2, 3, dtype=torch.float64).permute(order).contiguous().requires_grad_()
    back = torch.tensor(order).argsort().tolist()
    x = lies.permute(back)  # (b, t, r, i)
    P = torch.randn(2, 3, 3, dtype=torch.float64)
    P = P + P.mT
    total = P.clone()
    add_second_moment_(total, x.detach())
    torch.testing.assert_close(total, P + torch.einsum("btri,btrj->rij", x, x))
    torch.testing.assert_close(quadratic(x, P), torch.einsum("btri,rij,btrj->", x, P, x))
    assert torch.autograd.gradcheck(lambda x: quadratic(x.permute(back), P), (lies,))
    several = torch.stack([x, 2 * x + 1], dim=1)
    torch.testing.assert_close(bilinear(several, P), torch.einsum("bktri,rij,bltrj->bkl", several, P, several))


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("structure", ["kron", "diag", "full"])
def test_inner_with_batch_is_the_inner_product_with_the_batchs_curvature(structure: str, network: str) -> None:
    case = make_case(network)
    evidence = case.evidence(structure)
    batch = next(evidence.examples(case.data).batches(10))
    pass_ = evidence.gradient_pass(case.draw)
    _, curvature = pass_.batch(batch, differentiable=False)
    cotangent = curvature.cotangent(evidence.prior.precisions())
    _, tape, columns = pass_.recorded(batch, differentiable=True)
    torch.testing.assert_close(cotangent.inner_with_batch(tape, columns).detach(), cotangent.inner(curvature))


@pytest.mark.parametrize("structure", ["kron", "diag"])
def test_a_ratio_of_determinants_next_to_one_keeps_its_digits(structure: str) -> None:
    """Of a curvature that is tiny beside the precisions, the ratio is its trace divided by them."""
    case = make_case("mlp")
    made = curvature(case, structure)
    tiny = made.with_tensors([t * 1e-10 if t.dim() else t for t in made.tensors()])  # positions stay as they are
    prior = lila.GaussianPrior(case.net, "scalar", precision=2.0)
    found = float(tiny.log_det_ratio(prior.precisions()).detach())
    assert found == pytest.approx(float(dense(tiny).trace()) / 2.0, rel=1e-8, abs=0.0)
