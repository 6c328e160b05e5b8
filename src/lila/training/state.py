"""Everything that changes in training, and its form as named tensors.

Noise, shuffling and learning rates are functions of the settings and the epoch, so these tensors and the epoch are the
whole state: putting them back gives, bit for bit, what an uninterrupted run gives.
"""

from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from lila.errors import ArgumentError, CheckpointError, NumericalError
from lila.model.invariant import InvariantModel
from lila.model.likelihood import Likelihood
from lila.model.prior import GaussianPrior
from lila.training.choices import OptimiserName
from lila.training.history import EpochRecord
from lila.training.hyper import HyperOptimiser
from lila.training.optimisers import cosine, load_optimiser_tensors, optimised, optimiser_tensors, without_prefix
from lila.training.settings import ResolvedSettings
from lila.training.weights_optimiser import (
    NOT_OWN,
    MakeOptimiser,
    OwnOptimisation,
    Schedule,
    check_optimiser,
    make_optimiser,
    make_schedule,
)


@dataclass
class State:
    """What changes in training.

    Attributes:
        model: the invariant network.
        likelihood: of the targets.
        prior: over the weights.
        optimisers: of "weights", "eta", and "hyper" (prior precisions and observation noise).
        weights_model: the same network with as many samples as a step of the weights takes.
        new_optimiser: makes another optimiser of the weights, to try it on copies of them.
        schedule: the schedule of the weights' learning rate; None if it is a function of the progress alone.
        hyper: what learns by the evidence while the weights are trained, in runs that do.
        epoch: the number of epochs done.
        history: one record per epoch.
    """

    model: InvariantModel
    likelihood: Likelihood
    prior: GaussianPrior
    optimisers: dict[str, torch.optim.Optimizer]
    _: KW_ONLY
    weights_model: InvariantModel
    new_optimiser: MakeOptimiser | None = None
    schedule: Schedule | None = None
    hyper: HyperOptimiser | None = None
    epoch: int = 0
    history: list[EpochRecord] = field(default_factory=list)

    @classmethod
    def fresh(
        cls,
        model: InvariantModel,
        likelihood: Likelihood,
        prior: GaussianPrior,
        settings: ResolvedSettings,
        *,
        batches: int,
        own: OwnOptimisation = NOT_OWN,
    ) -> "State":
        """Return the state before the first epoch.

        Args:
            model: the invariant network.
            likelihood: of the targets.
            prior: over the weights.
            settings: how to train.
            batches: the number of batches of an epoch.
            own: makes the optimiser of the weights and its schedule, where the settings do not name them.
        """
        weights = [p for p in model.net.parameters() if p.requires_grad]
        new_optimiser = partial(make_optimiser, settings=settings, own=own)
        optimisers = {"weights": new_optimiser(weights)}
        check_optimiser(optimisers["weights"], weights)
        groups = {"eta": [*model.augmentation.parameters()], "hyper": [*prior.parameters(), *likelihood.parameters()]}
        for name, parameters in groups.items():
            trainable = [p for p in parameters if p.requires_grad]
            if trainable:
                optimisers[name] = torch.optim.Adam(trainable, lr=settings.eta_lr)
        return cls(
            model,
            likelihood,
            prior,
            optimisers,
            weights_model=model.with_samples(settings.weight_samples),
            new_optimiser=new_optimiser,
            schedule=make_schedule(optimisers["weights"], settings, own, batches),
        )

    def set_learning_rates(self, settings: ResolvedSettings, progress: float) -> None:
        """Set the learning rates at a share of the run: of the weights unless a schedule does, of eta, and the rest."""
        rates = {
            "weights": cosine(settings.lr, settings.lr_end, progress),
            "eta": cosine(settings.eta_lr, settings.eta_lr_end, progress),
            "hyper": settings.hyper_lr,
        }
        for name, optimiser in self.optimisers.items():
            if name == "weights" and self.schedule is not None:
                continue
            own = name == "weights" and settings.optimiser == OptimiserName.OWN
            for group in optimiser.param_groups:
                if own:  # each group in proportion to the rate that the function chose
                    group["lr"] = group.setdefault("initial_lr", group["lr"]) * rates[name] / settings.lr
                else:
                    group["lr"] = rates[name]

    def track(self, *groups: str) -> None:
        """Let gradients flow to these groups of hyperparameters, and to no other; to the weights they always do."""
        for name, optimiser in self.optimisers.items():
            if name != "weights":
                for parameter in optimised(optimiser):
                    parameter.requires_grad_(name in groups)

    def check_finite(self) -> None:
        """Raise NumericalError if a weight or a hyperparameter is not finite."""
        for name, tensor in self._of_modules():
            if not tensor.isfinite().all():
                raise NumericalError(f"{name!r} is not finite. Lower the learning rates, or compute in float64.")

    @torch.no_grad()
    def hyperparameters(self) -> dict[str, Any]:
        """Return the present hyperparameters as an `EpochRecord` holds them."""
        augmentation, likelihood = self.model.augmentation, self.likelihood
        return {
            "ranges": dict(augmentation.ranges),
            "parameters": {name: p.flatten().tolist() for name, p in augmentation.named_parameters()},
            "precisions": {name: float(delta.mean()) for name, delta in self.prior.by_group().items()},
            "likelihood": {name: p.flatten().tolist() for name, p in likelihood.named_parameters()},
        }

    def tensors(self) -> dict[str, Tensor]:
        """Return all tensors of the state by name, not copied."""
        named = {name: tensor.detach() for name, tensor in self._of_modules()}
        for name, optimiser in self.optimisers.items():
            named |= optimiser_tensors(name, optimiser)
        if self.hyper is not None:
            named |= {f"hyper.{name}": tensor for name, tensor in self.hyper.tensors().items()}
        return named

    @torch.no_grad()
    def load_tensors(self, tensors: Mapping[str, Tensor], path: Path) -> None:
        """Put back what `tensors` returned; check all of it before any of it changes the state.

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
            if tensors[name].is_floating_point() != tensor.is_floating_point():
                raise CheckpointError(f"{name!r} has type {tensors[name].dtype} in {path}, but {tensor.dtype} here.")
            if not tensors[name].isfinite().all():
                raise CheckpointError(f"{path} is damaged: {name!r} holds NaN or infinite values.")
        for name, tensor in current.items():
            tensor.copy_(tensors[name])
        try:
            for name, optimiser in self.optimisers.items():
                load_optimiser_tensors(name, optimiser, tensors)
            if self.hyper is not None:
                self.hyper.load_tensors(without_prefix(tensors, "hyper."))
        except ArgumentError as error:
            raise CheckpointError(f"{path}: {error}") from error

    def _of_modules(self) -> Iterator[tuple[str, Tensor]]:
        """Return parameters and buffers of all modules."""
        modules: dict[str, nn.Module] = {
            "net": self.model.net,
            "augmentation": self.model.augmentation,
            "likelihood": self.likelihood,
            "prior": self.prior,
        }
        for owner, module in modules.items():
            for name, tensor in module.state_dict(keep_vars=True).items():
                yield f"{owner}.{name}", tensor
