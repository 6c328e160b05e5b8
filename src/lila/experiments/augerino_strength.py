"""Augerino's first failure case: its strength needs tuning, and none learns a partial rotation."""

from collections.abc import Mapping
from math import pi
from statistics import mean

from lila.experiments.comparison import Comparison
from lila.experiments.experiment import Scale, Verdict, learned
from lila.experiments.images import Training
from lila.experiments.jobs import Result
from lila.experiments.plans import plan

STRENGTHS = (0.01, 0.1, 1.0)


class AugerinoStrength(Comparison):
    """Augerino's strengths."""

    name = "augerino-strength"
    title = "Augerino at three strengths, and lila, on partially rotated MNIST (appendix)"
    claim = "What Augerino learns depends on its strength; lila learns the partial rotation without one."
    reproduced_if = (
        "lila's rotation is closer to a quarter turn than Augerino's at any strength, and Augerino's differ from each "
        "other by a factor of more than 1.5"
    )

    def trainings(self, scale: Scale) -> dict[str, Training]:
        lila, augerino = (plan("mnist", "mlp", scale, name).but("partially-rotated") for name in ("lila", "augerino"))
        return {"lila": lila} | {f"Augerino, {x}": augerino.but(eta_reward=x) for x in STRENGTHS}

    def verdicts(self, runs: Mapping[str, list[Result]], scale: Scale) -> list[Verdict]:
        rotations = {label: mean(learned(of_label, "rotation")) for label, of_label in runs.items()}
        off = {label: mean(abs(r - pi / 2) for r in learned(of_label, "rotation")) for label, of_label in runs.items()}
        rivals = [rotations[f"Augerino, {x}"] for x in STRENGTHS]
        told = ", ".join(f"{label} {value:.2f}" for label, value in rotations.items())
        return [
            Verdict("lila is closest to the quarter turn (1.57)", off.pop("lila") < min(off.values()), told),
            Verdict("Augerino depends on its strength", max(rivals) > 1.5 * max(min(rivals), 0.01), told),
        ]
