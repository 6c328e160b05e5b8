"""Every experiment: its jobs are those of the paper, and what it says of results follows from them."""

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import pytest

import lila
from lila.data.task import Recipe
from lila.data.transformed import VersionName, true_ranges
from lila.networks.registry import MODELS
from lila.reproduce.engine.experiment import Experiment, Scale, Summary, chosen_jobs
from lila.reproduce.engine.output import Outcome, outcome_data, page, text, write
from lila.reproduce.paper import PAPER_EXPERIMENTS
from lila.training.settings import Settings
from made_up import METHODS, made_up

every = pytest.mark.parametrize("experiment", PAPER_EXPERIMENTS.values(), ids=list(PAPER_EXPERIMENTS))
SEEDS = 2
WORSE = {name: 1 - value for name, value in METHODS.items()}


def summary(experiment: Experiment, scale: Scale = Scale.SMALL, good: dict[str, float] = METHODS) -> Summary:
    jobs = experiment.jobs(scale, SEEDS)
    return experiment.summarise({cell: made_up(job, good) for cell, job in jobs.items()}, scale)


@every
@pytest.mark.parametrize("scale", list(Scale))
def test_jobs_are_for_networks_and_settings_that_there_are(experiment: Experiment, scale: Scale) -> None:
    if scale not in experiment.scales:
        with pytest.raises(lila.ArgumentError, match=f"no scale '{scale}'; choose from small, paper"):
            chosen_jobs(experiment, scale, SEEDS)
        return
    jobs = chosen_jobs(experiment, scale, SEEDS)
    assert {cell[-1] for cell in jobs} == {0, 1}
    assert len({job.key for job in jobs.values()}) == len(jobs)
    for job in jobs.values():
        settings = Settings.from_dict(dict(job.arguments["settings"]))
        if job.work == "images":
            Recipe(**job.arguments["recipe"])
            assert job.arguments["model"] in list(MODELS)
            images = job.arguments["recipe"]["subset"] or 50_000
            assert settings.gradient_examples is None or settings.gradient_examples <= images


@every
def test_more_seeds_repeat_nothing(experiment: Experiment) -> None:
    assert experiment.jobs(Scale.SMALL, 1).items() <= experiment.jobs(Scale.SMALL, 3).items()


def test_experiments_share_what_they_have_in_common() -> None:
    jobs = {name: set(experiment.jobs(Scale.SMALL, 1).values()) for name, experiment in PAPER_EXPERIMENTS.items()}
    grey = {job for job in jobs["trajectories"] if job.arguments["recipe"]["source"] != "cifar10"}
    assert grey == jobs["trajectories"] & jobs["accuracy"]
    assert jobs["trajectories"] == jobs["barplots"]
    for name in ("approximations", "augerino-strength", "augerino-parameterisation", "maximum-likelihood"):
        assert jobs[name] & jobs["accuracy"], name


def test_jobs_of_one_network_are_those_of_the_whole_experiment() -> None:
    experiment = PAPER_EXPERIMENTS["accuracy"]
    chosen = chosen_jobs(experiment, Scale.FULL, 1, [("fashion-mnist", "cnn"), ("mnist", "mlp")])
    assert chosen.items() <= experiment.jobs(Scale.FULL, 1).items()
    assert len(chosen) == 3 * (2 + 5)  # three methods on two versions for the CNN, and on five for the MLP
    with pytest.raises(lila.ArgumentError, match="no jobs of mnist:vit; choose from mnist:mlp, fashion-mnist:mlp"):
        chosen_jobs(experiment, Scale.FULL, 1, [("mnist", "vit")])
    with pytest.raises(lila.ArgumentError, match="no jobs of mnist:mlp; its jobs are not told apart by network"):
        chosen_jobs(PAPER_EXPERIMENTS["toy"], Scale.SMALL, 1, [("mnist", "mlp")])


@pytest.mark.parametrize("model", ["mlp", "cnn"])
def test_the_papers_settings_of_grey_images(model: str) -> None:
    job = PAPER_EXPERIMENTS["accuracy"].jobs(Scale.PAPER, 1)["mnist", model, "lila", "scaled", 0]
    settings = Settings.from_dict(dict(job.arguments["settings"]))
    assert (settings.epochs, settings.batch_size, settings.samples, settings.burn_in) == (1000, 1000, 31, 10)
    assert (settings.lr, settings.lr_end, settings.eta_lr, settings.eta_lr_end) == (0.005, 0.0001, 0.05, 0.05)
    assert (settings.optimiser, settings.hyper_lr, settings.passes) == ("adam", 0.05, "exact")
    assert job.arguments["recipe"]["subset"] is None


def test_the_papers_settings_of_colour_images() -> None:
    jobs = PAPER_EXPERIMENTS["accuracy"].jobs(Scale.PAPER, 1)
    settings = Settings.from_dict(dict(jobs["cifar10", "resnet-8-16", "lila", "scaled", 0].arguments["settings"]))
    assert (settings.epochs, settings.batch_size, settings.samples, settings.burn_in) == (200, 250, 20, 10)
    assert (settings.optimiser, settings.lr, settings.lr_end, settings.momentum) == ("sgd", 0.1, 1e-6, 0.9)
    assert (settings.eta_lr, settings.eta_lr_end, settings.gradient_examples) == (0.005, 0.005, 5000)


