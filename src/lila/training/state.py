"""Everything that changes in training, and its form as named tensors.

Noise, shuffling and learning rates are functions of the settings and the epoch, so these tensors and the epoch are the
whole state: putting them back gives, bit for bit, what an uninterrupted run gives.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import cos, pi
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from lila.invariant import InvariantModel
from lila.likelihood import Likelihood
from lila.prior import GaussianPrior
from lila.training.checkpoint import CheckpointError
from lila.training.settings import OptimiserName, Settings


@dataclass
class State:
    """What changes in training.

    Attributes:
        model: the invariant network.
        likelihood: of the targets.
        prior: over the weights.
        optimisers: of "weights", "eta", and "hyper" (prior precisions and observation noise).
        epoch: the number of epochs done.
        history: one record per epoch.
    """

    model: InvariantModel
    likelihood: Likelihood
    prior: GaussianPrior
    optimisers: dict[str, torch.optim.Optimizer]
    epoch: int = 0
    history: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def fresh(cls, model: InvariantModel, likelihood: Likelihood, prior: GaussianPrior, settings: Settings) -> "State":
        """The state before the first epoch."""
        weights = [p for p in model.net.parameters() if p.requires_grad]
        optimisers: dict[str, torch.optim.Optimizer] = {
            "weights": torch.optim.Adam(weights, lr=settings.lr)
            if settings.optimiser == OptimiserName.ADAM
            else torch.optim.SGD(weights, lr=settings.lr, momentum=settings.momentum)
        }
        groups = {"eta": [*model.augmentation.parameters()], "hyper": [*prior.parameters(), *likelihood.parameters()]}
        for name, parameters in groups.items():
            trainable = [p for p in parameters if p.requires_grad]
            if trainable:
                optimisers[name] = torch.optim.Adam(trainable, lr=settings.eta_lr)
        return cls(model, likelihood, prior, optimisers)

    def set_learning_rates(self, settings: Settings) -> None:
        """The learning rates of the present epoch: cosine decay for the weights and eta, constant for the rest."""
        progress = self.epoch / max(settings.epochs - 1, 1)
        rates = {
            "weights": cosine(settings.lr, settings.lr_end, progress),
            "eta": cosine(settings.eta_lr, settings.eta_lr_end, progress),
            "hyper": settings.hyper_lr,
        }
        for name, optimiser in self.optimisers.items():
            for group in optimiser.param_groups:
                group["lr"] = rates[name]

    def track(self, *groups: str) -> None:
        """Let gradients flow to these groups of hyperparameters, and to no other; to the weights they always do."""
        for name, optimiser in self.optimisers.items():
            if name != "weights":
                for parameter in _optimised(optimiser):
                    parameter.requires_grad_(name in groups)

    def tensors(self) -> dict[str, Tensor]:
        """All tensors of the state by name, not copied."""
        named = {name: tensor.detach() for name, tensor in self._of_modules()}
        for name, optimiser in self.optimisers.items():
            for position, parameter in enumerate(_optimised(optimiser)):
                for key, value in optimiser.state.get(parameter, {}).items():
                    if isinstance(value, Tensor):
                        named[f"optimiser.{name}.{position}.{key}"] = value
        return named

    @torch.no_grad()
    def load_tensors(self, tensors: Mapping[str, Tensor], path: Path) -> None:
        """Put tensors back that came from `tensors`; checks all before it changes any.

        Args:
            tensors: by name.
            path: the file that they come from, for messages.
        """
        current = dict(self._of_modules())
        for name, tensor in current.items():
            if name not in tensors:
                raise CheckpointError(f"{path} has no {name!r}: it belongs to another network or augmentation.")
            if tensors[name].shape != tensor.shape:
                raise CheckpointError(
                    f"{name!r} has shape {tuple(tensors[name].shape)} in {path} but {tuple(tensor.shape)} here: it "
                    "belongs to another network or augmentation."
                )
        for name, tensor in current.items():
            tensor.copy_(tensors[name])
        for name, optimiser in self.optimisers.items():
            for position, parameter in enumerate(_optimised(optimiser)):
                prefix = f"optimiser.{name}.{position}."
                saved = {key.removeprefix(prefix): t for key, t in tensors.items() if key.startswith(prefix)}
                if saved:
                    optimiser.state[parameter] = {
                        key: value.clone() if key == "step" else value.to(parameter.device, copy=True)
                        for key, value in saved.items()
                    }

    def _of_modules(self) -> Iterator[tuple[str, Tensor]]:
        """Parameters and buffers of all modules."""
        modules: dict[str, nn.Module] = {
            "net": self.model.net,
            "augmentation": self.model.augmentation,
            "likelihood": self.likelihood,
            "prior": self.prior,
        }
        for owner, module in modules.items():
            for name, tensor in module.state_dict(keep_vars=True).items():
                yield f"{owner}.{name}", tensor


def cosine(start: float, end: float, progress: float) -> float:
    """A rate that falls from start to end along half a cosine while progress goes from 0 to 1."""
    return end + (start - end) * (1 + cos(pi * min(progress, 1.0))) / 2


def _optimised(optimiser: torch.optim.Optimizer) -> list[Tensor]:
    return [parameter for group in optimiser.param_groups for parameter in group["params"]]
