"""Networks for time series and for sets of points."""

import pytest
import torch

import lila
from lila.laplace.evidence import Evidence
from lila.networks import ModelName, make_model
from lila.training.architecture import build, describe

SHAPES = {"cnn1d": [(1, 40), (3, 17), (2, 1)], "pointnet": [(24, 3), (1, 3)]}
CASES = [(name, shape) for name, shapes in SHAPES.items() for shape in shapes]


@pytest.mark.parametrize(("name", "shape"), CASES)
def test_each_maps_inputs_to_an_output_per_class_and_is_described(name: str, shape: tuple[int, int]) -> None:
    net = make_model(name, shape, 4)
    x = torch.randn(3, *shape)
    assert net(x).shape == (3, 4)
    description = describe(net)
    assert description is not None
    again = build(description)
    again.load_state_dict(net.state_dict())
    torch.testing.assert_close(again(x), net(x))


@pytest.mark.parametrize(
    ("name", "shape", "family"), [("cnn1d", (1, 12), lila.TimeSeries), ("pointnet", (5, 3), lila.PointCloud)]
)
def test_the_evidence_of_each_passes_the_audit(
    name: str, shape: tuple[int, int], family: type[lila.TimeSeries] | type[lila.PointCloud]
) -> None:
    torch.manual_seed(0)
    net = make_model(name, shape, 2)
    model = lila.InvariantModel(net, family(init=0.1), samples=2)
    evidence = Evidence(model, lila.Categorical(), lila.GaussianPrior(net))
    estimate = evidence.estimate((torch.randn(6, *shape), torch.arange(6) % 2))
    assert torch.isfinite(torch.tensor(estimate.value))


def test_the_order_of_points_does_not_matter() -> None:
    net, x = make_model("pointnet", (6, 3), 2), torch.randn(4, 6, 3)
    torch.testing.assert_close(net(x[:, torch.randperm(6)]), net(x))


@pytest.mark.parametrize("name", [name for name in ModelName if name != "mlp"])
def test_a_network_for_other_inputs_is_refused(name: str) -> None:
    shape = (1, 28, 28) if name in SHAPES else (3, 28)
    with pytest.raises(lila.ArgumentError, match=rf"{name} takes .* of shape .* but these inputs have shape"):
        make_model(name, shape, 2)