def test_the_papers_sizes_and_epochs_of_subsets() -> None:
    jobs = PAPER_EXPERIMENTS["data-efficiency"].jobs(Scale.PAPER, 1)
    found = {
        (cell[0], job.arguments["recipe"]["subset"], job.arguments["settings"]["epochs"]) for cell, job in jobs.items()
    }
    assert {(size, epochs) for data, size, epochs in found if data == "cifar10"} == {
        (1000, 600),
        (5000, 400),
        (10_000, 300),
        (20_000, 250),
        (None, 200),
    }
    assert {(size, epochs) for data, size, epochs in found if data == "mnist"} == {
        (size, 1000) for size in (312, 1250, 5000, 20_000, None)
    }


@every
def test_claims_hold_if_the_results_say_so(experiment: Experiment) -> None:
    verdicts = summary(experiment).verdicts
    assert verdicts
    assert all(verdict.held for verdict in verdicts), [verdict for verdict in verdicts if not verdict.held]


@pytest.mark.parametrize("name", ["toy", "accuracy", "wide-resnet", "data-efficiency"])
def test_claims_do_not_hold_if_what_should_be_better_is_worse(name: str) -> None:
    assert not any(
        verdict.held for verdict in summary(PAPER_EXPERIMENTS[name], good=WORSE).verdicts if "more" in verdict.claim
    )


@pytest.mark.parametrize(
    "name", ["trajectories", "augerino-strength", "augerino-parameterisation", "maximum-likelihood"]
)
def test_claims_do_not_hold_if_nothing_is_learned(name: str) -> None:
    experiment = PAPER_EXPERIMENTS[name]
    results = {}
    for cell, job in experiment.jobs(Scale.SMALL, 1).items():
        result = made_up(job)
        results[cell] = result | {"ranges": dict.fromkeys(result["ranges"], 0.0)}
    assert not all(verdict.held for verdict in experiment.summarise(results, Scale.SMALL).verdicts)


def test_ranges_that_are_too_large_lead_and_are_not_recovered() -> None:
    experiment = PAPER_EXPERIMENTS["trajectories"]
    results = {}
    for cell, job in experiment.jobs(Scale.SMALL, 1).items():
        result = made_up(job)
        truths = true_ranges(VersionName(str(cell[2])), tuple(result["shape"]))
        results[cell] = result | {"ranges": {name: 2 * truth + 0.1 for name, truth in truths.items()}}
    verdicts = experiment.summarise(results, Scale.SMALL).verdicts
    assert [verdict.held for verdict in verdicts] == [True, False] * 4
    assert "translated: x-translation 1.24 (truth 0.57)" in verdicts[1].found


@every
def test_what_is_written(experiment: Experiment, tmp_path: Path) -> None:
    jobs = experiment.jobs(Scale.SMALL, 1)
    made = {"seconds": 60.0, "threads": 1, "machine": "x86_64", "device": "cpu", "torch": "2", "lila": "0"}
    contents = {
        cell: {"work": job.work, "arguments": job.arguments, "made": made, "result": made_up(job)}
        for cell, job in jobs.items()
    }
    results = {cell: made_up(job) for cell, job in jobs.items()}
    whole = experiment.summarise(results, Scale.SMALL)
    figures = dict(list(whole.figures.items())[:1])  # the others are drawn by the same function
    outcome = Outcome(experiment, Scale.SMALL, 1, contents=contents, summary=replace(whole, figures=figures))
    write(outcome, tmp_path)
    for name in outcome.summary.figures:
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert "<svg" in (tmp_path / f"{name}.svg").read_text()
    data = json.loads((tmp_path / "data.json").read_text())
    assert data["claim"] == experiment.claim
    assert data["command"] == f"lila reproduce {experiment.name} --scale small --seeds 1"
    rows = list(csv.DictReader(io.StringIO((tmp_path / "data.csv").read_text())))
    assert len(rows) == len(data["rows"]) > 0
    written = (tmp_path / "README.md").read_text()
    assert written == page(outcome)
    for shown in (written, text(outcome)):
        assert experiment.claim in shown
        assert f"{len(jobs)} runs, {len(jobs)} minutes one after the other" in shown
        assert "All claims held at this scale." in shown
    assert outcome_data(outcome)["tables"]


def test_it_is_said_if_some_networks_have_fewer_seeds() -> None:
    for name in ("trajectories", "barplots"):
        (remark,) = summary(PAPER_EXPERIMENTS[name]).remarks
        grey = "mlp on mnist, mlp on fashion-mnist, cnn on fashion-mnist"
        assert remark == f"Seeds: 2 for {grey}; 1 for resnet-8-8 on cifar10."
        assert not summary(PAPER_EXPERIMENTS[name], Scale.PAPER).remarks
    assert not summary(PAPER_EXPERIMENTS["accuracy"]).remarks


def test_versions_that_a_network_is_not_trained_on_are_left_out() -> None:
    found = summary(PAPER_EXPERIMENTS["accuracy"], Scale.FULL)
    row = next(row for row in found.tables[0].rows if row[:3] == ["fashion-mnist", "cnn", "lila"])
    assert row[3:] == ["(89.5)", "90.0 ±0.0 (88.4)", "90.0 ±0.0 (87.7)", "(87.3)", "(91.9)"]
    (rotated,) = (v for v in found.verdicts if v.claim.startswith("cnn on fashion-mnist: more accurate than Augerino"))
    assert rotated.found.startswith("partially-rotated")
    assert "scaled" not in rotated.found
    leads = summary(PAPER_EXPERIMENTS["trajectories"], Scale.FULL)
    assert [row[2] for row in leads.tables[0].rows if row[1] == "cnn"] == ["partially-rotated", "translated"]


def test_the_papers_figures_are_beside_ours() -> None:
    table = summary(PAPER_EXPERIMENTS["accuracy"]).tables[0]
    row = next(row for row in table.rows if row[:3] == ["mnist", "mlp", "lila"])
    assert row[3] == "90.0 ±0.0 (97.7)"
