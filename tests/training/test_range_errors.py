import json
from dataclasses import replace
from math import inf
from pathlib import Path

import pytest
import torch
from test_fit import QUICK, data, network

import lila
from lila.results.report.page import write_report
from lila.results.report.sheet import sheet_of_folder
from lila.training.range_errors import affordable_examples, errors_of
from lila.training.range_table import range_table
from lila.training.setup import new_state

NAMES = ["x-translation", "rotation", "shear"]


def test_errors_are_the_roots_of_the_inverse_curvature() -> None:
    augmentation = lila.Affine2d(NAMES, init=[0.2, -0.5, 0.0]).double()
    before = augmentation.eta.detach().clone()
    hessian = -torch.tensor([[4.0, 1.0, 0.0], [1.0, 9.0, 0.0], [0.0, 0.0, 16.0]], dtype=torch.float64)
    errors = errors_of(augmentation, hessian)
    variances = torch.linalg.inv(-hessian).diagonal().sqrt().tolist()
    for name, expected in zip(NAMES, variances, strict=True):
        assert errors[name] == pytest.approx(expected, rel=1e-6)
    assert torch.equal(augmentation.eta.detach(), before)


def test_a_range_in_which_the_evidence_is_not_concave_has_no_error_and_the_others_hold_it() -> None:
    augmentation = lila.Affine2d(NAMES, init=0.2).double()
    hessian = torch.diag(torch.tensor([-4.0, 1.0, -16.0], dtype=torch.float64))
    assert errors_of(augmentation, hessian) == pytest.approx({"x-translation": 0.5, "rotation": None, "shear": 0.25})
    saddle = torch.tensor([[-1.0, 3.0, 0.0], [3.0, -2.0, 0.0], [0.0, 0.0, -16.0]], dtype=torch.float64)
    found = errors_of(augmentation, saddle)  # each alone is concave, not both together
    assert found["x-translation"] is None
    assert found["rotation"] == pytest.approx(0.5**0.5)
    assert errors_of(augmentation, -hessian) == pytest.approx({"x-translation": None, "rotation": 1.0, "shear": None})
    assert set(errors_of(augmentation, hessian * torch.nan).values()) == {None}


def test_a_range_at_its_limit_has_no_error_and_another_parameterisation_has_that_of_its_range() -> None:
    full_turn = lila.Affine2d(["rotation"], init=torch.pi).double()
    assert errors_of(full_turn, torch.full((1, 1), -4.0, dtype=torch.float64)) == {"rotation": None}
    soft = lila.Affine2d(["shear"], init=0.3, parameterisation="softplus").double()
    slope = 1 - torch.tensor(-0.3, dtype=torch.float64).exp()  # of log(1 + e^eta), where that is 0.3
    (error,) = errors_of(soft, torch.full((1, 1), -4.0, dtype=torch.float64)).values()
    assert error == pytest.approx(float(slope) / 2, rel=1e-2)


def test_error_bars_take_a_tenth_of_the_hyper_steps_or_are_left_out() -> None:
    settings = lila.Settings(hyper_batch=32, batch_size=32).resolved(1000)
    state = new_state(network(), lila.Affine2d(), lila.Categorical(), settings, data())
    assert affordable_examples(state, settings, 1000, hyper_steps=1000) == 0.1 * 1000 * 32 // 12
    assert affordable_examples(state, settings, 1000, hyper_steps=100) == 0
    assert affordable_examples(state, settings, 20, hyper_steps=200) == 20
    for method in ("augerino", "non-invariant"):
        other = replace(settings, method=method)
        assert affordable_examples(state, other, 1000, hyper_steps=1000) == 0


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose hyper-steps pay for error bars."""
    folder = tmp_path_factory.mktemp("errors") / "run"
    quick = QUICK | {"epochs": 32, "samples": 2, "hyper_every": 1}
    augmentation = lila.Affine2d(["rotation", "x-translation"])
    lila.fit(network(), data(12), augmentation, progress="silent", folder=folder, **quick)
    return folder


def test_a_run_has_error_bars_everywhere(folder: Path) -> None:
    run = lila.load(folder)
    assert run.range_errors is not None
    assert list(run.range_errors) == list(run.ranges)
    table = range_table(run.model.augmentation, run.shape, run.history, run.range_errors)
    write_report([sheet_of_folder(folder)], folder / "report.html")
    page, summary = (folder / "report.html").read_text(), " ".join(run.summary().split())
    for row in table.rows:
        for text in (row.error, row.spread):
            assert text is not None
            assert text in summary
            assert text in page
    for note in table.notes:
        assert note in summary
    assert "last epochs" in page
    assert "spread over seeds" in page


def test_what_has_no_maximum_is_said_in_words(folder: Path) -> None:
    run = replace(lila.load(folder), range_errors={"rotation": None, "x-translation": 0.1})
    summary = " ".join(run.summary().split())
    assert "the evidence is not concave in rotation but flat or rising" in summary
    assert "the other errors hold that fixed." in summary
    without = replace(run, range_errors=None).summary()
    assert "concave" not in without
    assert "error" not in without


@pytest.mark.parametrize("value", [-1.0, inf, "much", {"rotation": 1.0}])
def test_damaged_error_bars_are_refused(folder: Path, tmp_path: Path, value: object) -> None:
    result = json.loads((folder / "result.json").read_text())
    errors = value if isinstance(value, dict) else {"rotation": value, "x-translation": None}
    for file in folder.glob("*"):
        if file.is_file():
            (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "result.json").write_text(json.dumps(result | {"range_errors": errors}))
    with pytest.raises(lila.CheckpointError):
        lila.load(tmp_path)
