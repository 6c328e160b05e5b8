"""The approximation to the curvature that invariance learning needs: Kronecker or diagonal, GGN or empirical Fisher."""

from collections.abc import Mapping
from dataclasses import replace
from statistics import mean

from lila.reproduce.engine.experiment import Scale, Verdict
from lila.reproduce.engine.images import Training
from lila.reproduce.engine.jobs import Result
from lila.reproduce.engine.results import accuracies
from lila.reproduce.paper.comparison import Comparison, better, off_the_quarter_turn
from lila.reproduce.paper.plans import plan
from lila.results.tables import listed

_IMAGES = {Scale.SMALL: 1000, Scale.PAPER: 5000}


class Approximations(Comparison):
    """Four approximations to the curvature on the same data."""

    name = "approximations"
    title = "Kron and Diag, GGN and empirical Fisher, on Fashion-MNIST turned by up to 90 degrees (appendix)"
    claim = (
        "Kronecker factors learn the rotation and predict better than diagonals, by the empirical Fisher nearly as "
        "well as by the GGN."
    )
    reproduced_if = (
        "Kron-GGN has a higher mean accuracy than both diagonals and a rotation closer to a quarter turn; Kron-EF lies "
        "within 2 percent of Kron-GGN; Diag-EF is the worst of the four in accuracy"
    )

    def trainings(self, scale: Scale) -> dict[str, Training]:
        base = replace(plan("fashion-mnist", "mlp", scale).changed("partially-rotated"), subset=_IMAGES[scale])
        return {
            f"{structure.capitalize()}-{curvature.upper()}": base.changed(structure=structure, curvature=curvature)
            for structure in ("kron", "diag")
            for curvature in ("ggn", "ef")
        }

    def verdicts(self, runs: Mapping[str, list[Result]], scale: Scale) -> list[Verdict]:
        off = off_the_quarter_turn(runs)
        accuracy = {label: mean(accuracies(results)) for label, results in runs.items()}
        gap = accuracy["Kron-GGN"] - accuracy["Kron-EF"]
        return [
            better("Kron-GGN is more accurate than Diag-GGN", accuracies, runs["Kron-GGN"], runs["Diag-GGN"]),
            better("Kron-GGN is more accurate than Diag-EF", accuracies, runs["Kron-GGN"], runs["Diag-EF"]),
            Verdict(
                "Kron-GGN is closer to the quarter turn than the diagonals",
                off["Kron-GGN"] < min(off["Diag-GGN"], off["Diag-EF"]),
                f"off by {listed(off)}",
            ),
            Verdict("Kron-EF is nearly as accurate as Kron-GGN", abs(gap) < 2, f"{gap:+.2f} percent"),
            Verdict(
                "Diag-EF is the least accurate",
                accuracy["Diag-EF"] == min(accuracy.values()),
                listed(accuracy, 1),
            ),
        ]
