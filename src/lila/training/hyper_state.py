"""What changes while hyper-steps are made, as named tensors: from these a run goes on bit for bit."""

from collections.abc import Mapping

import torch
from torch import Tensor

from lila.errors import ArgumentError
from lila.laplace.running import RunningEvidence
from lila.model.invariant import InvariantModel
from lila.model.likelihood import Likelihood
from lila.model.prior import GaussianPrior
from lila.training.full_turns import FullTurns
from lila.training.optimisers import load_optimiser_tensors, optimiser_tensors, without_prefix


class HyperState:
    """The state of a `HyperOptimiser`, which is one: the hyperparameters, running averages, optimisers and counts."""

    model: InvariantModel
    likelihood: Likelihood
    prior: GaussianPrior
    running: RunningEvidence
    optimisers: dict[str, torch.optim.Optimizer]
    taken: int = 0
    hyper_steps: int = 0
    prior_moves: bool = False
    ranges_move: bool = False
    full_turns: FullTurns
    _seen: int = 0  # examples in hyper-steps
    _decompose_at: int  # after so many hyper-steps

    def state_dict(self) -> dict[str, Tensor]:
        """Return as named tensors, not copied, all that changes: the hyperparameters, and what their steps need."""
        return self._hyperparameters() | self.tensors()

    def tensors(self) -> dict[str, Tensor]:
        """Return as named tensors, not copied, all that changes beside the hyperparameters themselves."""
        counts = (self.taken, self.hyper_steps, self._seen, self._decompose_at, self.prior_moves, self.ranges_move)
        named = {"counts": torch.tensor(counts)}
        named |= {f"running.{name}": tensor for name, tensor in self.running.tensors().items()}
        named |= {f"full_turns.{name}": tensor for name, tensor in self.full_turns.tensors().items()}
        for name, optimiser in self.optimisers.items():
            named |= optimiser_tensors(name, optimiser)
        return named

    @torch.no_grad()
    def load_state_dict(self, tensors: Mapping[str, Tensor]) -> None:
        """Put back what `state_dict` returned.

        Raises:
            ArgumentError: it is the state for another network, augmentation, likelihood or prior.
        """
        current = self._hyperparameters()
        differing = [name for name in current if name not in tensors or tensors[name].shape != current[name].shape]
        if differing:
            raise ArgumentError(
                f"This is not the state of a HyperOptimiser of such a network: {differing[0]!r} is missing, or has "
                "another shape."
            )
        self.load_tensors(tensors)
        for name, tensor in current.items():
            tensor.copy_(tensors[name])

    def load_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        """Put back what `tensors` returned."""
        try:
            self.taken, self.hyper_steps, self._seen, self._decompose_at, prior, ranges = tensors["counts"].tolist()
            self.running.load_tensors(without_prefix(tensors, "running."))
            self.full_turns.load_tensors(without_prefix(tensors, "full_turns."), self.running)
        except (KeyError, ValueError, RuntimeError) as error:
            raise ArgumentError(f"This is not the state of a HyperOptimiser of such a network: {error}") from error
        self.prior_moves, self.ranges_move = bool(prior), bool(ranges)
        for name, optimiser in self.optimisers.items():
            load_optimiser_tensors(name, optimiser, tensors)

    def consolidate(self) -> None:
        """Add the sums of all processes up in the first one, so that its state is complete; the others begin anew."""
        self.running.consolidate()
        for sampled in self.full_turns.sampled:
            sampled.consolidate()

    def leave_to_first(self) -> None:
        """Clear the sums over examples, unless this is the first process."""
        self.running.leave_to_first()
        for sampled in self.full_turns.sampled:
            sampled.leave_to_first()

    def _hyperparameters(self) -> dict[str, Tensor]:
        owners = {"augmentation": self.model.augmentation, "likelihood": self.likelihood, "prior": self.prior}
        return {f"{owner}.{name}": t for owner, module in owners.items() for name, t in module.state_dict().items()}
