"""How sure a run is of what it learned, in words and in a few numbers."""

from collections.abc import Mapping
from dataclasses import dataclass

from lila.results.report.sheet import Sheet
from lila.training.history import range_spread
from lila.training.methods import PROCEDURES, LearnedBy, MethodName

SCORES = {
    "accuracy": "accuracy",
    "log_likelihood": "log-likelihood per example",
    "calibration_error": "calibration error",
    "brier": "Brier score",
}
"""The test scores that people know by other names than lila's."""
_ROUNDING = 1e-9
_FEW = 3  # ranges whose errors are told in words; the table has all
_ERRORS = 2.0  # standard errors from which on a difference is clear


@dataclass(frozen=True)
class Figure:
    """A number that sums a run up.

    Attributes:
        name: what it is.
        value: the number.
        note: what to compare it with.
    """

    name: str
    value: str
    note: str = ""


def how_sure(sheet: Sheet) -> list[str]:
    """Return what speaks for the learned ranges, a sentence each; nothing if the run is doubtful or has no ranges."""
    if sheet.verdict.doubts or not sheet.readable:
        return []
    return [*_of_ranges(sheet), *_of_evidence(sheet), *_of_test(sheet)]


def key_figures(sheet: Sheet) -> list[Figure]:
    """Return the few numbers that sum a run up."""
    plain, scores = sheet.baselines.non_invariant, sheet.scores or {}
    value, n = sheet.evidence["value"], sheet.examples
    figures = []
    if n:
        figures.append(Figure("evidence per example", f"{value / n:.3f}", "nats; larger is better"))
    if plain is not None and _compares(sheet):
        figures.append(Figure("gain by invariance", f"{value - plain.evidence:+,.1f}", "nats of evidence"))
    others = {} if plain is None or plain.test is None else plain.test
    for name, written in (("accuracy", ".1%"), ("log_likelihood", ".3f")):
        if name in scores:
            note = f"{others[name]:{written}} without invariance" if name in others else ""
            figures.append(Figure(f"test {SCORES[name]}", f"{scores[name]:{written}}", note))
    return figures


def in_words(readable: Mapping[str, str]) -> str:
    """Return ranges as a list for those who cannot see a picture."""
    return ", ".join(f"{name} {text}" for name, text in readable.items())


def score_text(value: float) -> str:
    """Return a score as people read it; what is only rounding is 0."""
    return f"{value:.4g}" if abs(value) > _ROUNDING else "0"


def _of_ranges(sheet: Sheet) -> list[str]:
    """Return the error bars of the largest ranges that the sentence names, and how far these moved in the end."""
    names, errors, spread = sheet.noticed()[:_FEW], sheet.range_errors, range_spread(sheet.history)
    told = []
    if errors is not None:
        known = {name: _written(sheet, name, error) for name in names if (error := errors[name]) is not None}
        if known:
            told.append(f"Error bar of {in_words(known)}: moved so far, the evidence falls by half a nat.")
        unknown = [name for name in names if errors[name] is None]
        if unknown:
            told.append(f"The evidence has no maximum in {' and '.join(unknown)} there, so that there is no error bar.")
    if spread is not None and names:
        moved = {name: _written(sheet, name, spread.deviations[name]) for name in names}
        told.append(f"Standard deviation over the last {spread.epochs} epochs: {in_words(moved)}.")
    return told


def _written(sheet: Sheet, name: str, value: float) -> str:
    return sheet.augmentation.readable(name, value, sheet.shape)


def _of_evidence(sheet: Sheet) -> list[str]:
    plain = sheet.baselines.non_invariant
    if plain is None or not _compares(sheet):
        return []
    gain = sheet.evidence["value"] - plain.evidence
    how = "larger" if gain >= 0 else "smaller"
    return [f"The evidence is {abs(gain):,.1f} nats {how} than that of the same network without invariance."]


def _compares(sheet: Sheet) -> bool:
    """Return whether the evidence says how good a run is: that of a prior that was not learned is low anyway."""
    return PROCEDURES[MethodName(sheet.settings["method"])].prior is LearnedBy.EVIDENCE


def _of_test(sheet: Sheet) -> list[str]:
    plain = sheet.baselines.non_invariant
    if plain is None or plain.test_gain is None:
        return []
    gain, error = plain.test_gain, plain.test_gain_error or 0.0
    clear = abs(gain) > _ERRORS * error
    how = ("better" if gain > 0 else "worse") if clear else "neither clearly better nor worse"
    return [
        f"On the test data the run is {how} than without invariance: the log-likelihood per example differs by "
        f"{gain:+.3f} ± {error:.3f}."
    ]
