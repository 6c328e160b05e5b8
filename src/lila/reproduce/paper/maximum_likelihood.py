"""Why the evidence: by maximum likelihood the ranges stay at zero, even where all images are turned."""

from collections.abc import Mapping
from math import pi
from statistics import mean

from lila.reproduce.engine.experiment import Scale, Verdict, learned
from lila.reproduce.engine.images import Training
from lila.reproduce.engine.jobs import Result
from lila.reproduce.paper.comparison import Comparison
from lila.reproduce.paper.plans import plan

_ZERO = 0.05


class MaximumLikelihood(Comparison):
    """Ranges by maximum likelihood."""

    name = "maximum-likelihood"
    title = "Ranges learned by maximum likelihood on fully rotated MNIST (appendix)"
    claim = "Maximum likelihood leaves all ranges at zero, also that of the rotation; the evidence does not."
    reproduced_if = (
        f"by maximum likelihood every mean range is below {_ZERO}, and by the evidence the rotation's is above half of "
        "a half turn"
    )

    def trainings(self, scale: Scale) -> dict[str, Training]:
        ways = {"maximum likelihood": "maximum-likelihood", "evidence (lila)": "lila"}
        return {label: plan("mnist", "mlp", scale, method).but("fully-rotated") for label, method in ways.items()}

    def verdicts(self, runs: Mapping[str, list[Result]], scale: Scale) -> list[Verdict]:
        likelihood, evidence = runs["maximum likelihood"], runs["evidence (lila)"]
        largest = max(mean(learned(likelihood, name)) for name in likelihood[0]["ranges"])
        rotation = mean(learned(evidence, "rotation"))
        return [
            Verdict("maximum likelihood learns nothing", largest < _ZERO, f"largest range {largest:.3f}"),
            Verdict("the evidence learns the rotation", rotation > pi / 2, f"rotation {rotation:.2f} of {pi:.2f}"),
        ]
