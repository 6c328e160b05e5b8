"""Maximum likelihood as the objective: all ranges stay at zero, even if every image is rotated."""

from collections.abc import Mapping
from math import pi
from statistics import mean

from lila.reproduce.engine.experiment import Scale, Verdict
from lila.reproduce.engine.images import Training
from lila.reproduce.engine.jobs import Result
from lila.reproduce.engine.results import learned_ranges
from lila.reproduce.paper.comparison import Comparison
from lila.reproduce.paper.plans import plan

_ZERO = 0.05


class MaximumLikelihood(Comparison):
    """Ranges learned by maximum likelihood and by the evidence."""

    name = "maximum-likelihood"
    title = "Ranges learned by maximum likelihood on fully rotated MNIST (appendix)"
    claim = "Maximum likelihood leaves all ranges at zero, also that of the rotation; the evidence does not."
    reproduced_if = (
        f"by maximum likelihood every mean range is below {_ZERO}, and by the evidence the rotation's is above half of "
        "a half turn"
    )

    def trainings(self, scale: Scale) -> dict[str, Training]:
        methods = {"maximum likelihood": "maximum-likelihood", "evidence (lila)": "lila"}
        return {label: plan("mnist", "mlp", scale, name).changed("fully-rotated") for label, name in methods.items()}

    def verdicts(self, runs: Mapping[str, list[Result]], scale: Scale) -> list[Verdict]:
        likelihood, evidence = runs["maximum likelihood"], runs["evidence (lila)"]
        largest = max(mean(learned_ranges(likelihood, name)) for name in likelihood[0]["ranges"])
        rotation = mean(learned_ranges(evidence, "rotation"))
        return [
            Verdict("maximum likelihood learns nothing", largest < _ZERO, f"largest range {largest:.3f}"),
            Verdict("the evidence learns the rotation", rotation > pi / 2, f"rotation {rotation:.2f} of {pi:.2f}"),
        ]
