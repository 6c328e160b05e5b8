import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

import lila
import oracles
from lila.errors import ArgumentError, ModelError
from lila.networks import MODELS, FixupResNet, ModelName, ViT, WideFixupResNet, make_model
from lila.training.architecture import build, describe

Shape = tuple[int, int, int]
OTHERS = ("cnn1d", "pointnet")  # networks for other inputs than images
NAMES = [name.value for name in ModelName if name.value not in OTHERS]
TINY: dict[str, tuple[Callable[[], nn.Module], int]] = {
    "resnet": (lambda: FixupResNet(1, 2, depth=8, width=2), 5),
    "wide resnet": (lambda: WideFixupResNet(1, 2, depth=10, widening=1), 4),
    "vit": (lambda: ViT((1, 8, 8), 2, patch=4, width=8, depth=1, heads=2), 8),
}


def perturbed(net: nn.Module, scale: float = 0.2) -> nn.Module:
    """A network all of whose weights are away from where they start."""
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.add_(scale * torch.randn(parameter.shape, generator=generator).to(parameter.dtype))
    return net


def weights(net: nn.Module) -> int:
    return sum(parameter.numel() for parameter in net.parameters())


@pytest.mark.parametrize("outputs", [2, 10])
@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 32, 32), (1, 30, 30), (3, 29, 40)])
@pytest.mark.parametrize("name", NAMES)
def test_each_network_maps_images_to_an_output_per_class(name: str, shape: Shape, outputs: int) -> None:
    net = perturbed(make_model(name, shape, outputs), 0.02)
    found = net(torch.rand(2, *shape))
    assert found.shape == (2, outputs)
    assert found.isfinite().all()
    assert (found[0] != found[1]).all()


@pytest.mark.parametrize("shape", [(1, 16, 16), (3, 20, 24), (2, 5, 3)])
@pytest.mark.parametrize("name", [name for name in NAMES if name != "lenet"])
def test_small_and_rectangular_images_are_adapted_to(name: str, shape: Shape) -> None:
    net = perturbed(make_model(name, shape, 3), 0.02)
    found = net(torch.rand(2, *shape))
    assert found.shape == (2, 3)
    assert (found[0] != found[1]).all()


@pytest.mark.parametrize("shape", [(1, 27, 28), (1, 28, 27), (3, 16, 16)])
def test_lenet_refuses_images_that_are_too_small(shape: Shape) -> None:
    with pytest.raises(ArgumentError, match=f"at least 28 x 28 pixels, but these are {shape[1]} x {shape[2]}"):
        make_model("lenet", shape, 10)


@pytest.mark.parametrize("name", NAMES)
def test_each_example_is_mapped_on_its_own(name: str) -> None:
    net = perturbed(make_model(name, (1, 28, 28), 4), 0.02).double()
    x = torch.rand(3, 1, 28, 28, dtype=torch.float64)
    torch.testing.assert_close(torch.cat([net(x[:1]), net(x[1:])]), net(x))


@pytest.mark.parametrize(
    ("name", "shape", "count"),
    [
        ("mlp", (1, 28, 28), 784 * 1000 + 1000 + 1000 * 10 + 10),
        # 28, 14, 7, 4: a side of 7 is halved upwards.
        ("cnn", (1, 28, 28), 16 * 10 + 32 * 145 + 64 * 289 + 256 * (64 * 16 + 1) + 10 * 257),
        ("lenet", (1, 28, 28), 6 * 26 + 16 * (6 * 9 + 1) + 120 * (16 * 25 + 1) + 84 * 121 + 10 * 85),
        ("lenet", (3, 32, 32), 6 * 76 + 16 * (6 * 25 + 1) + 120 * (16 * 25 + 1) + 84 * 121 + 10 * 85),
        # Convolutions 3-8, 8-8-8, 8-16-16, 16-32-32; a bias after the first; five scalars and a scale per block; a bias
        # and a linear layer.
        (
            "resnet-8-8",
            (3, 32, 32),
            9 * (3 * 8 + 2 * 8 * 8 + 8 * 16 + 16 * 16 + 16 * 32 + 32 * 32) + 1 + 3 * 5 + 1 + 33 * 10,
        ),
        (
            "resnet-8-16",
            (3, 32, 32),
            9 * (3 * 16 + 2 * 16 * 16 + 16 * 32 + 32 * 32 + 32 * 64 + 64 * 64) + 1 + 3 * 5 + 1 + 65 * 10,
        ),
        (
            "wrn-16-4",
            (3, 32, 32),
            9 * (3 * 16 + 16 * 64 + 3 * 64**2 + 64 * 128 + 3 * 128**2 + 128 * 256 + 3 * 256**2)
            + (16 * 64 + 64 * 128 + 128 * 256)
            + 1
            + 6 * 5
            + 1
            + 257 * 10,
        ),
        (
            "vit",
            (1, 28, 28),
            64 * 17 + 4 * (2 * 128 + 64 * 192 + 192 + 64 * 64 + 64 + 2 * 64 * 256 + 256 + 64) + 128 + 650,
        ),
    ],
)
def test_networks_have_as_many_weights_as_their_descriptions_say(name: str, shape: Shape, count: int) -> None:
    assert weights(make_model(name, shape, 10)) == count


