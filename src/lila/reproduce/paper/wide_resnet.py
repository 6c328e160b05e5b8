"""Test accuracy of a wide ResNet on CIFAR-10."""

from collections.abc import Mapping

from lila.reproduce.engine.experiment import Scale, Verdict
from lila.reproduce.engine.images import Training
from lila.reproduce.engine.jobs import Result
from lila.reproduce.engine.results import accuracies
from lila.reproduce.paper import published
from lila.reproduce.paper.accuracy import METHODS
from lila.reproduce.paper.comparison import Comparison, better
from lila.reproduce.paper.plans import plan

_NETWORK = {Scale.SMALL: "wrn-10-1", Scale.PAPER: "wrn-16-4"}


class WideResNet(Comparison):
    """A wide ResNet trained by four methods."""

    name = "wide-resnet"
    title = "Test accuracy of a wide ResNet on CIFAR-10 (table in the main text)"
    claim = (
        "With a wide ResNet, lila is more accurate than the non-invariant network and Augerino, by the empirical "
        "Fisher too."
    )
    reproduced_if = (
        "the mean accuracies of both variants of lila are above those of the non-invariant network and of Augerino"
    )

    def trainings(self, scale: Scale) -> dict[str, Training]:
        trainings = {method: plan("cifar10", _NETWORK[scale], scale, method) for method in METHODS}
        return trainings | {"lila, empirical Fisher": trainings["lila"].changed(curvature="ef")}

    def published_accuracy(self) -> Mapping[str, float]:
        return published.WIDE_RESNET

    def verdicts(self, runs: Mapping[str, list[Result]], scale: Scale) -> list[Verdict]:
        return [
            better(f"{variant} is more accurate than {rival}", accuracies, runs[variant], runs[rival])
            for variant in ("lila", "lila, empirical Fisher")
            for rival in ("non-invariant", "augerino")
        ]
