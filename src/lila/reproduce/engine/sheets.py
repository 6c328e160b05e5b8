"""What a report shows of an experiment: a sheet for each of its runs, and a section on the experiment itself."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from markupsafe import Markup

from lila.data.transformed import VersionName, true_ranges
from lila.reproduce.engine.images import WORK, learned_augmentation, pictures, scaling
from lila.reproduce.engine.output import Outcome
from lila.reproduce.engine.results import history_rows
from lila.results.report.pictures import svg
from lila.results.report.sheet import Sheet
from lila.training.settings import Settings

_MOST_SHEETS = 12  # each holds its images
_SOFTWARE = ("lila", "torch", "python")


def sheets(outcome: Outcome) -> list[Sheet]:
    """Return a sheet for each run of the first seed that learned ranges of images.

    If these are too many, the sheets are those of the first runs that learned by the evidence.
    """
    shown = {
        cell: content
        for cell, content in outcome.contents.items()
        if cell[-1] == 0 and content["work"] == WORK and content["result"]["ranges"]
    }
    if len(shown) > _MOST_SHEETS:
        by_evidence = {c: x for c, x in shown.items() if _settings(x)["method"] == "lila"}
        shown = dict(list(by_evidence.items())[:_MOST_SHEETS])
    return [_sheet(", ".join(map(str, cell[:-1])), content) for cell, content in shown.items()]


def _sheet(title: str, content: Mapping[str, Any]) -> Sheet:
    arguments, result = content["arguments"], content["result"]
    recipe = arguments["recipe"]
    shape = tuple(result["shape"])
    scale = scaling(result)
    made_from = {"data": recipe["source"], "version": recipe["transform"], "network": arguments["model"]}
    known = recipe["transform"] != VersionName.ORIGINAL
    return Sheet(
        title=title,
        augmentation=learned_augmentation(result),
        shape=shape,
        history=history_rows(result),
        evidence=result["evidence"],
        scores=result["test"],
        settings=made_from | {"training images": result["examples"][0]} | _settings(content),
        versions={name: content["made"][name] for name in _SOFTWARE},
        truth=true_ranges(recipe["transform"], shape) if known else None,
        images=scale(pictures(result)[:3]),
        scaling=scale,
    )


def _settings(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return all settings of a job, with the defaults of those that it does not name."""
    return asdict(Settings.from_dict(dict(content["arguments"]["settings"])))


def experiment_section(outcome: Outcome) -> dict[str, Any]:
    """Return what the report's template shows of the experiment itself."""
    experiment, summary = outcome.experiment, outcome.summary
    figures = [Markup(svg(draw(), f"{experiment.title}: {name}")) for name, draw in summary.figures.items()]
    return {
        "title": experiment.title,
        "claim": experiment.claim,
        "reproduced_if": experiment.reproduced_if,
        "verdicts": summary.verdicts,
        "tables": summary.tables,
        "figures": figures,
        "remarks": summary.remarks,
        "command": outcome.command,
        "cost": outcome.cost(),
        "conclusion": outcome.conclusion(),
        "runs": len(outcome.contents),
    }
