"""The wide ResNet on CIFAR-10."""

from collections.abc import Mapping

from lila.reproduce.engine.experiment import Scale, Verdict, accuracies
from lila.reproduce.engine.images import Training
from lila.reproduce.engine.jobs import Result
from lila.reproduce.paper import published
from lila.reproduce.paper.accuracy import METHODS
from lila.reproduce.paper.comparison import Comparison, better
from lila.reproduce.paper.plans import plan

_NETWORK = {Scale.SMALL: "wrn-10-1", Scale.PAPER: "wrn-16-4"}


class WideResNet(Comparison):
    """Four methods on a wide ResNet."""

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
        made = {method: plan("cifar10", _NETWORK[scale], scale, method) for method in METHODS}
        return made | {"lila, empirical Fisher": made["lila"].but(curvature="ef")}

    def accuracy_of_paper(self) -> Mapping[str, float]:
        return published.WIDE_RESNET

    def verdicts(self, runs: Mapping[str, list[Result]], scale: Scale) -> list[Verdict]:
        return [
            better(f"{way} is more accurate than {rival}", accuracies, runs[way], runs[rival])
            for way in ("lila", "lila, empirical Fisher")
            for rival in ("non-invariant", "augerino")
        ]
