"""Whether a run learned anything: one function from its evidence, its predictions and its ranges to sentences.

A network may collapse: its ranges grow until an image shows nothing any more, and it answers every image with the class
frequencies. Its evidence can even be larger than that of a network that has learned something. So a finished run is
held against the constant answer and against the same network without invariance, where these are known.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import hypot
from typing import TYPE_CHECKING

from lila._util.shell import printable
from lila.augment import Augmentation, LieImages, Padding
from lila.training.methods import LearnedBy

if TYPE_CHECKING:
    from lila.training.run import Run

_ERRORS = 2.0  # standard errors by which a number must be worse to count
_LEAST_SHARE = 0.01  # of the evidence by which it must be worse than another network's, as single runs scatter
_LISTED = 10  # classes that are named


@dataclass(frozen=True)
class Verdict:
    """What is wrong with a run.

    Attributes:
        learned: whether the network has learned to predict targets from inputs, as far as can be told.
        doubts: what speaks against the run, a sentence each.
        advice: what to try, a sentence each.
    """

    learned: bool = True
    doubts: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()

    def text(self) -> str:
        """Return the verdict as a paragraph; it is empty if nothing speaks against the run."""
        if not self.doubts:
            return ""
        start = "What was learned is doubtful." if self.learned else "Nothing was learned."
        return " ".join([start, *self.doubts, *self.advice])


NO_DOUBT = Verdict()


def judge(run: "Run") -> Verdict:
    """Return what is wrong with a finished run.

    Nothing was learned if the network is no better on the test data than the constant answer, neither by its
    log-likelihood nor by its accuracy. Without test data the evidence decides. Every other finding makes what was
    learned doubtful.
    """
    no_better, below, missing = _no_better_than_constant(run), _below_constant_evidence(run), _never_predicted(run)
    collapsed = [*no_better, *below, *missing, *_implausible(run)]
    found = [*collapsed, *_better_without_invariance(run)]
    learned = not below if run.test is None else not no_better or _more_accurate_than_constant(run)
    return Verdict(learned, tuple(found), _advice(run, collapsed=bool(collapsed)) if found else ())


def _no_better_than_constant(run: "Run") -> list[str]:
    constant = run.baselines.constant
    if constant is None or constant.test is None or run.test is None:
        return []
    own, other = run.test.get("log_likelihood"), constant.test.get("log_likelihood")
    if own is None or other is None or own > other:  # a run that was read may lack them
        return []
    return [
        f"On the test data the network has a log-likelihood of {own:.3g} per example{_accuracy(run.test)}, and the "
        f"same answer to every input has {other:.3g}{_accuracy(constant.test)}."
    ]


def _more_accurate_than_constant(run: "Run") -> bool:
    constant, own = run.baselines.constant, run.test or {}
    if constant is None or constant.test is None or "accuracy" not in own:
        return False
    return own["accuracy"] > constant.test["accuracy"]


def _below_constant_evidence(run: "Run") -> list[str]:
    constant = run.baselines.constant
    if constant is None or run.settings.procedure.prior is not LearnedBy.EVIDENCE:
        return []  # the evidence of a prior that was not learned is low whatever the network has learned
    e = run.evidence
    if e.value >= constant.evidence - _ERRORS * e.standard_error:
        return []
    found = (
        f"The evidence is {e.value:.1f} nats, and that of the same answer to every input is {constant.evidence:.1f}: "
        "by the evidence the inputs explain nothing."
    )
    own, other = (scores.get("log_likelihood") for scores in (run.test or {}, constant.test or {}))
    if own is not None and other is not None and f"{own:.3g}" != f"{other:.3g}" and own > other:
        found += (
            f" On the test data the network is the better one, with a log-likelihood of {own:.3g} per example against "
            f"{other:.3g}: what it learned is worth less than its weights cost, as happens with few examples."
        )
    return [found]


def _never_predicted(run: "Run") -> list[str]:
    classes = run.never_predicted
    if not classes:
        return []
    named = dict(enumerate(run.classes or ()))
    listed = ", ".join(printable(named.get(number, str(number))) for number in classes[:_LISTED])
    if len(classes) > _LISTED:
        listed += f" and {len(classes) - _LISTED} others"
    return [f"Class {listed} is never predicted." if len(classes) == 1 else f"Classes {listed} are never predicted."]


def _implausible(run: "Run") -> list[str]:
    augmentation = run.model.augmentation
    readable = augmentation.readable_ranges(run.shape)
    return [
        f"The {name} of {readable[name]} goes beyond what an input shows." for name in augmentation.implausible_ranges()
    ]


def _better_without_invariance(run: "Run") -> list[str]:
    plain = run.baselines.non_invariant
    if plain is None:
        return []
    found = []
    if plain.test_gain is not None and plain.test_gain < -_ERRORS * (plain.test_gain_error or 0.0):
        found.append(
            "On the test data the same network without invariance is better: its log-likelihood is larger by "
            f"{-plain.test_gain:.3g} ± {plain.test_gain_error or 0.0:.2g} per example."
        )
    loss = plain.evidence - run.evidence.value
    noise = max(_ERRORS * hypot(plain.standard_error, run.evidence.standard_error), _LEAST_SHARE * abs(plain.evidence))
    if run.settings.procedure.prior is LearnedBy.EVIDENCE and loss > noise:
        found.append(
            f"The evidence of the same network without invariance is larger: {plain.evidence:.1f} against "
            f"{run.evidence.value:.1f} nats."
        )
    return found


def _accuracy(scores: Mapping[str, float]) -> str:
    return f" and an accuracy of {scores['accuracy']:.3g}" if "accuracy" in scores else ""


def _advice(run: "Run", *, collapsed: bool) -> tuple[str, ...]:
    """Return what to try: settings by the names that both `lila train` and Python have."""
    if not collapsed:
        return ("Try more epochs, or fewer kinds of transformations (generators).",)
    if run.settings.procedure.eta is LearnedBy.NOTHING or not run.ranges:
        return ("Try more epochs, another learning rate, more data, or another network.",)
    empty = "reflection as padding, which leaves no view empty, " if _has_empty_views(run.model.augmentation) else ""
    return (
        f"Try {empty}more epochs, a longer burn-in, so that the network fits the data before the ranges move, fewer "
        "kinds of transformations (generators), or more data.",
    )


def _has_empty_views(augmentation: Augmentation) -> bool:
    """Return whether ranges are so large that views are moved out of sight, with nothing around the inputs."""
    around = (part.padding for part in augmentation.modules() if isinstance(part, LieImages))
    return bool(augmentation.implausible_ranges()) and Padding.ZEROS in around
