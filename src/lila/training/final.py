"""What a finished run reports: its evidence, and what its predictions say."""

from dataclasses import dataclass, replace

import torch

from lila._util.ranks import Ranks
from lila.augment.noise import Draw
from lila.data.examples import Data, Examples
from lila.laplace.terms import Estimate
from lila.model.likelihood import Categorical
from lila.model.likelihood.categorical import likeliest_class
from lila.model.metrics import CalibrationBin
from lila.training.baselines import Baselines, constant_worth
from lila.training.choices import FinalName, PassesName
from lila.training.scores import all_targets, count_calibration, count_confusions, never_predicted, outputs_and_targets
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


@dataclass(frozen=True)
class FinalScores:
    """What the predictions of a finished run say.

    Attributes:
        test: the scores on the test data, if there is any.
        confusion: the table of confusions on the test data, if there is any.
        calibration: how often test predictions of about the same confidence are right, if there are any.
        baselines: what the run is compared with.
        never_predicted: the classes that the network never predicts.
    """

    test: dict[str, float] | None
    confusion: list[list[int]] | None
    calibration: list[CalibrationBin] | None
    baselines: Baselines
    never_predicted: tuple[int, ...]


@torch.no_grad()
def final_scores(state: State, settings: ResolvedSettings, data: Data, test: Data | None, ranks: Ranks) -> FinalScores:
    """Look at the predictions for the test data, or for some of the training data if there is none."""
    assert settings.microbatch is not None, "chosen before training"
    batch, examples, chosen, likelihood = settings.microbatch, len(Examples(data)), None, state.likelihood
    if test is None and examples > FINAL_EXAMPLES:
        chosen = Draw(settings.seed, 2 * settings.epochs).subset(examples, FINAL_EXAMPLES)
    looked_at = data if test is None else test
    f, y = outputs_and_targets(state.model, likelihood, looked_at, batch, ranks=ranks, chosen=chosen)
    targets = all_targets(data, batch, ranks)
    constant = constant_worth(likelihood, f.shape[1], targets, None if test is None else y)
    return FinalScores(
        test=None if test is None else likelihood.metrics(f, y),
        confusion=None if test is None else count_confusions(likelihood, f, y),
        calibration=None if test is None else count_calibration(likelihood, f, y),
        baselines=Baselines(constant=None if Examples(data).weighted else constant),
        never_predicted=never_predicted(f, likeliest_class(y)) if isinstance(likelihood, Categorical) else (),
    )
