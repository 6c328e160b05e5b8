"""Steps on the evidence while the weights are trained: one after every few batches, on a few examples of a batch.

`lila.training.hyper_schedule` says when they come, and what they move.
"""

from collections.abc import Mapping
from math import exp, inf
from typing import Any

import torch
from torch import Tensor, nn

from lila._util.choices import check_count, check_instance
from lila.augment.base import Augmentation
from lila.augment.noise import Draw
from lila.curvature import Structure
from lila.data.examples import Batch, check_weights
from lila.errors import ArgumentError
from lila.laplace.evidence import Evidence
from lila.laplace.running import RunningEvidence
from lila.laplace.terms import Estimate
from lila.model.likelihood import Likelihood
from lila.training.hyper_schedule import (
    LEAST_INTERVAL,
    decayed,
    decomposition_interval_of_long_run,
    interval,
    most_interval,
    prior_may_move,
    ranges_may_move,
    window_size,
)
from lila.training.optimisers import load_optimiser_tensors, optimised, optimiser_tensors, trainable, without_prefix
from lila.training.own_loop import Loader, loop_arguments
from lila.training.prior_term import add_prior_gradients, prior_loss


class HyperOptimiser:
    """Learns augmentation, prior and observation noise by the evidence, beside any optimiser of the weights.

    Call `step` with each batch before the weights take their step on it: examples to which the weights have just been
    fitted are no fair sample, and ranges learned from them are too small. Batches must be shuffled, as the examples
    of a hyper-step stand for all. Outside of `step` the hyperparameters are constants (`requires_grad` is False), so
    that the loss of the weights has no graph to them; `release` ends that.

    Args:
        evidence: how the evidence is computed. Its model's number of samples is that of a hyper-step; one gradient
            probe is enough.
        examples: N, the number of training examples.
        steps: how often `step` will be called: the number of batches of the whole run.
        few: inputs and targets of a few examples, on which the network is audited once; eight are enough.
        batch_size: examples of a batch of the weights.
        hyper_batch: examples of a batch that a hyper-step uses.
        every: batches from one hyper-step to the next; by the number of examples, views and batches if None.
        burn_in: batches before the ranges move; None for when the network explains half of what can be explained.
        eta_lr: first learning rate of the augmentation's parameters, by Adam. It decays by a cosine.
        eta_lr_end: their last learning rate.
        hyper_lr: learning rate of the observation noise, by Adam. Prior precisions have none: they are set to where the
            gradient of the evidence in them vanishes.
        learn_ranges: whether the augmentation is learned.
        learn_prior: whether prior precisions and observation noise are learned.
        weight_samples: the number of views of an example in `training_model`.
        seed: of the noise.

    Attributes:
        model: the invariant network, averaged over all samples: it makes the predictions.
        training_model: the same network, averaged over `weight_samples` samples, for the loss of the weights.
        likelihood: the likelihood of the targets.
        prior: the prior over the weights.
        running: the running evidence.
        taken: the number of batches so far.
        hyper_steps: the number of hyper-steps so far.
        prior_moves: whether prior precisions and observation noise follow the evidence by now.
        ranges_move: whether the ranges do.
    """

    def __init__(
        self,
        evidence: Evidence,
        examples: int,
        steps: int,
        few: tuple[Tensor, Tensor],
        *,
        batch_size: int,
        hyper_batch: int = 32,
        every: int | None = None,
        burn_in: int | None = None,
        eta_lr: float = 0.02,
        eta_lr_end: float = 0.001,
        hyper_lr: float = 0.02,
        learn_ranges: bool = True,
        learn_prior: bool = True,
        weight_samples: int = 2,
        seed: int = 0,
    ) -> None:
        check_instance(evidence, Evidence, "The evidence")
        counts = {"examples": examples, "steps": steps, "batch_size": batch_size, "hyper_batch": hyper_batch}
        counts |= {"weight_samples": weight_samples}
        for name, value in counts.items():
            check_count(name, value)
        check_count("every", every, optional=True)
        for name, number in (("burn_in", burn_in), ("seed", seed)):
            if not isinstance(number, int | None) or (number or 0) < 0:
                raise ArgumentError(f"{name} must be a whole number of at least 0, but is {number!r}.")
        _check_rates(eta_lr=eta_lr, eta_lr_end=eta_lr_end, hyper_lr=hyper_lr)
        if not (isinstance(few, tuple) and len(few) == 2 and all(isinstance(part, Tensor) for part in few)):
            raise ArgumentError(f"`few` must be a pair of tensors, inputs and targets, but is {type(few).__name__}.")
        if not len(few[0]) or len(few[0]) != len(few[1]):
            raise ArgumentError(f"`few` must be some inputs and as many targets, not {len(few[0])} and {len(few[1])}.")
        if every is not None and every >= max(steps - (burn_in or 0), 2):
            raise ArgumentError(
                f"With a hyper-step after every {every} batches, of {steps} in all and {burn_in or 0} before ranges "
                "move, nothing would be learned. Make hyper-steps more often (hyper_every), or train for longer."
            )
        self.running = RunningEvidence(evidence, examples, Batch(torch.arange(len(few[0]), device=few[0].device), *few))
        self.model, self.training_model = evidence.model, evidence.model.with_samples(weight_samples)
        self.likelihood, self.prior = evidence.likelihood, evidence.prior
        self.steps, self.hyper_batch, self.burn_in, self.seed = steps, hyper_batch, burn_in, seed
        self.every = every or interval(steps, batch_size, hyper_batch, evidence.model.samples)
        self._most_interval = most_interval(steps, self.every)
        self.rates = {"eta": (eta_lr, eta_lr_end), "hyper": (hyper_lr, hyper_lr)}
        self.optimisers: dict[str, torch.optim.Optimizer] = {}
        for name, modules, learned in (
            ("eta", evidence.model.augmentation, learn_ranges),
            ("hyper", evidence.likelihood, learn_prior),
        ):
            parameters = [p for p in modules.parameters() if p.requires_grad]
            if learned and parameters:
                self.optimisers[name] = torch.optim.Adam(parameters, lr=self.rates[name][0])
        self._frozen = [*evidence.hyperparameters().values()]
        self._prior = [p for p in evidence.prior.parameters() if p.requires_grad] if learn_prior else []
        if not self.optimisers and not self._prior:
            raise ArgumentError(
                "None of the hyperparameters to be learned has requires_grad=True, so there is nothing to learn. If "
                "another HyperOptimiser has them, call its release() first."
            )
        for parameter in self._frozen:
            parameter.requires_grad_(False)
        self.taken = self.hyper_steps = 0
        self._seen = 0  # examples in hyper-steps
        self._decompose_at = min(LEAST_INTERVAL, self._most_interval)  # after so many hyper-steps
        self.prior_moves = self.ranges_move = False

    @classmethod
    def for_loader(
        cls,
        net: nn.Module,
        augmentation: Augmentation,
        loader: Loader,
        epochs: int,
        *,
        likelihood: Likelihood | None = None,
        batches: int | None = None,
        few: tuple[Tensor, Tensor] | None = None,
        **settings: Any,
    ) -> "HyperOptimiser":
        """Make the optimiser of the hyperparameters for a loop that goes over a DataLoader.

        Args:
            net: any network that `fit` takes.
            augmentation: the family of transformations whose ranges are learned; it is moved to the network's device.
            loader: the DataLoader, or `lila.Fields` of one whose batches are not pairs (x, y). It must shuffle.
            epochs: how often the loop goes over it.
            likelihood: of the targets; `Categorical()` if None.
            batches: how many batches the loop takes in an epoch; None for all that the loader gives.
            few: inputs and targets of a few examples, as `step` will get them, if the loop changes what the loader
                gives; None to read them from the loader.
            **settings: fields of `Settings` that differ from their defaults: samples, weight_samples, noise, prior,
                precision, structure, curvature, probes, gradient_probes, microbatch, hyper_batch, hyper_every, burn_in
                (in epochs), eta_lr, eta_lr_end, hyper_lr, seed.
        """
        check_count("batches", batches, optional=True)
        options: dict[str, Any] = {"likelihood": likelihood, "batches": batches, "few": few, "given": settings}
        return cls(**loop_arguments(net, augmentation, loader, epochs, **options))

    @property
    def due(self) -> bool:
        """Whether the next batch brings a hyper-step."""
        return self.taken % self.every == 0

    def step(
        self,
        x: Tensor,
        y: Tensor,
        index: Tensor | None = None,
        *,
        weight: Tensor | None = None,
        whole: int | None = None,
        offset: int = 0,
    ) -> bool:
        """Make a hyper-step on some examples of a batch, if one is due.

        It computes in the precision of the weights, also inside of `torch.autocast`.

        Args:
            x: inputs of the batch.
            y: their targets.
            index: their indices in the data set, to which their noise belongs; 0, 1, ... if None.
            weight: how much each of them counts, shape (b,); None if all count alike.
            whole: with several processes, of which each gives its share, the size of the whole batch.
            offset: with several processes, how many examples of the batch come before this process's share.

        Returns:
            Whether a hyper-step was made.
        """
        size = whole or len(x)
        _check_batch(x, y, index, size, offset)
        due = self.due
        self.taken += 1
        if not due:
            return False
        count = min(self.hyper_batch, size)  # spread over the batch, and other ones each time
        chosen = (torch.arange(count) * (size // count) + self.taken * count) % size
        mine = (chosen[(chosen >= offset) & (chosen < offset + len(x))] - offset).to(x.device)
        if weight is not None:
            check_weights(weight, len(x))
        batch = Batch(
            mine if index is None else index[mine], x[mine], y[mine], None if weight is None else weight[mine]
        )
        with torch.autocast(x.device.type, enabled=False), torch.enable_grad():
            self._hyper_step(batch, len(chosen))
        return True

    def _hyper_step(self, batch: Batch, count: int) -> None:
        running = self.running
        self._seen += count
        self.hyper_steps += 1
        window = window_size(running.examples, self._seen, count)
        moving = [name for name in self.optimisers if self.ranges_move or (name == "hyper" and self.prior_moves)]
        with trainable([p for name in moving for p in optimised(self.optimisers[name])]):
            gradients = running.add(batch, Draw(self.seed, 2 * self.taken - 1), count, fade=exp(-count / window))
            parameters = running.evidence.data_hyperparameters()
            for name, gradient in gradients.items():
                parameters[name].grad = -gradient
        for name in moving:
            self._set_rate(name)
            self.optimisers[name].step()
            self.optimisers[name].zero_grad()
        running.evidence.model.augmentation.saturate_()
        self._advance()

    def _advance(self) -> None:
        """Go from one phase to the next when it is due, and decompose."""
        progress, unexplained = self.taken / self.steps, self.running.unexplained
        misfit = 1.0 if unexplained is None else unexplained
        ready = ranges_may_move(misfit, progress) if self.burn_in is None else self.taken >= self.burn_in
        self.prior_moves |= ready or prior_may_move(misfit, progress)
        first = ready and self.running.cotangent is None
        if self.prior_moves and (first or self.hyper_steps >= self._decompose_at):
            self.decompose()
        self.ranges_move |= ready and self.running.cotangent is not None

    def decompose(self) -> None:
        """Decompose the running curvature, and move the prior."""
        with trainable(self._prior):
            self.running.decompose(move_prior=bool(self._prior))
        assert self.running.curvature is not None
        self._decompose_at = self.hyper_steps + self.decomposition_interval(self.running.curvature)

    def decomposition_interval(self, curvature: Structure) -> int:
        """Return the number of hyper-steps from one decomposition to the next.

        Args:
            curvature: the curvature that is decomposed; only its shapes count.
        """
        cost, samples = curvature.decomposition_cost(self.running.examples), self.model.samples
        wanted = decomposition_interval_of_long_run(cost, self.running.examples, self.hyper_batch, samples)
        return min(wanted, self._most_interval)

    def estimate(self, log_likelihood: tuple[float, float] | None = None) -> Estimate:
        """Estimate the evidence of the whole data set from the present running averages.

        Args:
            log_likelihood: the log-likelihood of all N examples and its standard error, if they are known better than
                from the examples of the last hyper-steps.
        """
        return self.running.estimate(log_likelihood)

    def release(self) -> None:
        """Make the hyperparameters trainable again, as they were before."""
        for parameter in self._frozen:
            parameter.requires_grad_(True)

    def prior_loss(self) -> Tensor:
        """Return 1/N (1/2 sum delta theta^2), the prior's part in the loss, to be added to the mean loss of a batch.

        It takes the place of weight decay, which the optimiser of the weights should not have beside it.
        """
        return prior_loss(self.prior, self.model.net, self.running.examples)

    def add_prior_gradients(self) -> None:
        """Add the gradient of `prior_loss` to the gradients of the weights, where the loss cannot be added to."""
        add_prior_gradients(self.prior, self.model.net, self.running.examples)

    def state_dict(self) -> dict[str, Tensor]:
        """Return as named tensors, not copied, all that changes: the hyperparameters, and what their steps need."""
        return self._hyperparameters() | self.tensors()

    def tensors(self) -> dict[str, Tensor]:
        """Return as named tensors, not copied, all that changes beside the hyperparameters themselves."""
        counts = (self.taken, self.hyper_steps, self._seen, self._decompose_at, self.prior_moves, self.ranges_move)
        named = {"counts": torch.tensor(counts)}
        named |= {f"running.{name}": tensor for name, tensor in self.running.tensors().items()}
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
        except (KeyError, ValueError, RuntimeError) as error:
            raise ArgumentError(f"This is not the state of a HyperOptimiser of such a network: {error}") from error
        self.prior_moves, self.ranges_move = bool(prior), bool(ranges)
        for name, optimiser in self.optimisers.items():
            load_optimiser_tensors(name, optimiser, tensors)

    def _hyperparameters(self) -> dict[str, Tensor]:
        owners = {"augmentation": self.model.augmentation, "likelihood": self.likelihood, "prior": self.prior}
        return {f"{owner}.{name}": t for owner, module in owners.items() for name, t in module.state_dict().items()}

    def _set_rate(self, name: str) -> None:
        start, end = self.rates[name]
        for group in self.optimisers[name].param_groups:
            group["lr"] = decayed(start, end, self.taken / self.steps)


def _check_batch(x: Tensor, y: Tensor, index: Tensor | None, size: int, offset: int) -> None:
    """Raise ArgumentError unless inputs, targets and indices make a batch, or a share of one of a given size."""
    if len(x) != len(y) or not size or (index is not None and len(index) != len(x)):
        raise ArgumentError(
            "A batch needs at least one example, and as many inputs as targets and indices, but there are "
            f"{len(x)} inputs, {len(y)} targets and {'no' if index is None else len(index)} indices."
        )
    if not 0 <= offset <= size - len(x):
        raise ArgumentError(f"A batch of {size} examples has no share of {len(x)} examples after the first {offset}.")
    if index is not None and (index.is_floating_point() or bool((index < 0).any())):
        raise ArgumentError("Indices of examples are whole numbers of at least 0.")


def _check_rates(**rates: float) -> None:
    for name, rate in rates.items():
        if not 0 < rate < inf and not (rate == 0 and name.endswith("_end")):
            raise ArgumentError(f"{name} must be positive and finite, but is {rate}.")
