"""Networks of timm and of Hugging Face as they are: they pass the audit, have the oracle's evidence, and learn."""

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torchvision_operators import declare_missing_operators

import lila
import oracles
from cases import CHANNELS, OUTPUTS, Case, affine
from dense import curvature, dense

pytestmark = [pytest.mark.networks, pytest.mark.filterwarnings("default")]
declare_missing_operators()
timm: Any = pytest.importorskip("timm", reason="run by `make test-networks`", exc_type=ImportError)
transformers: Any = pytest.importorskip("transformers", reason="run by `make test-networks`")

SHAPE = (3, 32, 32)
EXAMPLES = Path(__file__).parent.parent.parent / "examples"


class Logits(nn.Module):
    """A Hugging Face network that returns its logits alone."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.net(pixel_values=x).logits
        return logits


def hugging_face_vit(**options: Any) -> nn.Module:
    config = transformers.ViTConfig(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, **options)
    return Logits(transformers.ViTForImageClassification(config))


def collected(net: nn.Module, shape: tuple[int, int, int]) -> nn.Module:
    """The network with statistics of its batch norms that were collected, and frozen."""
    with torch.no_grad():
        for _ in range(5):
            net.train()(torch.randn(16, *shape))
    return lila.freeze_statistics(net)


LARGE: dict[str, Callable[[], nn.Module]] = {
    "resnet18": lambda: collected(timm.create_model("resnet18", num_classes=10), SHAPE),
    "vit_tiny": lambda: timm.create_model("vit_tiny_patch16_224", img_size=32, num_classes=10),
    "convnext_tiny": lambda: timm.create_model("convnext_tiny", num_classes=10),
    "hugging face vit": lambda: hugging_face_vit(
        image_size=32, patch_size=8, hidden_size=96, num_hidden_layers=4, num_attention_heads=3, intermediate_size=192,
        num_labels=10,
    ),
}  # fmt: skip


def images(count: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(count, *SHAPE, generator=generator), torch.randint(10, (count,), generator=generator)


@pytest.mark.parametrize("name", LARGE)
def test_the_real_networks_pass_the_audit_and_have_a_finite_gradient(name: str) -> None:
    torch.manual_seed(0)
    net = LARGE[name]()
    before = {key: tensor.clone() for key, tensor in net.state_dict().items()}
    model = lila.InvariantModel(net, lila.Affine2d(init=[0.1] * 6), samples=2)
    evidence = lila.Evidence(model, lila.Categorical(), lila.GaussianPrior(net), structure="diag", gradient_probes=1)
    estimate = evidence.estimate(images(4))
    assert estimate.value < 0
    gradients = evidence.gradient(images(4), estimate)
    assert all(gradient.isfinite().all() for gradient in gradients.values())
    assert (gradients["augmentation.eta"] != 0).all()
    torch.testing.assert_close(net.state_dict(), before, rtol=0, atol=0)


# Networks of the same code, small enough for the oracles --------------------------------------------------------------


def small_resnet() -> nn.Module:
    from timm.models.resnet import BasicBlock, ResNet

    stem = {"stem_type": "deep", "stem_width": 1, "in_chans": CHANNELS}
    net = ResNet(BasicBlock, [1, 1, 1, 1], num_classes=OUTPUTS, channels=(2, 2, 2, 3), **stem)
    return collected(net, (CHANNELS, 8, 8))


def small_vit() -> nn.Module:
    options = {"img_size": 8, "patch_size": 4, "embed_dim": 4, "depth": 1, "num_heads": 2, "in_chans": CHANNELS}
    net: nn.Module = timm.create_model("vit_tiny_patch16_224", num_classes=OUTPUTS, init_values=0.5, **options)
    return net


def small_convnext() -> nn.Module:
    stages = {"depths": (1, 0, 1, 0), "dims": (2, 2, 3, 2), "kernel_sizes": 3, "patch_size": 1}
    net: nn.Module = timm.models.convnext.ConvNeXt(in_chans=CHANNELS, num_classes=OUTPUTS, **stages)
    return net


def small_hugging_face_vit() -> nn.Module:
    sizes = {"image_size": 8, "patch_size": 4, "hidden_size": 4, "num_hidden_layers": 1, "num_attention_heads": 2}
    return hugging_face_vit(intermediate_size=5, num_channels=CHANNELS, num_labels=OUTPUTS, **sizes)


@pytest.mark.parametrize("samples", [1, 3])
@pytest.mark.parametrize("make", [small_resnet, small_vit, small_convnext, small_hugging_face_vit])
def test_small_ones_have_the_evidence_of_the_oracle(make: Callable[[], nn.Module], samples: int) -> None:
    torch.manual_seed(0)
    net = make()
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    model = lila.InvariantModel(net, affine(), samples).double()
    x = torch.randn(2, CHANNELS, 8, 8, dtype=torch.float64)
    case = Case(model, lila.Categorical().double(), x, torch.tensor([0, 2]), lila.Draw(seed=1))
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        expected = oracles.full_curvature(case).detach()
    torch.testing.assert_close(dense(curvature(case, "full")), expected)
    evidence = case.evidence("diag")
    estimate = evidence.estimate(case.data, case.draw)
    found = evidence.gradient(case.data, estimate)
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        assert list(estimate.terms().values()) == pytest.approx(
            [term.item() for term in oracles.terms(case, evidence.prior, "diag")]
        )
        for name, gradient in oracles.gradients(case, evidence, "diag").items():
            torch.testing.assert_close(found[name], gradient)
    case.evidence("kron").estimate(case.data, case.draw)


def test_a_network_of_timm_learns_by_name_from_the_command_line(tmp_path: Path) -> None:
    from lila.cli import main

    folder = tmp_path / "run"
    options = ["--epochs", "2", "--samples", "2", "--subset", "60", "--size", "16", "--no-baseline", "--json"]
    main(["train", "digits", "--model", "timm:test_resnet", "--out", str(folder), *options])
    assert (folder / "result.json").exists()


def test_names_that_timm_does_not_know_are_answered_with_similar_ones() -> None:
    with pytest.raises(lila.ModelError, match=r"timm has no network named 'resnet-18'.*resnet18"):
        lila.make_model("timm:resnet-18", SHAPE, 10)
    net = lila.make_model("timm:resnet18", SHAPE, 10)
    assert not any(isinstance(module, nn.BatchNorm2d) for module in net.modules())


@pytest.mark.parametrize("option", [[], ["--plain"]])
def test_the_example_of_fine_tuning_runs(
    option: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sizes = {
        "width": 4,
        "upright": 64,
        "upright-epochs": 1,
        "turned": 60,
        "turned-epochs": 2,
        "samples": 2,
        "tests": 20,
    }
    options = [word for name, size in sizes.items() for word in (f"--{name}", str(size))]
    monkeypatch.setattr("sys.argv", ["fine_tuning.py", "--data", "digits", "--samples", "2", *options, *option])
    runpy.run_path(str(EXAMPLES / "fine_tuning.py"), run_name="__main__")
    told = capsys.readouterr().out
    assert "Fine-tuned on 60 turned images" in told
    assert ("rotation" in told) == (not option)
    assert told.count("accuracy on upright images") == 2
