from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from test_fit import QUICK, data, network

import lila
from lila.data.task import Scaling
from lila.laplace.terms import Terms
from lila.results.report.page import write_report
from lila.results.report.sheet import sheet_of_folder
from lila.training.baselines import Baselines, PlainNetworkWorth, Worth
from lila.training.description import AugmentationDescription, TaskDescription

CONSTANT = Worth(
    evidence=-25.0,
    train={"accuracy": 0.4, "log_likelihood": -1.1},
    test={"accuracy": 0.4, "log_likelihood": -1.1},
)
PLAIN = PlainNetworkWorth(
    evidence=-22.0, train={}, test=CONSTANT.test, standard_error=0.0, test_gain=0.1, test_gain_error=0.02
)


@pytest.fixture(scope="module")
def sound() -> lila.Run:
    """A run in which nothing is wrong, by numbers that are made up."""
    made = lila.fit(network(), data(), lila.Affine2d(init=0.1), progress="silent", **QUICK | {"epochs": 2})
    made.model.augmentation.load_state_dict({"eta": torch.full((6,), 0.2)})
    return replace(
        made,
        evidence=Terms(-10.0, -5.0, -5.0),
        test={"accuracy": 0.8, "log_likelihood": -0.5},
        baselines=Baselines(constant=CONSTANT, non_invariant=PLAIN),
        never_predicted=(),
    )


def test_a_sound_run_has_no_verdict(sound: lila.Run) -> None:
    assert sound.verdict.learned
    assert sound.verdict.text() == ""
    assert "doubtful" not in sound.summary()


@pytest.mark.parametrize(
    ("changes", "learned", "words"),
    [
        ({"evidence": Terms(-20.0, -5.0, -5.0)}, True, "by the evidence the inputs explain nothing"),
        ({"evidence": Terms(-20.0, -5.0, -5.0), "test": None}, False, "by the evidence the inputs explain nothing"),
        ({"never_predicted": (1, 2)}, True, "Classes 1, 2 are never predicted."),
        ({"test": {"accuracy": 0.4, "log_likelihood": -1.2}}, False, "log-likelihood of -1.2 per example"),
        ({"test": {"accuracy": 0.8, "log_likelihood": -1.2}}, True, "log-likelihood of -1.2 per example"),
    ],
)
def test_what_speaks_against_a_run_is_said_with_what_to_try(
    sound: lila.Run, changes: dict[str, Any], learned: bool, words: str
) -> None:
    run = replace(sound, **changes)
    assert run.verdict.learned == learned
    assert words in run.verdict.text()
    assert run.verdict.text().startswith("What was learned is doubtful." if learned else "Nothing was learned.")
    assert "longer burn-in" in run.verdict.text()
    assert run.verdict.text().split() == run.summary().split()[-len(run.verdict.text().split()) :]


def test_errors_of_estimates_are_allowed_for(sound: lila.Run) -> None:
    below = Terms(-16.0, -5.0, -5.0)
    assert replace(sound, evidence=below, baselines=Baselines(constant=CONSTANT)).verdict.doubts
    uncertain = replace(below, standard_error=1.0)
    assert not replace(sound, evidence=uncertain, baselines=Baselines(constant=CONSTANT)).verdict.doubts


def test_scores_that_are_the_same_as_printed_are_not_compared(sound: lila.Run) -> None:
    below = replace(sound, evidence=Terms(-100.0, -5.0, -5.0), baselines=Baselines(constant=CONSTANT))
    assert CONSTANT.test is not None
    own = CONSTANT.test["log_likelihood"]
    for gain, compared in ((1e-6, False), (0.1, True)):
        text = replace(below, test=CONSTANT.test | {"log_likelihood": own + gain}).verdict.text()
        assert ("On the test data the network is the better one" in text) == compared


def test_the_same_network_without_invariance_may_be_better(sound: lila.Run) -> None:
    for plain, words in (
        (replace(PLAIN, test_gain=-0.1), "larger by 0.1 ± 0.02 per example"),
        (replace(PLAIN, evidence=-15.0), "-15.0 against -20.0 nats"),
    ):
        verdict = replace(sound, baselines=Baselines(constant=CONSTANT, non_invariant=plain)).verdict
        assert verdict.learned
        assert words in verdict.text()
    within = replace(PLAIN, test_gain=-0.03, evidence=-19.9)
    assert not replace(sound, baselines=Baselines(constant=CONSTANT, non_invariant=within)).verdict.doubts


def test_ranges_that_leave_little_of_an_image() -> None:
    affine = lila.Affine2d(init=[0.94, 0.6, torch.pi, 1.5, 0.7, 0.7])
    assert affine.implausible_ranges() == ("x-translation", "x-scale")
    other = lila.Affine2d(["x-translation"], init=0.8)
    assert lila.Compose(affine, other).implausible_ranges() == ("x-translation", "x-scale", "x-translation 2")


@pytest.mark.parametrize(("padding", "advised"), [("zeros", True), ("reflection", False)])
def test_views_that_show_nothing_are_answered_with_another_padding(
    sound: lila.Run, padding: str, advised: bool
) -> None:
    far = lila.Compose(lila.Affine2d(["x-translation"], padding=padding, init=1.5))
    run = replace(sound, model=lila.InvariantModel(sound.model.net, far, samples=2))
    assert "px goes beyond what an input shows." in run.verdict.text()
    assert ("Try reflection as padding, which leaves no view empty, more epochs" in run.verdict.text()) == advised


def test_labels_at_random_give_no_finding_anywhere(tmp_path: Path) -> None:
    made = lila.fit(network(), data(60), lila.Affine2d(), test=data(40), progress="silent", folder=tmp_path, **QUICK)
    assert made.verdict.doubts
    assert made.verdict.text() == lila.load(tmp_path).verdict.text()
    write_report([sheet_of_folder(tmp_path)], tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "By the evidence, what leaves the label unchanged" not in page
    assert "Try more epochs" in page


def task_of(*classes: str) -> TaskDescription:
    """The task of a run of `lila train` with these classes."""
    return TaskDescription(
        recipe=lila.Recipe("digits"),
        model="mlp",
        augmentation=AugmentationDescription("affine", {}),
        shape=(1, 8, 8),
        classes=classes,
        scaling=Scaling((0.0,), (1.0,)),
        examples=(10, 10),
    )


def test_classes_are_named_if_their_names_are_known(sound: lila.Run) -> None:
    run = replace(sound, never_predicted=(0, 2), task=task_of("cat", "dog", "f\x1b[31mrog"))
    assert "Classes cat, f\\x1b[31mrog are never predicted." in run.verdict.text()
    named = replace(sound, never_predicted=(0, 2), class_names=("cat", "dog", "frog"))
    assert "Classes cat, frog are never predicted." in named.verdict.text()
    many = replace(sound, never_predicted=tuple(range(2, 15)), task=task_of("cat", "dog", "frog"))
    assert "Classes frog, 3, 4, 5, 6, 7, 8, 9, 10, 11 and 3 others are never predicted." in many.verdict.text()


def test_less_evidence_than_the_constant_answer_is_held_against_the_test_scores(sound: lila.Run) -> None:
    run = replace(sound, evidence=Terms(-20.0, -5.0, -5.0))
    assert "the better one, with a log-likelihood of -0.5 per example against -1.1" in run.verdict.text()
    for test in (None, {"accuracy": 0.4, "log_likelihood": -1.2}, {}):
        assert "the better one" not in replace(run, test=test).verdict.text()
