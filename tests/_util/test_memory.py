import pytest
import torch
from torch import nn

import lila
from lila._util.allocation import Allocation
from lila._util.memory import available_bytes, readable_bytes
from lila.curvature.full import _MATRICES_HELD


class Made(torch.utils.data.Dataset[tuple[torch.Tensor, int]]):
    """Examples made when they are asked for, so that the data itself takes no memory."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        if index >= self.size:
            raise IndexError(index)
        return torch.full((1, 8, 8), (index % 7) / 7), index % 3


def peak(structure: str, examples: int, microbatch: int) -> int:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.Tanh(), nn.Flatten(), nn.Linear(144, 3))
    model = lila.InvariantModel(net, lila.Affine2d(init=0.1), samples=4)
    evidence = lila.Evidence(
        model, lila.Categorical(), lila.GaussianPrior(net), structure=structure, microbatch=microbatch
    )
    with Allocation() as allocation:
        evidence.gradient(Made(examples), evidence.estimate(Made(examples)))
    return allocation.peak


@pytest.mark.parametrize("structure", ["kron", "diag", "full"])
def test_peak_memory_does_not_grow_with_the_data(structure: str) -> None:
    few, many = peak(structure, 16, microbatch=8), peak(structure, 160, microbatch=8)
    assert many == pytest.approx(few, rel=0.01)


@pytest.mark.parametrize("structure", ["kron", "diag"])
def test_peak_memory_is_set_by_the_microbatch(structure: str) -> None:
    """So many bytes for each of its examples, beside the factors, which are there whatever the microbatch."""
    small, middle, large = (peak(structure, 160, microbatch=microbatch) for microbatch in (32, 64, 128))
    assert large - middle == pytest.approx(2 * (middle - small), rel=0.05)
    assert large > 2 * small


def test_the_counter_sees_a_graph_that_is_kept() -> None:
    """What the test above would catch: a graph that lives from batch to batch."""

    def run(steps: int) -> int:
        x = torch.rand(1000, requires_grad=True)
        total = torch.zeros(())
        with Allocation() as allocation:
            for _ in range(steps):
                total = total + x.sin().square().sum()
        return allocation.peak

    assert run(20) > 5 * run(2)


def test_a_full_matrix_that_does_not_fit_says_how_much_it_needs_and_changes_nothing() -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(4096, 1000), nn.Linear(1000, 2))
    model = lila.InvariantModel(net, lila.Affine2d(), samples=1)
    evidence = lila.Evidence(model, lila.Categorical(), lila.GaussianPrior(net), structure="full")
    with pytest.raises(lila.MemoryBudgetError, match=r"4,099,002 weights needs about .* TiB.*structure='kron'"):
        evidence.estimate((torch.rand(2, 1, 64, 64), torch.tensor([0, 1])))
    assert not any(module._forward_hooks for module in net.modules())


def test_the_memory_of_a_full_matrix_is_what_is_asked_for() -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 12), nn.Tanh(), nn.Linear(12, 3))
    model = lila.InvariantModel(net, lila.Affine2d(init=0.1), samples=2)
    evidence = lila.Evidence(model, lila.Categorical(), lila.GaussianPrior(net), structure="full", microbatch=2)
    with Allocation() as allocation:
        evidence.gradient(Made(6), evidence.estimate(Made(6)))
    matrix = 4 * sum(p.numel() for p in net.parameters()) ** 2
    assert allocation.peak / matrix == pytest.approx(_MATRICES_HELD, rel=0.01)


def test_readable_bytes() -> None:
    assert [readable_bytes(n) for n in (0, 1023, 1536, 5 * 2**20, 3 * 2**40, 5000 * 2**40)] == [
        "0 B",
        "1.02e+03 B",
        "1.5 KiB",
        "5 MiB",
        "3 TiB",
        "5e+03 TiB",
    ]
    assert available_bytes(torch.device("cpu")) > 2**20


def test_processes_of_a_run_share_the_memory_of_a_node(monkeypatch: pytest.MonkeyPatch) -> None:
    alone = available_bytes(torch.device("cpu"))
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    assert available_bytes(torch.device("cpu")) == pytest.approx(alone / 4, rel=0.1)
