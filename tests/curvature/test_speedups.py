"""Each speed-up leaves values and gradients as they are: the results with it and without it agree."""

from dataclasses import fields

import pytest
import torch
from torch import Tensor, nn

import lila
from cases import CHANNELS, NETWORKS, OUTPUTS, Case, case_of, make_case
from lila.curvature import Samples, Speedups, Tape, find_layers, record
from lila.curvature.autograd.column_chunks import columns_at_once
from lila.laplace.running import RunningEvidence
from lila.model.fixup import Bias

SWITCHES = [field.name for field in fields(Speedups)]


def results(case: Case, structure: str, speedups: Speedups, kind: str = "ggn") -> tuple[Tensor, dict[str, Tensor]]:
    """The tensors of the curvature in one vector, with the evidence as its last entry; and all gradients."""
    evidence = case.evidence(structure, kind, microbatch=2, speedups=speedups)
    estimate = evidence.estimate(case.data, case.draw, audit=False)
    tensors = [tensor.flatten() for tensor in estimate.curvature.tensors()]
    value = torch.tensor([estimate.value], dtype=torch.float64)
    return torch.cat([*tensors, value]), evidence.gradient(case.data, estimate)


@pytest.mark.parametrize("structure", ["kron", "diag", "full"])
@pytest.mark.parametrize("network", NETWORKS)
def test_without_any_speedup_everything_is_the_same(network: str, structure: str) -> None:
    case = make_case(network)
    torch.testing.assert_close(results(case, structure, Speedups()), results(case, structure, Speedups.none()))


@pytest.mark.parametrize("kind", ["ggn", "ef"])
@pytest.mark.parametrize("switch", SWITCHES)
@pytest.mark.parametrize("network", NETWORKS)
def test_each_speedup_alone_changes_nothing(network: str, switch: str, kind: str) -> None:
    case = make_case(network)
    plain = results(case, "kron", Speedups.none(), kind)
    alone = Speedups(**{name: name == switch for name in SWITCHES})
    torch.testing.assert_close(results(case, "kron", alone, kind), plain)


@pytest.mark.parametrize("switch", SWITCHES)
@pytest.mark.parametrize("network", ["mlp", "residual", "rectified"])
def test_a_hyper_step_is_the_same_without_each_speedup(network: str, switch: str) -> None:
    case = make_case(network, n=4)

    def gradients(speedups: Speedups) -> dict[str, Tensor]:
        evidence = case.evidence("kron", speedups=speedups)
        batch = next(evidence.examples(case.data).batches(4))
        running = RunningEvidence(evidence, 4, batch)
        running.add(batch, case.draw, 4)
        running.decompose(move_prior=False)
        return running.add(batch, lila.Draw(3), 4)

    torch.testing.assert_close(gradients(Speedups(**{switch: False})), gradients(Speedups()))


def biased_relu() -> nn.Module:
    """A network to which every speed-up applies."""
    return nn.Sequential(nn.Conv2d(CHANNELS, 3, 3), Bias(0.1), nn.ReLU(), nn.Flatten(), nn.Linear(27, OUTPUTS))


def taped(speedups: Speedups) -> tuple[list[Tensor], Tape]:
    """The outputs of the first convolution in a recording of a network, and its tape."""
    case = case_of(biased_relu(), samples=3)
    seen: list[Tensor] = []
    case.net[0].register_forward_hook(lambda module, args, output: seen.append(output))  # type: ignore[index]
    model = case.model.in_fast_layout(case.x) if speedups.channels_last else case.model
    seen.clear()
    layers = find_layers(case.net)
    tape = record(model, layers, case.x, case.noise(), Samples.AVERAGED, differentiable=True, speedups=speedups)
    return seen, tape


@pytest.mark.parametrize("on", [True, False])
def test_every_switch_switches_something(on: bool) -> None:
    """A switch that did nothing would pass the comparisons above."""
    (made,), tape = taped(Speedups() if on else Speedups.none())
    assert made.is_contiguous(memory_format=torch.channels_last) is on
    assert (type(made.grad_fn).__name__ == "_ConstantConvolutionBackward") is on
    conv, bias = tape.edges[0][0], tape.edges[1][0]
    assert (conv.node is bias.node) is on
    assert tape.constant_jacobian is on
    assert (tape.head == 2) is on
    assert columns_at_once(tape) == (3 if on else 1)


def test_a_layout_is_chosen_by_one_image_and_changes_no_model() -> None:
    """Choosing the layout runs the network on one image, and asking for a layout again runs it no more."""
    case = case_of(biased_relu())
    sizes: list[int] = []
    case.net.register_forward_hook(lambda module, args, output: sizes.append(len(args[0])))
    fast = case.model.in_fast_layout(case.x)
    assert sizes == [1]
    assert fast.in_fast_layout(case.x) is fast
    assert sizes == [1]
    assert not case.model.channels_last
    assert fast.net is case.net
