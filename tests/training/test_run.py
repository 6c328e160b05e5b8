from pathlib import Path

import pytest
import torch
from test_fit import QUICK, assert_same, data, network, run
from torch import nn
from torch.utils.data import Subset, TensorDataset

import lila
from cases import Gamma, Residual
from lila.laplace.terms import Terms
from lila.training.architecture import build, describe


@pytest.mark.parametrize("method", ["lila", "non-invariant", "fixed-loss"])
def test_a_loaded_run_predicts_the_same_numbers(tmp_path: Path, method: str) -> None:
    made = run(method)
    made.save(tmp_path)
    loaded = lila.load(tmp_path)
    assert_same(made, loaded)
    x = data()[0]
    assert torch.equal(made.model.eval()(x), loaded.model.eval()(x))
    assert loaded.settings == made.settings
    assert loaded.history == made.history
    assert loaded.summary() == made.summary()
    assert loaded.test == made.test
    assert (loaded.evidence and loaded.evidence.value) == (made.evidence and made.evidence.value)


class Named(TensorDataset):
    """A Dataset that knows what its classes are called, as those of torchvision do."""

    classes = ("cat", "dog", "frog")


def test_a_run_trained_into_a_folder_can_be_loaded_from_it(tmp_path: Path) -> None:
    some = Subset(Named(*data64()), range(len(data64()[0])))
    made = lila.fit(network().double(), some, lila.Affine2d(), folder=tmp_path, test=data64(), **QUICK)
    loaded = lila.load(tmp_path)
    assert loaded.classes == made.classes == Named.classes
    assert_same(made, loaded)
    assert next(loaded.model.parameters()).dtype == torch.float64
    assert loaded.test == made.test
    assert set(made.test or {}) == {"log_likelihood", "accuracy", "calibration_error", "brier"}


def data64() -> tuple[torch.Tensor, torch.Tensor]:
    return data()[0].double(), data()[1]


def test_saving_does_not_overwrite_a_run(tmp_path: Path) -> None:
    made = run(epochs=1, burn_in=0)
    made.save(tmp_path)
    with pytest.raises(lila.ArgumentError, match="already holds a run"):
        made.save(tmp_path)


class OwnNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = network()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.body(x)
        return out


def test_a_network_of_ones_own_must_be_brought_to_load(tmp_path: Path) -> None:
    made = lila.fit(OwnNet(), data(), lila.Compose(lila.Affine2d(["rotation"]), Gamma()), folder=tmp_path, **QUICK)
    with pytest.raises(lila.ArgumentError, match=r"lila\.load\(folder, net=\.\.\.\)"):
        lila.load(tmp_path)
    with pytest.raises(lila.ArgumentError, match=r"lila\.load\(folder, augmentation=\.\.\.\)"):
        lila.load(tmp_path, net=OwnNet())
    loaded = lila.load(tmp_path, net=OwnNet(), augmentation=lila.Compose(lila.Affine2d(["rotation"]), Gamma()))
    assert_same(made, loaded)


@pytest.mark.parametrize(
    "module",
    [
        nn.Linear(3, 4, bias=False),
        nn.Sequential(
            nn.Conv2d(2, 4, (3, 5), stride=2, padding="valid", groups=2), nn.ReLU(inplace=True), nn.Flatten()
        ),
        nn.Sequential(nn.MaxPool2d(2), nn.GroupNorm(2, 4, affine=False), nn.LayerNorm((3, 4)), nn.Softplus(beta=2)),
        nn.Sequential(nn.Sequential(nn.Conv1d(1, 1, 3, padding_mode="circular", padding=1)), nn.GELU("tanh")),
        lila.model.fixup.Scale(),
    ],
)
def test_described_modules_are_built_again(module: nn.Module) -> None:
    description = describe(module)
    assert description is not None
    assert repr(build(description)) == repr(module)


@pytest.mark.parametrize(
    "augmentation",
    [
        lila.Affine2d(["shear", "rotation"], padding="border", parameterisation="softplus"),
        lila.Rotation2d(parameterisation="inverse"),
        lila.Compose(lila.Affine2d(), lila.Compose()),
    ],
)
def test_described_augmentations_are_built_again(augmentation: lila.Augmentation) -> None:
    description = describe(augmentation)
    assert description is not None
    made = build(description)
    assert isinstance(made, lila.Augmentation)
    assert made.noise_dim == augmentation.noise_dim
    assert list(made.state_dict()) == list(augmentation.state_dict())
    if isinstance(augmentation, lila.Affine2d):
        assert isinstance(made, lila.Affine2d)
        assert (made.names, made.padding) == (augmentation.names, augmentation.padding)
        assert made.parameterisation is augmentation.parameterisation


def test_what_cannot_be_described_is_not() -> None:
    assert describe(Residual(2)) is None
    assert describe(nn.Sequential(nn.ReLU(), OwnNet())) is None
    assert describe(nn.MultiheadAttention(4, 1)) is None


def test_a_description_names_no_other_classes() -> None:
    with pytest.raises(lila.CheckpointError, match=r"neither of torch\.nn nor of lila"):
        build({"class": "os.system", "arguments": {}})
    with pytest.raises(lila.CheckpointError, match="neither"):
        build({"class": "torch.nn.init", "arguments": {}})


@pytest.mark.parametrize("name", ["run.json", "result.json"])
@pytest.mark.parametrize("content", ["{}", "[1]", "null"])
def test_a_run_whose_files_hold_something_else_is_named(tmp_path: Path, name: str, content: str) -> None:
    run().save(tmp_path)
    (tmp_path / name).write_text(content)
    with pytest.raises(lila.CheckpointError, match=name):
        lila.load(tmp_path)


def test_a_run_is_shown_in_a_few_lines() -> None:
    shown = repr(run(epochs=1, burn_in=0))
    assert len(shown.splitlines()) <= 4
    for word in ("method='lila'", "examples=20", "rotation ±"):
        assert word in shown


def test_the_evidence_is_told_per_example() -> None:
    terms = Terms(log_likelihood=-23.0, weight_penalty=-40.0, occam_factor=-17.0)
    assert terms.per_example(100) == "evidence -0.800 nats per example = -0.230 fit - 0.570 complexity"
    made = run(epochs=1, burn_in=0)
    assert made.evidence.per_example(20) in made.summary()
