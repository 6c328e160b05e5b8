"""The evidence of a finished run."""

from dataclasses import replace

from lila._util.ranks import Ranks
from lila.augment.noise import Draw
from lila.data.examples import Data, Examples
from lila.laplace.evidence import Estimate
from lila.training.choices import FinalName, PassesName
from lila.training.settings import ResolvedSettings
from lila.training.setup import make_evidence
from lila.training.state import State

FINAL_PROBES = 10
"""Probes in the evidence of a finished run, which is exact for up to as many columns."""
FINAL_EXAMPLES = 2_000
"""Examples whose log-likelihood stands for that of all, after a run that learned while it trained."""


def final_evidence(state: State, settings: ResolvedSettings, data: Data, ranks: Ranks) -> Estimate:
    """Return the evidence of the finished run: by passes over all examples, or at a small part of the run's cost."""
    draw, examples = Draw(settings.seed, 2 * settings.epochs), len(Examples(data))
    evidence = make_evidence(state, settings, data, ranks, at_least=FINAL_PROBES)
    if settings.final_evidence == FinalName.EXACT:
        exact = make_evidence(state, replace(settings, passes=PassesName.EXACT, probes=None), data, ranks)
        return exact.estimate(data, draw)
    if settings.passes != PassesName.RUNNING:
        return evidence.estimate(data, draw)
    some = min(examples, FINAL_EXAMPLES)
    if state.hyper is None or not state.hyper.running.knows_its_error:
        return evidence.estimate(data, draw, some)
    return state.hyper.estimate(evidence.log_likelihood(data, draw, some).of_all(examples))


def estimates_by_a_pass(state: State, settings: ResolvedSettings) -> bool:
    """Return whether the final evidence takes a pass that collects the curvature, as far as is known at the start."""
    exact = settings.final_evidence == FinalName.EXACT
    return exact or settings.passes != PassesName.RUNNING or state.hyper is None
