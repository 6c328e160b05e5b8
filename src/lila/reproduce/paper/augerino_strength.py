"""Augerino's first failure case: its strength has to be tuned, and at no strength is a partial rotation learned."""

from collections.abc import Mapping

from lila.reproduce.engine.experiment import Scale, Verdict
from lila.reproduce.engine.images import Training
from lila.reproduce.engine.jobs import Result
from lila.reproduce.paper.comparison import Comparison, off_the_quarter_turn, rotations
from lila.reproduce.paper.plans import plan
from lila.results.tables import listed

STRENGTHS = (0.01, 0.1, 1.0)


class AugerinoStrength(Comparison):
    """Augerino at several strengths, and lila, which has none."""

    name = "augerino-strength"
    title = "Augerino at three strengths, and lila, on partially rotated MNIST (appendix)"
    claim = "What Augerino learns depends on its strength; lila learns the partial rotation without one."
    reproduced_if = (
        "lila's rotation is closer to a quarter turn than Augerino's at any strength, and Augerino's differ from each "
        "other by a factor of more than 1.5"
    )

    def trainings(self, scale: Scale) -> dict[str, Training]:
        lila, augerino = (
            plan("mnist", "mlp", scale, name).changed("partially-rotated") for name in ("lila", "augerino")
        )
        return {"lila": lila} | {f"Augerino, {x}": augerino.changed(eta_reward=x) for x in STRENGTHS}

    def verdicts(self, runs: Mapping[str, list[Result]], scale: Scale) -> list[Verdict]:
        off, found = off_the_quarter_turn(runs), rotations(runs)
        del found["lila"]
        least, most = min(found.values()), max(found.values())
        return [
            Verdict("lila is closest to the quarter turn", off["lila"] == min(off.values()), f"off by {listed(off)}"),
            Verdict("Augerino depends on its strength", most > 1.5 * max(least, 0.01), listed(found)),
        ]
