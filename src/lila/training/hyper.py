"""Steps on the evidence while the weights are trained: one after every few batches, on a few examples of a batch.

`lila.training.hyper_schedule` says when they come, and what they move.
"""

from math import exp
from typing import Any

import torch
from torch import Tensor, nn

from lila._util.arguments import suggests_arguments
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
from lila.training.full_turns import FullTurns
from lila.training.hyper_arguments import check_batch, check_counts, check_few, check_rates, check_when
from lila.training.hyper_schedule import (
    LEAST_INTERVAL,
    chosen_examples,
    decayed,
    decomposition_interval_of_long_run,
    interval,
    most_interval,
    prior_may_move,
    ranges_may_move,
    window_size,
)
from lila.training.hyper_state import HyperState
from lila.training.optimisers import optimised, trainable
from lila.training.own_loop import Loader, loop_arguments
from lila.training.prior_term import add_prior_gradients, prior_loss


@suggests_arguments
class HyperOptimiser(HyperState):
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
        few: inputs and targets of a few examples, on which the network is audited once; 64 are enough.
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
        full_turns: what is known of the evidence of full turns, for ranges of angles that came to rest half-way.
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
        check_counts(
            examples=examples,
            steps=steps,
            batch_size=batch_size,
            hyper_batch=hyper_batch,
            weight_samples=weight_samples,
        )
        check_when(every, burn_in, seed, steps)
        check_rates(eta_lr=eta_lr, eta_lr_end=eta_lr_end, hyper_lr=hyper_lr)
        check_few(few)
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
        eta = optimised(self.optimisers["eta"]) if "eta" in self.optimisers else []
        self.full_turns = FullTurns(self.model.augmentation, eta)
        self._decompose_at = min(LEAST_INTERVAL, self._most_interval)

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
        check_batch(x, y, index, size, offset)
        due = self.due
        self.taken += 1
        if not due:
            return False
        if weight is not None:
            check_weights(weight, len(x))
        count = min(self.hyper_batch, size)
        mine = chosen_examples(count, self.taken, size, share=range(offset, offset + len(x))).to(x.device)
        batch = Batch(
            mine if index is None else index[mine], x[mine], y[mine], None if weight is None else weight[mine]
        )
        with torch.autocast(x.device.type, enabled=False), torch.enable_grad():
            self._hyper_step(batch, count)
        return True

    def _hyper_step(self, batch: Batch, count: int) -> None:
        running = self.running
        self._seen += count
        self.hyper_steps += 1
        window, draw = window_size(running.examples, self._seen, count), Draw(self.seed, 2 * self.taken - 1)
        moving = [name for name in self.optimisers if self.ranges_move or (name == "hyper" and self.prior_moves)]
        with trainable([p for name in moving for p in optimised(self.optimisers[name])]):
            gradients = running.add(batch, draw, count, fade=exp(-count / window))
            parameters = running.evidence.data_hyperparameters()
            for name, gradient in gradients.items():
                parameters[name].grad = -gradient
        for name in moving:
            self._set_rate(name)
            self.optimisers[name].step()
            self.optimisers[name].zero_grad()
        running.evidence.model.augmentation.saturate_()
        if self.ranges_move:
            progress = self.taken / self.steps
            self.full_turns.look(running, batch, draw, count, hyper_step=self.hyper_steps, progress=progress)
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

    def _set_rate(self, name: str) -> None:
        start, end = self.rates[name]
        for group in self.optimisers[name].param_groups:
            group["lr"] = decayed(start, end, self.taken / self.steps)
