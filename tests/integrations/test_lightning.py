"""LilaCallback with the real Lightning: a Trainer that learns ranges, logs and saves them, and goes on."""

from inspect import signature
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

import lila
from lila.integrations.lightning import LilaCallback

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning", "ignore::DeprecationWarning")
SETTINGS: dict[str, Any] = {"samples": 4, "burn_in": 1, "hyper_every": 1}
GENERATOR = torch.Generator().manual_seed(6)
X, Y = torch.rand(24, 1, 5, 5, generator=GENERATOR), torch.arange(24) % 3
LOADER: DataLoader[Any] = DataLoader(TensorDataset(X, Y), batch_size=8, sampler=range(len(X)))


class Classifier(LightningModule):
    """A usual LightningModule; only the seed of each batch is there for the sake of the tests."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.net = nn.Sequential(nn.Flatten(), nn.Linear(25, 8), nn.Tanh(), nn.Linear(8, 3))
        self.outputs: list[Tensor] = []

    def forward(self, x: Tensor) -> Tensor:
        outputs: Tensor = self.net(x)
        return outputs

    def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:
        torch.manual_seed(int(self.trainer.global_step))

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        x, y = (batch["image"], batch["label"]) if isinstance(batch, dict) else batch[:2]
        return F.cross_entropy(self(x), y)

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        self.outputs.append(self(batch[0]))

    def predict_step(self, batch: Any, batch_idx: int) -> Tensor:
        return self(batch[0])

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=0.01, weight_decay=0.0)


def trainer(folder: Path, *callbacks: Any, epochs: int = 4, **options: Any) -> Trainer:
    quiet: dict[str, Any] = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    quiet |= {"accelerator": "cpu", "devices": 1, "default_root_dir": folder, "max_epochs": epochs}
    quiet |= {"enable_checkpointing": any(isinstance(c, ModelCheckpoint) for c in callbacks)}
    return Trainer(callbacks=list(callbacks), **(quiet | options))


def callback(**changes: Any) -> LilaCallback:
    return LilaCallback(lila.Affine2d(), **(SETTINGS | changes))


def trained(folder: Path, loader: Any = LOADER, **changes: Any) -> tuple[Classifier, LilaCallback]:
    module, made = Classifier(), callback(**changes)
    trainer(folder, made).fit(module, loader)
    return module, made


def tensors(module: nn.Module, made: LilaCallback) -> dict[str, Tensor]:
    assert made.hyper is not None
    return {**module.state_dict(), **made.hyper.state_dict()}


def assert_equal(found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        torch.testing.assert_close(found[name], tensor, rtol=0, atol=0, equal_nan=True)


def test_a_trainer_does_what_a_plain_loop_does(tmp_path: Path) -> None:
    module, made = trained(tmp_path)
    assert all(value != 0 for value in made.ranges.values())
    assert all(p.requires_grad for p in made.augmentation.parameters())
    plain = Classifier()
    hyper = lila.HyperOptimiser.for_loader(plain.net, lila.Affine2d(), LOADER, 4, **SETTINGS)
    optimiser = torch.optim.AdamW(plain.parameters(), lr=0.01, weight_decay=0.0)
    for step, (x, y) in enumerate([*LOADER] * 4):
        torch.manual_seed(step)
        hyper.step(x, y)
        optimiser.zero_grad()
        (F.cross_entropy(hyper.training_model(x), y) + hyper.prior_loss()).backward()
        optimiser.step()
    assert_equal(tensors(module, made), {**plain.state_dict(), **hyper.state_dict()})


def test_a_checkpoint_holds_what_was_learned_and_training_goes_on_bit_for_bit(tmp_path: Path) -> None:
    whole = trained(tmp_path)
    first = ModelCheckpoint(tmp_path / "saved", every_n_epochs=2, save_top_k=-1, filename="{epoch}")
    trainer(tmp_path, callback(), first).fit(Classifier(), LOADER)
    path = tmp_path / "saved" / "epoch=1.ckpt"
    saved = torch.load(path, weights_only=True)
    assert saved["state_dict"].keys() == Classifier().state_dict().keys()  # those of the plain network
    module, made = Classifier(), callback()
    trainer(tmp_path, made).fit(module, LOADER, ckpt_path=str(path))
    assert_equal(tensors(module, made), tensors(*whole))


def test_validation_and_predictions_are_those_of_the_averaged_network(tmp_path: Path) -> None:
    module, made = Classifier(), callback()
    checkpoint = ModelCheckpoint(tmp_path / "saved", save_last=True)
    used = trainer(tmp_path, made, checkpoint)
    used.fit(module, LOADER, LOADER)
    assert made.hyper is not None
    with torch.no_grad():
        expected = made.hyper.model.eval()(X)
        assert not torch.allclose(expected, module(X))
    torch.testing.assert_close(torch.cat(module.outputs[-3:]), expected)
    assert isinstance(module.net, nn.Sequential)
    predicted = used.predict(module, LOADER)
    torch.testing.assert_close(torch.cat(predicted), expected)  # type: ignore[arg-type]
    predict: Any = trainer(tmp_path, callback()).predict
    safely = {"weights_only": True} if "weights_only" in signature(predict).parameters else {}  # from 2.6 on
    elsewhere = predict(Classifier(), LOADER, ckpt_path=str(tmp_path / "saved" / "last.ckpt"), **safely)
    torch.testing.assert_close(torch.cat(elsewhere), expected)


def test_ranges_and_evidence_are_logged(tmp_path: Path) -> None:
    module, made = Classifier(), callback()
    used = trainer(tmp_path, made)
    used.fit(module, LOADER)
    logged = {name: float(value) for name, value in used.logged_metrics.items()}
    assert logged["ranges/rotation"] == pytest.approx(made.ranges["rotation"])
    parts = logged["evidence/log_likelihood"] + logged["evidence/weight_penalty"] + logged["evidence/occam_factor"]
    assert logged["evidence/value"] == pytest.approx(parts)


@pytest.mark.parametrize(
    "options",
    [
        {"precision": "bf16-mixed", "gradient_clip_val": 0.5, "accumulate_grad_batches": 2},
        {"limit_train_batches": 2},
        {"max_epochs": -1, "max_steps": 6, "accumulate_grad_batches": 2},
    ],
)
def test_it_goes_with_the_options_of_a_trainer(options: dict[str, Any], tmp_path: Path) -> None:
    module, made = Classifier(), callback()
    trainer(tmp_path, made, **options).fit(module, LOADER)
    assert made.hyper is not None
    assert made.hyper.taken == made.hyper.steps
    assert any(made.ranges.values())
    assert all(weight.dtype == torch.float32 for weight in module.parameters())


class Dictionaries(Dataset[dict[str, Any]]):
    def __len__(self) -> int:
        return len(X)

    def __getitem__(self, i: int) -> dict[str, Any]:
        return {"image": X[i], "label": Y[i]}


def test_batches_are_dictionaries_or_triples_too(tmp_path: Path) -> None:
    expected = tensors(*trained(tmp_path))
    named = DataLoader(Dictionaries(), batch_size=8, sampler=range(len(X)))
    assert_equal(tensors(*trained(tmp_path, named, fields=("image", "label"))), expected)
    triples: DataLoader[Any] = DataLoader(TensorDataset(X, Y, torch.ones(24)), batch_size=8, sampler=range(len(X)))
    found = tensors(*trained(tmp_path, triples, fields=(0, 1, 2)))
    torch.testing.assert_close(found["net.1.weight"], expected["net.1.weight"])


class TwoOptimisers(Classifier):
    def __init__(self) -> None:
        super().__init__()
        self.automatic_optimization = False

    def configure_optimizers(self) -> Any:
        return [torch.optim.SGD(self.net[1].parameters(), lr=0.1), torch.optim.SGD(self.net[3].parameters(), lr=0.1)]


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Any:
        return iter(zip(X, Y, strict=True))


@pytest.mark.parametrize(
    ("module", "loader", "changes", "message"),
    [
        (Classifier, LOADER, {"network": "model"}, "no module 'model' to average over views; it has 'net'"),
        (TwoOptimisers, LOADER, {}, "one optimiser, but there are 2"),
        (Classifier, [LOADER, LOADER], {}, "must be a torch.utils.data.DataLoader"),
        (Classifier, DataLoader(Stream(), batch_size=8), {"max_epochs": -1}, "give max_epochs or max_steps"),
        (Classifier, LOADER, {"lr": 0.1}, "there is no setting 'lr'"),
    ],
)
def test_what_it_does_not_go_with_is_refused(
    module: Any, loader: Any, changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    options = {name: changes.pop(name) for name in ("max_epochs",) if name in changes}
    with pytest.raises(lila.ArgumentError, match=message):
        trainer(tmp_path, callback(**changes), **options).fit(module(), loader)


def test_a_failed_step_leaves_the_network_as_it_was(tmp_path: Path) -> None:
    class Failing(Classifier):
        def training_step(self, batch: Any, batch_idx: int) -> Tensor:
            raise RuntimeError("stop")

    module, made = Failing(), callback()
    with pytest.raises(RuntimeError, match="stop"):
        trainer(tmp_path, made).fit(module, LOADER)
    assert isinstance(module.net, nn.Sequential)
    assert all(p.requires_grad for p in made.augmentation.parameters())
    with pytest.raises(lila.ArgumentError, match="input, the target and perhaps a weight"):
        callback(fields=("image",))
