import json
from pathlib import Path
from typing import Any

import pytest
import torch
from test_fit import QUICK, data, network

import lila
from lila.training import loop, steps
from lila.training.scores import never_predicted
from lila.training.state import State


def test_a_run_knows_what_the_constant_answer_is_worth(tmp_path: Path) -> None:
    x, y = data()
    made = lila.fit(network(), (x, y), lila.Affine2d(), test=data(7), folder=tmp_path, progress="silent", **QUICK)
    constant = made.baselines.constant
    assert constant is not None
    counts = torch.bincount(y, minlength=3).double()
    expected = torch.lgamma(torch.tensor(3.0)) + torch.lgamma(counts + 1).sum() - torch.lgamma(torch.tensor(23.0))
    assert constant.evidence == pytest.approx(float(expected), rel=1e-6)
    assert constant.train["accuracy"] == pytest.approx(float(counts.max() / 20))
    assert constant.test is not None
    assert constant.test["accuracy"] == pytest.approx(float((data(7)[1] == counts.argmax()).float().mean()))
    assert f"evidence {constant.evidence:.1f} nats" in made.summary()
    loaded = lila.load(tmp_path)
    assert loaded.baselines == made.baselines
    assert loaded.never_predicted == made.never_predicted
    result = json.loads((tmp_path / "result.json").read_text())
    result["baselines"]["constant"]["evidence"] = "much"
    (tmp_path / "result.json").write_text(json.dumps(result))
    with pytest.raises(lila.CheckpointError, match=r"baselines\.constant\.evidence must be a number"):
        lila.load(tmp_path)


def test_targets_of_a_dataset_are_read_once_from_it() -> None:
    x, y = data()
    pairs = torch.utils.data.TensorDataset(x, y)
    by_tensors, by_dataset = (
        lila.fit(network(), given, lila.Affine2d(), progress="silent", **QUICK).baselines for given in ((x, y), pairs)
    )
    assert by_tensors == by_dataset
    assert by_tensors.constant is not None
    assert by_tensors.constant.test is None


def test_classes_that_are_never_predicted() -> None:
    f = torch.zeros(12, 4)
    f[:, 0] = 1
    y = torch.tensor([0] * 5 + [1] * 5 + [2] * 2)
    assert never_predicted(f, y) == (1,)  # of class 2 there are few examples, of class 3 none
    f[7, 1] = 2
    assert never_predicted(f, y) == ()


def compared(folder: Path | None = None, **changes: Any) -> lila.Run:
    options = {"test": data(12), "folder": folder, "baseline": True, "progress": "silent", **QUICK, **changes}
    return lila.fit(network(), data(), lila.Affine2d(), **options)


def test_the_same_network_without_invariance_is_a_plain_run_from_the_same_weights(tmp_path: Path) -> None:
    made = compared(tmp_path / "run")
    alone = lila.fit(network(), data(), test=data(12), progress="silent", **QUICK, method="non-invariant")
    worth = made.baselines.non_invariant
    assert worth is not None
    assert worth.evidence == alone.evidence.value
    assert worth.test == alone.test
    assert worth.train["accuracy"] == alone.history[-1].accuracy
    assert worth.test_gain is not None
    assert made.test is not None
    assert alone.test is not None
    gain = made.test["log_likelihood"] - alone.test["log_likelihood"]
    assert worth.test_gain == pytest.approx(gain, abs=1e-6)
    assert "without invariance: evidence" in made.summary()
    loaded = lila.load(tmp_path / "run")
    assert loaded.baselines == made.baselines
    assert lila.load(tmp_path / "run" / "non-invariant").evidence.value == worth.evidence


def test_a_plain_run_and_one_that_does_not_ask_have_no_plain_counterpart() -> None:
    assert compared(method="non-invariant").baselines.non_invariant is None
    assert compared(baseline=False).baselines.non_invariant is None


@pytest.mark.parametrize("epoch", [1, 3])  # before and after the first checkpoint of the plain network
def test_an_interruption_of_the_comparison_leaves_a_finished_run_that_can_be_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, epoch: int
) -> None:
    whole, cut = compared(tmp_path / "whole"), tmp_path / "cut"
    original = steps.train_epoch

    def interrupted(state: State, *arguments: Any, **options: Any) -> Any:
        if not state.model.augmentation.ranges and state.epoch == epoch - 1:
            raise KeyboardInterrupt
        return original(state, *arguments, **options)

    with monkeypatch.context() as patched:
        patched.setattr(loop, "train_epoch", interrupted)
        with pytest.raises(KeyboardInterrupt):
            compared(cut)
    finished = lila.load(cut)
    assert finished.baselines.constant == whole.baselines.constant
    assert finished.baselines.non_invariant is None
    resumed = lila.resume(cut, network(), data(), lila.Affine2d(), test=data(12), progress="silent")
    assert resumed.baselines == whole.baselines
    assert lila.load(cut).baselines == whole.baselines
