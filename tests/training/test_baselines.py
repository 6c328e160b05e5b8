import json
from pathlib import Path

import pytest
import torch
from test_fit import QUICK, data, network

import lila
from lila.training.scores import never_predicted


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