@pytest.mark.parametrize("name", ["resnet-8-8", "resnet-8-16", "wrn-16-4"])
def test_fixup_networks_start_at_zero_but_learn(name: str) -> None:
    net = make_model(name, (1, 12, 12), 3)
    x = torch.rand(4, 1, 12, 12)
    assert net(x).abs().max() == 0
    optimiser = torch.optim.SGD(net.parameters(), lr=0.05)
    targets = torch.tensor([0, 1, 2, 0])
    losses = []
    for _ in range(4):
        loss = nn.functional.cross_entropy(net(x), targets)
        losses.append(loss.item())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert losses[-1] < losses[0]


def test_fixup_shrinks_the_first_convolution_of_a_branch_by_the_root_of_the_branches() -> None:
    one, many = (FixupResNet(1, 2, depth=depth, width=64) for depth in (8, 50))
    expected = (24 / 3) ** 0.5
    few_branches, many_branches = (net.get_parameter("blocks.0.branch.0.weight").detach().std() for net in (one, many))
    assert float(few_branches / many_branches) == pytest.approx(expected, rel=0.03)


def convolutions(net: nn.Module) -> int:
    return sum(isinstance(module, nn.Conv2d) for module in net.modules())


def test_depth_counts_convolutions_and_in_a_plain_resnet_the_last_layer() -> None:
    for depth in (8, 14):
        assert convolutions(FixupResNet(1, 2, depth)) + 1 == depth
    for depth in (10, 16):
        assert convolutions(WideFixupResNet(1, 2, depth)) == depth


@pytest.mark.parametrize(
    ("make", "others", "depth"), [(FixupResNet, 2, 9), (FixupResNet, 2, 2), (WideFixupResNet, 4, 8)]
)
def test_a_depth_that_makes_no_whole_stages_is_refused(
    make: Callable[[int, int, int], nn.Module], others: int, depth: int
) -> None:
    with pytest.raises(ArgumentError, match=rf"6 n \+ {others} for some n, but is {depth}"):
        make(1, 2, depth)


def test_a_vit_sees_where_a_patch_is_and_pads_to_whole_patches() -> None:
    net = ViT((1, 10, 7), 2, patch=4, width=8, depth=1, heads=2)
    assert net.positions.shape == (3 * 2, 8)
    assert len(torch.unique(net.positions, dim=0)) == 6
    x = torch.zeros(2, 1, 10, 7)
    x[0, 0, 0, 0] = x[1, 0, 4, 4] = 5.0
    found = net(x)
    assert not torch.allclose(found[0], found[1])


@pytest.mark.parametrize(("width", "heads"), [(6, 2), (8, 3)])
def test_a_vit_of_an_impossible_width_is_refused(width: int, heads: int) -> None:
    with pytest.raises(ArgumentError, match=f"multiple of 4 and of its {heads} heads, but is {width}"):
        ViT((1, 8, 8), 2, width=width, heads=heads)


@pytest.mark.parametrize("name", NAMES)
def test_a_network_is_made_again_from_its_description_and_weights_bit_for_bit(name: str) -> None:
    net = perturbed(make_model(name, (1, 28, 30 if name != "lenet" else 28), 3), 0.02)
    description = describe(net)
    assert description is not None
    made = build(json.loads(json.dumps(description)))
    made.load_state_dict(net.state_dict())
    x = torch.rand(2, 1, 28, 30 if name != "lenet" else 28)
    assert torch.equal(made(x), net(x))
    assert made(x).abs().max() > 0


@pytest.mark.parametrize(
    "make",
    [
        lambda: FixupResNet(2, 3, depth=14, width=3),
        lambda: WideFixupResNet(2, 3, depth=10, widening=1),
        lambda: ViT((2, 6, 9), 3, patch=3, width=12, depth=2, heads=3),
    ],
)
def test_networks_of_other_arguments_are_described_with_them(make: Callable[[], nn.Module]) -> None:
    net = perturbed(make())
    description = describe(net)
    assert description is not None
    made = build(json.loads(json.dumps(description)))
    made.load_state_dict(net.state_dict())
    x = torch.rand(2, 2, 6, 9)
    assert torch.equal(made(x), net(x))


