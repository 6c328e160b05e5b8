"""The page of a report: the parts of all runs in one template."""

from collections.abc import Mapping, Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from lila._util.files import replaced
from lila.errors import LilaError
from lila.results.plots import plot_evidence, plot_flow, plot_trajectories
from lila.results.plots.flow import flow
from lila.results.report import pictures
from lila.results.report.sheet import Sheet
from lila.training.range_table import range_table

try:
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup
except ImportError as error:
    raise LilaError("A report needs Jinja2: pip install 'lila-torch[plots]'.") from error

_TERMS = {
    "log_likelihood": "log-likelihood",
    "weight_penalty": "weight penalty, -½ Σ δ (θ - μ)²",
    "occam_factor": "Occam factor, -½ log|I + H/δ|",
    "value": "evidence",
}
_SCORES = {
    "accuracy": "accuracy",
    "log_likelihood": "log-likelihood per example",
    "calibration_error": "calibration error",
    "brier": "Brier score",
}


def write_report(
    sheets: Sequence[Sheet], path: str | Path, title: str | None = None, experiment: Mapping[str, Any] | None = None
) -> None:
    """Write a report as one HTML file.

    Args:
        sheets: the runs to show, side by side.
        path: of the file.
        title: of the page.
        experiment: what the template shows of an experiment that the runs belong to.
    """
    environment = Environment(
        loader=PackageLoader("lila.results.report"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    html = environment.get_template("report.html").render(
        title=title or (sheets[0].title if len(sheets) == 1 else "lila: runs side by side"),
        runs=[_run(sheet) for sheet in sheets],
        compared=_compared(sheets) if len(sheets) > 1 else None,
        experiment=experiment,
        version=version("lila-torch"),
    )
    with replaced(Path(path)) as temporary:
        temporary.write_text(html, encoding="utf-8", errors="xmlcharrefreplace")


def _run(sheet: Sheet) -> dict[str, Any]:
    """Return what the template shows of a run."""
    readable = sheet.readable
    table = range_table(sheet.augmentation, sheet.shape, sheet.history, sheet.range_errors)
    trajectories = f"Ranges over {len(sheet.history)} epochs; in the end {_in_words(readable)}"
    terms = f"Evidence and its terms over the epochs; in the end {sheet.evidence['value']:.0f} nats"
    return {
        "title": sheet.title,
        "sentence": sheet.sentence(),
        "ranges": [{"row": row, "truth": _truth(sheet, row.name)} for row in table.rows],
        "range_notes": table.notes,
        "trajectories": _svg(_trajectories(sheet), trajectories) if readable else None,
        "evidence": _svg(partial(plot_evidence, history=sheet.history), terms),
        "terms": [(text, f"{sheet.evidence[name]:,.1f}") for name, text in _TERMS.items() if name in sheet.evidence],
        "scores": [(_SCORES.get(name, name), f"{value:.4g}") for name, value in (sheet.scores or {}).items()],
        "baselines": _baselines(sheet),
        "classes": sheet.classes,
        "flow": _flow(sheet),
        "images": _images(sheet),
        "settings": {name: value for name, value in sheet.settings.items() if value is not None},
        "versions": sheet.versions,
        "again": sheet.again,
    }


def _baselines(sheet: Sheet) -> dict[str, Any] | None:
    """Return a table of this run beside simpler models of the same data; None if there are none."""
    others = sheet.baselines.by_name()
    if not others:
        return None
    names = [name for name in _SCORES if name in (sheet.scores or {})]
    rows = [("this run", sheet.evidence["value"], sheet.scores)]
    rows += [(title, worth.evidence, worth.test) for title, worth in others.items()]
    return {
        "columns": ["evidence, nats", *(f"test {_SCORES[name]}" for name in names)],
        "rows": [
            (title, [f"{evidence:,.1f}", *(f"{scores[name]:.4g}" if scores else "–" for name in names)])
            for title, evidence, scores in rows
        ],
    }


def _svg(draw: Any, text: str) -> Markup:
    return Markup(pictures.drawing(draw, 5.6, 3.2, text))  # our own drawing, in which the text is escaped


def _trajectories(sheet: Sheet) -> Any:
    """Return the function that draws the ranges over the epochs."""
    return partial(plot_trajectories, history=sheet.history, truth=sheet.truth, unit=sheet.augmentation.unit)


def _truth(sheet: Sheet, name: str) -> str | None:
    """Return the true range as people read it, or None if it is not known."""
    if sheet.truth is None or name not in sheet.truth:
        return None
    return sheet.augmentation.readable(name, sheet.truth[name], sheet.shape)


def _flow(sheet: Sheet) -> dict[str, Any] | None:
    """Return pictures of two transformations as arrows: the principal directions if ranges are coupled, or random ones.

    None if the family has no such picture.
    """
    if flow(sheet.augmentation, sheet.shape) is None:
        return None
    text = "Arrows that show where a transformation of the learned distribution takes the pixels"
    draw = partial(plot_flow, augmentation=sheet.augmentation, shape=sheet.shape)
    chosen: list[dict[str, Any]] = [{"seed": 0}, {"seed": 1}]
    caption = "Where two draws take the pixels."
    if sheet.augmentation.couplings():
        directions = list(sheet.augmentation.directions(sheet.shape).items())[: len(chosen)]
        chosen = [{"noise": noise} for _, noise in directions]
        caption = f"Principal directions of the learned distribution: {'; '.join(label for label, _ in directions)}."
    drawn = [Markup(pictures.drawing(partial(draw, **one), 2, 2, text)) for one in chosen]
    return {"pictures": drawn, "caption": caption}


def _images(sheet: Sheet) -> dict[str, Any] | None:
    if sheet.images is None or not sheet.readable:
        return None
    directions = sheet.augmentation.directions(sheet.shape)  # the slider begins with the largest
    strips = [{"name": label, "url": pictures.strip(sheet, noise)} for label, noise in directions.items()]
    strips.append({"name": "everything at once: random draws", "url": pictures.draws(sheet)})
    height, width = pictures.tile_size(sheet)
    return {
        "strips": strips,
        "frames": pictures.FRAMES,
        "grid": pictures.before_and_after(sheet),
        "count": len(sheet.images),
        "ratio": f"{width} / {len(sheet.images) * height}",
        "kind": "series" if sheet.of_series else "image",
    }


def _compared(sheets: Sequence[Sheet]) -> dict[str, Any]:
    """Return a table with a column per run."""
    rows: list[tuple[str, list[str]]] = []
    names = dict.fromkeys(name for sheet in sheets for name in sheet.readable)
    rows += [(name, [sheet.readable.get(name, "–") for sheet in sheets]) for name in names]
    rows.append(("evidence, nats", [f"{sheet.evidence['value']:,.1f}" for sheet in sheets]))
    for name, text in _SCORES.items():
        if any(name in (sheet.scores or {}) for sheet in sheets):
            rows.append((f"test {text}", [_score(sheet, name) for sheet in sheets]))
    differing = [
        name
        for name in dict.fromkeys(name for sheet in sheets for name in sheet.settings)
        if len({str(sheet.settings.get(name)) for sheet in sheets}) > 1
    ]
    rows += [(name, [_setting(sheet, name) for sheet in sheets]) for name in differing]
    return {"titles": [sheet.title for sheet in sheets], "rows": rows}


def _setting(sheet: Sheet, name: str) -> str:
    value = sheet.settings.get(name)
    return "–" if value is None else str(value)


def _score(sheet: Sheet, name: str) -> str:
    return f"{sheet.scores[name]:.4g}" if sheet.scores and name in sheet.scores else "–"


def _in_words(readable: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {text}" for name, text in readable.items())
