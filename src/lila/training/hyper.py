"""Steps on the evidence while the weights are trained: one after every few batches, on a few examples of a batch.

A run goes through three phases. At first only the weights are trained, and the curvature is accumulated. When the
network begins to explain the data, the prior precisions follow the evidence. They need no data once the curvature is
decomposed, so they reach their fixed point at once. When the network explains half of what can be explained, the ranges
follow too. A network that has learned nothing loses nothing by averaging over any transformation, so ranges that move
earlier run away.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import ceil, exp, inf

import torch
from torch import Tensor

from lila._util.choices import check_count
from lila.augment.noise import Draw
from lila.curvature import Structure
from lila.data.examples import Batch
from lila.errors import ArgumentError
from lila.laplace.evidence import Evidence
from lila.laplace.running import RunningEvidence
from lila.laplace.terms import Estimate
from lila.training.optimisers import cosine, load_optimiser_tensors, optimised, optimiser_tensors, without_prefix

_MOST_WINDOW = 10_000  # examples that the running average is worth, or one epoch if that is less
_FORGET = 0.5  # share of the examples so far that the running average is worth at most: early factors mislead
_VIEWS = 1.0  # in the hyper-steps of an epoch, per example: half as many as in the steps of the weights
_ENOUGH_STEPS = 600  # hyper-steps of a run that let ranges settle: in short runs they come more often
_LEAST_INTERVAL = 5  # hyper-steps from one decomposition to the next
_LEAST_DECOMPOSITIONS = 12  # of a run, about: short runs decompose more often than the rules below ask for
_REFRESHED = 1 / 16  # share of the window that is new at a decomposition
_DECOMPOSING = 0.15  # share of a run's time that decompositions take at most
_PRIOR_BELOW, _PRIOR_LATEST = 0.75, 0.1  # share unexplained, and share of the run, from which the prior follows
_RANGES_BELOW, _RANGES_LATEST = 0.5, 0.375  # the same for the ranges
_HYPER_COST = 5.0  # forward passes that take as long as a hyper-step, per view; steps of the weights cost about as much
_HOLD = 0.3  # share of the run after which the learning rate of the ranges decays


class HyperOptimiser:
    """Learns augmentation, prior and observation noise by the evidence, beside any optimiser of the weights.

    Call `step` with each batch after the weights have taken their step on it. Batches must be shuffled, as the examples
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
        seed: of the noise.
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
        seed: int = 0,
    ) -> None:
        counts = {"examples": examples, "steps": steps, "batch_size": batch_size, "hyper_batch": hyper_batch}
        for name, value in counts.items():
            check_count(name, value)
        check_count("every", every, optional=True)
        _check_rates(eta_lr=eta_lr, eta_lr_end=eta_lr_end, hyper_lr=hyper_lr)
        if not len(few[0]) or len(few[0]) != len(few[1]):
            raise ArgumentError(f"`few` must be some inputs and as many targets, not {len(few[0])} and {len(few[1])}.")
        if every is not None and every >= max(steps - (burn_in or 0), 2):
            raise ArgumentError(
                f"With a hyper-step after every {every} batches, of {steps} in all and {burn_in or 0} before ranges "
                "move, nothing would be learned. Make hyper-steps more often (hyper_every), or train for longer."
            )
        self.running = RunningEvidence(evidence, examples, Batch(torch.arange(len(few[0])), *few))
        self.steps, self.hyper_batch, self.burn_in, self.seed = steps, hyper_batch, burn_in, seed
        self.every = every or interval(steps, batch_size, hyper_batch, evidence.model.samples)
        self.window = min(examples, _MOST_WINDOW)
        self._most_interval = max(steps // self.every // _LEAST_DECOMPOSITIONS, 1)
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
        self.taken = 0  # batches so far
        self.hyper_steps = 0
        self._seen = 0  # examples in hyper-steps
        self._decompose_at = min(_LEAST_INTERVAL, self._most_interval)  # after so many hyper-steps
        self.prior_moves = self.ranges_move = False

    @property
    def due(self) -> bool:
        """Whether the next batch brings a hyper-step."""
        return self.taken % self.every == 0

    def step(
        self, x: Tensor, y: Tensor, index: Tensor | None = None, *, whole: int | None = None, offset: int = 0
    ) -> bool:
        """Make a hyper-step on some examples of a batch, if one is due.

        Args:
            x: inputs of the batch.
            y: their targets.
            index: their indices in the data set, to which their noise belongs; 0, 1, ... if None.
            whole: with several processes, of which each gives its share, the size of the whole batch.
            offset: with several processes, how many examples of the batch come before this process's share.

        Returns:
            Whether a hyper-step was made.
        """
        due = self.due
        self.taken += 1
        if not due:
            return False
        size = whole or len(x)
        if len(x) != len(y) or not size or (index is not None and len(index) != len(x)):
            raise ArgumentError(
                "A batch needs at least one example, and as many inputs as targets and indices, but there are "
                f"{len(x)} inputs, {len(y)} targets and {'no' if index is None else len(index)} indices."
            )
        count = min(self.hyper_batch, size)  # spread over the batch, and other ones each time
        chosen = (torch.arange(count) * (size // count) + self.taken * count) % size
        mine = (chosen[(chosen >= offset) & (chosen < offset + len(x))] - offset).to(x.device)
        self._hyper_step(Batch(mine if index is None else index[mine], x[mine], y[mine]), len(chosen))
        return True

    def _hyper_step(self, batch: Batch, count: int) -> None:
        running = self.running
        self._seen += count
        self.hyper_steps += 1
        window = max(min(self.window, _FORGET * self._seen), count)
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
        if self.burn_in is None:
            ready = misfit < _RANGES_BELOW or progress >= _RANGES_LATEST
        else:
            ready = self.taken >= self.burn_in
        self.prior_moves |= ready or misfit < _PRIOR_BELOW or progress >= _PRIOR_LATEST
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
        cost = curvature.decomposition_cost(self.running.examples)
        views = self.hyper_batch * self.running.evidence.model.samples
        by_time = cost / (2 * _HYPER_COST * views * _DECOMPOSING)
        by_window = _REFRESHED * self.window / self.hyper_batch
        wanted = max(ceil(by_time), ceil(by_window), _LEAST_INTERVAL)
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

    def state_dict(self) -> dict[str, Tensor]:
        """Return as named tensors, not copied, all that changes beside the hyperparameters themselves."""
        counts = (self.taken, self.hyper_steps, self._seen, self._decompose_at, self.prior_moves, self.ranges_move)
        named = {"counts": torch.tensor(counts)}
        named |= {f"running.{name}": tensor for name, tensor in self.running.tensors().items()}
        for name, optimiser in self.optimisers.items():
            named |= optimiser_tensors(name, optimiser)
        return named

    def load_state_dict(self, tensors: Mapping[str, Tensor]) -> None:
        """Put back what `state_dict` returned."""
        try:
            self.taken, self.hyper_steps, self._seen, self._decompose_at, prior, ranges = tensors["counts"].tolist()
            self.running.load_tensors(without_prefix(tensors, "running."))
        except (KeyError, ValueError, RuntimeError) as error:
            raise ArgumentError(f"This is not the state of a HyperOptimiser of such a network: {error}") from error
        self.prior_moves, self.ranges_move = bool(prior), bool(ranges)
        for name, optimiser in self.optimisers.items():
            load_optimiser_tensors(name, optimiser, tensors)

    def _set_rate(self, name: str) -> None:
        start, end = self.rates[name]
        progress = max(self.taken / self.steps - _HOLD, 0.0) / (1 - _HOLD)
        for group in self.optimisers[name].param_groups:
            group["lr"] = cosine(start, end, progress)


def _check_rates(**rates: float) -> None:
    for name, rate in rates.items():
        if not 0 < rate < inf and not (rate == 0 and name.endswith("_end")):
            raise ArgumentError(f"{name} must be positive and finite, but is {rate}.")


def interval(steps: int, batch_size: int, hyper_batch: int, samples: int) -> int:
    """Return the batches from one hyper-step to the next, such that each example gets about one view in hyper-steps.

    If that would make too few hyper-steps in the whole run, they come more often, up to every second batch.
    """
    by_cost = round(hyper_batch * samples / (_VIEWS * batch_size))
    return max(min(by_cost, max(round(steps / _ENOUGH_STEPS), 2)), 1)


@contextmanager
def trainable(parameters: Sequence[Tensor]) -> Iterator[None]:
    """Let gradients flow to some parameters within the block."""
    for parameter in parameters:
        parameter.requires_grad_(True)
    try:
        yield
    finally:
        for parameter in parameters:
            parameter.requires_grad_(False)