@pytest.mark.parametrize("structure", ["kron", "diag"])
@pytest.mark.parametrize("name", ["cnn", "resnet-8-8", "vit"])
def test_evidence_and_its_gradient_run(name: str, structure: str) -> None:
    net = perturbed(make_model(name, (1, 6, 6), 2), 0.02)
    model = lila.InvariantModel(net, lila.Affine2d(["rotation", "x-scale"], init=0.3), samples=2).double()
    evidence = lila.Evidence(model, lila.Categorical(), lila.GaussianPrior(net), structure=structure)
    x = torch.rand(2, 1, 6, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    data = x, torch.tensor([0, 1])
    estimate = evidence.estimate(data)
    gradient = evidence.gradient(data, estimate)
    assert torch.tensor(estimate.value).isfinite()
    assert gradient.keys() == evidence.hyperparameters().keys()
    assert gradient["augmentation.eta"].abs().min() > 0


@pytest.mark.parametrize(
    ("name", "structure"),
    [
        ("resnet", "kron"),
        ("resnet", "diag"),
        ("resnet", "full"),
        ("vit", "kron"),
        ("vit", "diag"),
        ("vit", "full"),
        ("wide resnet", "kron"),
        ("wide resnet", "diag"),
    ],
)
def test_gradient_of_the_evidence_is_that_of_central_differences(name: str, structure: str) -> None:
    make, side = TINY[name]
    net = perturbed(make().double())
    model = lila.InvariantModel(net, lila.Affine2d(["rotation", "x-scale", "shear"], init=[0.3, 0.2, 0.1]), samples=2)
    prior = lila.GaussianPrior(net, "scalar", precision=0.7)
    evidence = lila.Evidence(model.double(), lila.Categorical(), prior, structure=structure)
    x = torch.rand(2, 1, side, side, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    data = x, torch.tensor([0, 1])
    draw = lila.Draw(3)
    found = evidence.gradient(data, evidence.estimate(data, draw))
    for hyperparameter, parameter in evidence.hyperparameters().items():
        expected = oracles.central_differences(lambda: evidence.estimate(data, draw, audit=False).value, parameter)
        assert expected.abs().min() > 0
        torch.testing.assert_close(found[hyperparameter], expected, rtol=1e-4, atol=1e-5)


def test_every_name_has_a_network_and_an_unknown_one_is_told() -> None:
    assert set(MODELS) == set(ModelName)
    with pytest.raises(ArgumentError, match=r"no network named 'resnet'.*'resnet-8-8'"):
        make_model("resnet", (1, 28, 28), 10)


OWN = """
from torch import nn

answer = 42

def good(shape, outputs):
    return nn.Sequential(nn.Flatten(), nn.Linear(shape[0] * shape[1] * shape[2], outputs))

def bad(shape, outputs):
    return "not a network"
"""


@pytest.fixture
def own_networks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A package with a module of networks, by its name."""
    (tmp_path / "my_package").mkdir()
    (tmp_path / "my_package" / "networks.py").write_text(OWN)
    (tmp_path / "my_package" / "needs_more.py").write_text("import a_module_that_is_not_there")
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in [name for name in sys.modules if name.startswith("my_package")]:
        monkeypatch.delitem(sys.modules, name)
    return "my_package.networks"


def test_a_network_of_ones_own_is_made_by_the_name_of_its_function(own_networks: str) -> None:
    net = make_model(f"{own_networks}:good", (3, 4, 5), 7)
    assert isinstance(net, nn.Sequential)
    assert net(torch.rand(2, 3, 4, 5)).shape == (2, 7)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("my_package.networks:missing", "could not be made.*missing"),
        ("my_package.networks:", "could not be made"),
        ("my_package.nowhere:good", "could not be made.*nowhere"),
        ("my_package.needs_more:good", "could not be made.*a_module_that_is_not_there"),
        ("my_package.networks:bad", "must return a torch.nn.Module, but returned a str"),
        ("my_package.networks:answer", "my_package.networks:answer"),
        (":good", ":good"),
        (".networks:good", ".networks:good"),
    ],
)
@pytest.mark.usefixtures("own_networks")
def test_a_network_of_ones_own_that_cannot_be_made_is_told(name: str, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        make_model(name, (1, 4, 4), 2)


def test_without_timm_its_networks_are_refused_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(ModelError, match=r"could not be imported.*pip install 'lila-torch\[timm\]'"):
        make_model("timm:resnet18", (3, 32, 32), 10)


def test_group_norm_takes_the_place_of_batch_norm() -> None:
    shared = nn.BatchNorm2d(32, eps=1e-3).double()
    nn.init.normal_(shared.weight)
    inner = nn.Sequential(nn.Conv2d(1, 32, 1), shared)
    net = nn.ModuleList([inner, shared, nn.BatchNorm1d(6, affine=False), shared])
    assert lila.convert_batch_norm(net) is net
    first, second, third = inner[1], net[1], net[2]
    assert first is second
    assert first is net[3]
    assert isinstance(first, nn.GroupNorm)
    assert (first.num_groups, first.eps, first.weight.dtype) == (2, 1e-3, torch.float64)
    assert first.weight is shared.weight
    assert isinstance(third, nn.GroupNorm)
    assert not third.affine
    assert third(torch.randn(4, 6)).abs().min() > 0
    assert isinstance(lila.convert_batch_norm(nn.BatchNorm3d(4)), nn.GroupNorm)
