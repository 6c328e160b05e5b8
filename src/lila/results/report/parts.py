"""The parts of a page that are about one run, as the template takes them."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from lila.results.classes import class_tables
from lila.results.plots import plot_calibration, plot_evidence, plot_flow, plot_trajectories
from lila.results.plots.flow import flow
from lila.results.report import pictures
from lila.results.report.explorer import POSITIONS, explorer
from lila.results.report.sheet import Sheet
from lila.results.report.words import SCORES, how_sure, in_words, key_figures, score_text
from lila.training.range_table import RangeRow, range_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_TERMS = {
    "log_likelihood": "log-likelihood",
    "weight_penalty": "weight penalty, -½ Σ δ (θ - μ)²",
    "occam_factor": "Occam factor, -½ log|I + H/δ|",
    "value": "evidence",
}
_CURVES, _SQUARE = (5.6, 3.2), (3.9, 3.2)  # inches


def run_parts(sheet: Sheet) -> dict[str, Any]:
    """Return what the template shows of a run."""
    table = range_table(sheet.augmentation, sheet.shape, sheet.history, sheet.range_errors)
    trajectories = f"Ranges over {len(sheet.history)} epochs; in the end {in_words(sheet.readable)}"
    terms = f"Evidence and its terms over the epochs; in the end {sheet.evidence['value']:,.0f} nats"
    moved = explorer(sheet)
    return {
        "title": sheet.title,
        "sentence": sheet.sentence(),
        "verdict": sheet.verdict,
        "how_sure": how_sure(sheet),
        "figures": key_figures(sheet),
        "ranges": [range_parts(sheet, row) for row in table.rows],
        "range_notes": [*table.notes, *_bar_notes(sheet)],
        "explorer": moved,
        "positions": POSITIONS,
        "strips": _strips(sheet) if moved is None else None,
        "draws": _draws(sheet),
        "without_images": sheet.without_images,
        "flow": _flow(sheet),
        "trajectories": _svg(_trajectories(sheet), _CURVES, trajectories) if sheet.readable else None,
        "unit": sheet.augmentation.unit,
        "evidence": _svg(partial(plot_evidence, history=sheet.history), _CURVES, terms),
        "terms": [(text, f"{sheet.evidence[name]:,.1f}") for name, text in _TERMS.items() if name in sheet.evidence],
        "scores": [(SCORES.get(name, name), score_text(value)) for name, value in (sheet.scores or {}).items()],
        "baselines": _baselines(sheet),
        "calibration": _calibration(sheet),
        "classes": _classes(sheet),
        "settings": {name: value for name, value in sheet.settings.items() if value is not None},
        "versions": sheet.versions,
        "next_steps": sheet.next_steps,
        "again": sheet.again,
    }


def range_parts(sheet: Sheet, row: RangeRow) -> dict[str, Any]:
    """Return a range with its place in the picture, as shares of a very large range."""
    value, error = sheet.augmentation.ranges[row.name], (sheet.range_errors or {}).get(row.name)
    scale = row.share / value if value > 0 else 0.0
    truth = None if sheet.truth is None else sheet.truth.get(row.name, 0.0)
    whisker = error is not None and scale > 0 and not _is_probability(sheet, row.name)
    return {
        "row": row,
        "truth": None if truth is None else sheet.augmentation.readable(row.name, truth, sheet.shape),
        "share": row.share,
        "low": max((value - (error or 0.0)) * scale, 0.0) if whisker else None,
        "high": min((value + (error or 0.0)) * scale, 1.0) if whisker else None,
        "mark": truth * scale if truth and 0 < truth * scale <= 1 else None,
        "noticed": row.name in sheet.noticed(),
    }


def _bar_notes(sheet: Sheet) -> list[str]:
    """Return what the bars of the picture are shares of."""
    ranges, shares = sheet.augmentation.ranges, sheet.augmentation.shares
    drawn = {name: share for name, share in shares.items() if 0 < share < 1 and not _is_probability(sheet, name)}
    full = {name: ranges[name] / share for name, share in drawn.items()}
    written = in_words({name: sheet.augmentation.readable(name, value, sheet.shape) for name, value in full.items()})
    return [f"Bars: shares of a very large range, which is {written}."] if full else []


def _is_probability(sheet: Sheet, name: str) -> bool:
    """Return whether a range is the probability of an outcome, whose bar is no multiple of it."""
    return sheet.augmentation.readable(name, 0.5, sheet.shape).endswith("%")


def _svg(draw: "Callable[[Axes], None]", size: tuple[float, float], text: str) -> Markup:
    return Markup(pictures.drawing(draw, *size, text))  # our own drawing, in which the text is escaped


def _trajectories(sheet: Sheet) -> "Callable[[Axes], None]":
    """Return the function that draws the ranges over the epochs."""
    return partial(plot_trajectories, history=sheet.history, truth=sheet.truth)


def _baselines(sheet: Sheet) -> dict[str, Any] | None:
    """Return a table of this run beside simpler models of the same data; None if there are none."""
    others = sheet.baselines.by_name()
    if not others:
        return None
    names = [name for name in SCORES if name in (sheet.scores or {})]
    rows = [("this run", sheet.evidence["value"], sheet.scores)]
    rows += [(title, worth.evidence, worth.test) for title, worth in others.items()]
    return {
        "columns": ["evidence, nats", *(f"test {SCORES[name]}" for name in names)],
        "rows": [
            (title, [f"{evidence:,.1f}", *(score_text(scores[name]) if scores else "–" for name in names)])
            for title, evidence, scores in rows
        ],
    }


def _calibration(sheet: Sheet) -> Markup | None:
    """Return the reliability diagram; None if the run does not know how often its predictions are right."""
    if not sheet.calibration:
        return None
    most = max(sheet.calibration, key=lambda one: one.count)
    text = (
        "Reliability diagram: the share of predictions that is right over their confidence. Of the "
        f"{most.count} predictions with a confidence of about {most.confidence:.2f}, {most.accuracy:.0%} are right"
    )
    return _svg(partial(plot_calibration, bins=sheet.calibration), _SQUARE, text)


def _classes(sheet: Sheet) -> dict[str, Any] | None:
    """Return the results by class, and the confusions with the share of their class that each is."""
    if sheet.confusion is None:
        return None
    by_class, *confusions = class_tables(sheet.confusion, sheet.classes)
    rows = [(row[0], row[1:], _share(row[2])) for row in by_class.rows]
    matrix = [
        (table.rows[i][0], [(count, i == j, _part(count, sum(counts))) for j, count in enumerate(counts)])
        for table in confusions
        for i, counts in enumerate(sheet.confusion)
    ]
    return {"table": by_class, "rows": rows, "names": [name for name, _ in matrix], "matrix": matrix}


def _share(text: str) -> float:
    """Return the share that a table writes as per cent; 0 where there is none."""
    return float(text.rstrip("%")) / 100 if text.endswith("%") else 0.0


def _part(count: int, whole: int) -> float:
    return count / whole if whole else 0.0


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
    return {"pictures": [_svg(partial(draw, **one), (2, 2), text) for one in chosen], "caption": caption}


def _draws(sheet: Sheet) -> dict[str, Any] | None:
    """Return a picture of a few inputs beside random draws of the learned distribution."""
    if sheet.images is None or not sheet.readable:
        return None
    return {"url": pictures.before_and_after(sheet), "kind": "series" if sheet.of_series else "image"}


def _strips(sheet: Sheet) -> dict[str, Any] | None:
    """Return pictures through which a slider moves, for families that the page's script does not know."""
    if sheet.images is None or not sheet.readable:
        return None
    directions = sheet.augmentation.directions(sheet.shape)  # the slider begins with the largest
    strips = [{"name": label, "url": pictures.strip(sheet, noise)} for label, noise in directions.items()]
    strips.append({"name": "everything at once: random draws", "url": pictures.draws(sheet)})
    height, width = pictures.tile_size(sheet)
    rows = len(pictures.few(sheet))
    return {
        "strips": strips,
        "frames": pictures.FRAMES,
        "count": rows,
        "ratio": f"{width} / {rows * height}",
        "kind": "series" if sheet.of_series else "images",
    }
