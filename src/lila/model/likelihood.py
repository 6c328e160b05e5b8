"""Likelihoods p(y | f) with the network's output f as natural parameter, their output Hessians and roots of these.

Indices: b examples, c outputs, r columns of the root. Each class gives, for one batch:

    log_prob   log p(y | f)                            (b,)
    score      d log p(y | f) / d f                    (b, c)
    root       L with L L' = Lambda = -d2 log p / df2  (b, c, r)
    sizes      about how large the columns of L are    (b, r)
    hessian    Lambda                                  (b, c, c)
    sum_of_hessians  sum_b Lambda                      (c, c)
    directions in which log p changes with f           (c, d)

All are differentiable in f and in the likelihood's own parameters, also where a probability underflows.

What a network predicts, and how good that is:

    predict              class probabilities, label probabilities or the mean, from f         (b, c)
    expected_prediction  the same for outputs that are uncertain                              (b, c)
    noise_variance       variance of real targets around the mean
    correct              whether the predicted class is the target                            (b,)
    metrics              numbers by name that tell how good predictions are

The share of the targets that a network does not explain is its misfit, which is 0 for perfect predictions, divided by
the misfit of the best constant prediction. The latter follows from sums over the targets, so batches are enough:

    misfit           how far each prediction is from its target                               (b,)
    target_sums      sums of statistics of the targets
    constant_misfit  the misfit of the best constant prediction, from these sums
    constant_answer  what is predicted without looking at the input, and its evidence, from these sums
"""

from abc import ABC, abstractmethod
from math import inf, log, pi
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lila.errors import ArgumentError, DataError
from lila.model.constant import ConstantAnswer, counts_evidence, smoothed_frequencies
from lila.model.metrics import class_scores


class Likelihood(nn.Module, ABC):
    """A log-concave density of the target given the network's output.

    Attributes:
        classifies: whether targets are classes, so that predictions are right or wrong; see `correct`.
    """

    classifies: ClassVar[bool] = False

    @abstractmethod
    def log_prob(self, f: Tensor, y: Tensor) -> Tensor:
        """Return the log-density of each target, shape (b,)."""

    @abstractmethod
    def score(self, f: Tensor, y: Tensor) -> Tensor:
        """Return the gradient of the log-density in f, shape (b, c)."""

    @abstractmethod
    def sizes(self, f: Tensor) -> Tensor:
        """Return about the squared length of each column of the root L, shape (b, r)."""

    @abstractmethod
    def root_times(self, f: Tensor, z: Tensor) -> Tensor:
        """Return the product of a root L of the output Hessian with z, (b, r, k) to (b, c, k), at linear cost in c."""

    def root(self, f: Tensor) -> Tensor:
        """Return the root L itself, shape (b, c, r)."""
        count = self.sizes(f).shape[1]
        return self.root_times(f, torch.eye(count, dtype=f.dtype, device=f.device).expand(len(f), -1, -1))

    def hessian(self, f: Tensor) -> Tensor:
        """Return the output Hessian Lambda = L L', shape (b, c, c)."""
        root = self.root(f)
        return root @ root.mT

    def sum_of_hessians(self, f: Tensor) -> Tensor:
        """Return the sum of the output Hessians, shape (c, c); subclasses compute it at a cost quadratic in c."""
        return self.hessian(f).sum(0)

    def directions(self, f: Tensor) -> Tensor:
        """Return an orthonormal basis of the directions in which the density changes with f, as columns (c, d)."""
        return torch.eye(f.shape[1], dtype=f.dtype, device=f.device)

    def predict(self, f: Tensor) -> Tensor:
        """Return what outputs f, shape (..., c), predict, in the same shape.

        Raises:
            ArgumentError: the likelihood does not define a prediction.
        """
        raise ArgumentError(
            f"There is no predictive for a {type(self).__name__}, as it has no method `predict`. Define one, or make a "
            "prediction of your own from Posterior.outputs(x), the mean and covariance of the network's outputs."
        )

    def expected_prediction(self, mean: Tensor, variance: Tensor, draws: Tensor | None = None) -> Tensor:
        """Return the expected prediction for uncertain outputs, shape (b, c).

        By default outputs are logits, and the expectation is approximated in closed form by predicting from
        f / sqrt(1 + pi/8 var f), or by the average over draws if there are any.

        Args:
            mean: the mean of the outputs, shape (b, c).
            variance: their variance, shape (b, c).
            draws: draws of the outputs, shape (s, b, c), or None.
        """
        return self.predict(mean / (1 + pi / 8 * variance).sqrt()) if draws is None else self.predict(draws).mean(0)

    def noise_variance(self) -> Tensor | None:
        """Return the variance of real targets around their mean; None if targets are not real numbers."""
        return None

    def correct(self, f: Tensor, y: Tensor) -> Tensor:
        """Return whether each predicted class is the target, shape (b,); only for a likelihood that classifies."""
        raise ArgumentError(f"The predictions of a {type(self).__name__} are not right or wrong; see `classifies`.")

    def metrics(self, f: Tensor, y: Tensor) -> dict[str, float]:
        """Return numbers that tell how good predictions are, averaged over examples; "log_likelihood" is always there.

        Args:
            f: outputs, shape (n, c).
            y: targets.
        """
        return {"log_likelihood": float(self.log_prob(f, y).mean())}

    def misfit(self, f: Tensor, y: Tensor) -> Tensor:
        """Return how far each prediction is from its target, 0 at best, shape (b,); by default -log p(y | f)."""
        return -self.log_prob(f, y)

    def target_sums(self, f: Tensor, y: Tensor) -> Tensor:
        """Return the sums over the targets of a batch that `constant_misfit` needs; no entries if there is none."""
        return f.new_zeros(0)

    def constant_misfit(self, sums: Tensor, count: float) -> float | None:
        """Return the mean misfit of the best constant prediction for `count` targets; None if it is not known."""
        return None

    def constant_answer(self, sums: Tensor, count: float) -> ConstantAnswer | None:
        """Return the constant answer to `count` targets with these sums; None if it is not known."""
        return None

    @abstractmethod
    def check_targets(self, outputs: int, y: Tensor) -> None:
        """Raise DataError unless y can be targets of a network with this number of outputs."""


class Categorical(Likelihood):
    """One of C classes: p(y = c | f) = softmax(f)_c and Lambda = diag(p) - p p'.

    With u = sqrt(p), a unit vector, Lambda = D (I - u u') D for D = diag(u). Let e be the unit vector of the likeliest
    class, and H the reflection that swaps u and -e; then I - u u' = H (I - e e') H. So D H without the column of that
    class is a root; it has C - 1 columns, and those of unlikely classes are short:

        H = I - w w' / (1 + u'e),    w = u + e.
    """

    classifies: ClassVar[bool] = True

    def log_prob(self, f: Tensor, y: Tensor) -> Tensor:
        return -F.cross_entropy(f, y.long(), reduction="none")

    def score(self, f: Tensor, y: Tensor) -> Tensor:
        return F.one_hot(y.long(), f.shape[1]) - f.softmax(1)

    def sizes(self, f: Tensor) -> Tensor:
        return f.softmax(1).gather(1, self._unlikely(f))

    def root_times(self, f: Tensor, z: Tensor) -> Tensor:
        u, e, w = self._reflection(f)
        per_class = z.new_zeros(*f.shape, z.shape[2]).scatter(1, self._unlikely(f)[:, :, None].expand_as(z), z)
        reflected = torch.einsum("bc,bck->bk", w, per_class) / (1 + (u * e).sum(1, keepdim=True))
        return u[:, :, None] * (per_class - w[:, :, None] * reflected[:, None, :])

    def root(self, f: Tensor) -> Tensor:
        """Return D H, column by column: an outer product, plus D where the column belongs to the class."""
        u, e, w = self._reflection(f)
        unlikely = self._unlikely(f)
        short = w.gather(1, unlikely) / (1 + (u * e).sum(1, keepdim=True))
        columns = short[:, :, None] * -(u * w)[:, None, :]  # (b, r, c)
        return columns.scatter_add(2, unlikely[:, :, None], u.gather(1, unlikely)[:, :, None]).mT

    def sum_of_hessians(self, f: Tensor) -> Tensor:
        """Each row of Lambda sums to zero, so the diagonal follows from the other entries, without cancellation."""
        p = f.softmax(1)
        beside = (p.mT @ p).masked_fill(torch.eye(f.shape[1], dtype=torch.bool, device=f.device), 0.0)
        return beside.sum(1).diag() - beside

    def directions(self, f: Tensor) -> Tensor:
        """The softmax is constant along (1, ..., 1); the other directions are an orthonormal basis of its complement.

        A reflection swaps (1, ..., 1) / sqrt(C) and the first unit vector. Its other columns are that basis.
        """
        v = torch.full_like(f[0], f.shape[1] ** -0.5)
        v[0] -= 1
        reflection = torch.eye(len(v), dtype=f.dtype, device=f.device) - 2 * v.outer(v) / v.dot(v)
        return reflection[:, 1:]

    def predict(self, f: Tensor) -> Tensor:
        """Return the probability of each class."""
        return f.softmax(-1)

    def correct(self, f: Tensor, y: Tensor) -> Tensor:
        return f.argmax(1) == y

    def metrics(self, f: Tensor, y: Tensor) -> dict[str, float]:
        """Return "accuracy", "calibration_error" (expected, 15 bins), "brier" and "log_likelihood"."""
        return class_scores(self.predict(f), y) | super().metrics(f, y)  # the latter from logits: it cannot underflow

    def target_sums(self, f: Tensor, y: Tensor) -> Tensor:
        """Return the number of targets of each class."""
        return torch.bincount(y.long(), minlength=f.shape[1]).to(f.dtype)

    def constant_misfit(self, sums: Tensor, count: float) -> float:
        """Return the entropy of the class frequencies."""
        return float(torch.special.entr(sums / count).sum())

    def constant_answer(self, sums: Tensor, count: float) -> ConstantAnswer:
        """Return the class frequencies; the evidence is exact, see `lila.model.constant`."""
        counts = sums.double()
        return ConstantAnswer(float(counts_evidence(counts)), smoothed_frequencies(counts).log(), Categorical())

    def _reflection(self, f: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the vectors u, e and w, each (b, c)."""
        u = (0.5 * f.log_softmax(1)).exp()  # not softmax(f).sqrt(), whose gradient is NaN where p underflows to 0
        e = F.one_hot(f.argmax(1), f.shape[1]).to(f.dtype)
        return u, e, u + e

    def _unlikely(self, f: Tensor) -> Tensor:
        """Return the class that each column belongs to, for all classes but the likeliest: (b, c - 1)."""
        classes = torch.arange(f.shape[1] - 1, device=f.device)
        return classes + (classes >= f.argmax(1, keepdim=True))

    def check_targets(self, outputs: int, y: Tensor) -> None:
        if outputs < 2:
            raise DataError(
                "Categorical needs a network with an output per class, and at least two. For a single yes or no use "
                "lila.Bernoulli()."
            )
        if y.is_floating_point() or y.is_complex() or y.dtype == torch.bool or y.dim() != 1:
            raise DataError(
                f"Categorical needs one integer class per example, shape (batch,), but the labels have type {y.dtype} "
                f"and shape {tuple(y.shape)}. A column of labels: y.squeeze(1); one-hot labels: y.argmax(1); whole "
                "numbers kept as floats: y.long(); numbers to predict: use lila.Gaussian()."
            )
        low, high = int(y.min()), int(y.max())
        if low < 0 or high >= outputs:
            raise DataError(
                f"The labels range from {low} to {high}, but the network has {outputs} outputs, so they must lie in "
                f"0 ... {outputs - 1}."
            )


class Bernoulli(Likelihood):
    """Independent yes/no labels, one per output: p(y = 1 | f) = sigmoid(f); Lambda = diag(p (1 - p))."""

    def log_prob(self, f: Tensor, y: Tensor) -> Tensor:
        return -F.binary_cross_entropy_with_logits(f, _columns(f, y), reduction="none").sum(1)

    def score(self, f: Tensor, y: Tensor) -> Tensor:
        return _columns(f, y) - f.sigmoid()

    def sizes(self, f: Tensor) -> Tensor:
        return f.sigmoid() * (-f).sigmoid()

    def root_times(self, f: Tensor, z: Tensor) -> Tensor:
        return (0.5 * (F.logsigmoid(f) + F.logsigmoid(-f))).exp()[:, :, None] * z

    def sum_of_hessians(self, f: Tensor) -> Tensor:
        return self.sizes(f).sum(0).diag()

    def predict(self, f: Tensor) -> Tensor:
        """Return the probability that each label is 1."""
        return f.sigmoid()

    def target_sums(self, f: Tensor, y: Tensor) -> Tensor:
        """Return how many targets of each output are 1."""
        return _columns(f, y).sum(0)

    def constant_misfit(self, sums: Tensor, count: float) -> float:
        """Return the entropy of each output's frequency of 1, summed over outputs."""
        p = sums / count
        return float((torch.special.entr(p) + torch.special.entr(1 - p)).sum())

    def constant_answer(self, sums: Tensor, count: float) -> ConstantAnswer:
        """Return the frequency of 1 of each output; the evidence is exact, see `lila.model.constant`."""
        counts = torch.stack([count - sums, sums], -1).double()  # of 0 and of 1, shape (c, 2)
        outputs = smoothed_frequencies(counts)[:, 1].logit()
        return ConstantAnswer(float(counts_evidence(counts).sum()), outputs, Bernoulli())

    def check_targets(self, outputs: int, y: Tensor) -> None:
        _check_columns("Bernoulli", outputs, y)
        if not ((y == 0) | (y == 1)).all():
            raise DataError(f"Bernoulli needs labels 0 and 1, but they range from {y.min()} to {y.max()}.")


class Gaussian(Likelihood):
    """Real targets: y = f + noise of standard deviation sigma; Lambda = I / sigma^2.

    Args:
        sigma: the standard deviation from which learning starts.
        outputs: None for one sigma shared by all outputs, or their number for one each.

    Attributes:
        log_sigma: the learned parameter, of shape () or (outputs,).
    """

    def __init__(self, sigma: float = 1.0, outputs: int | None = None) -> None:
        super().__init__()
        if not 0 < sigma < inf:
            raise ArgumentError(f"sigma is a standard deviation: positive and finite, not {sigma}.")
        if outputs is not None and outputs < 1:
            raise ArgumentError(
                f"outputs is the number of the network's outputs, or None for one sigma; not {outputs}."
            )
        self.log_sigma = nn.Parameter(torch.full(() if outputs is None else (outputs,), log(sigma)))

    def arguments(self) -> dict[str, int | None]:
        """Return the arguments of the constructor that make it again."""
        return {"outputs": len(self.log_sigma) if self.log_sigma.dim() else None}

    @property
    def sigma(self) -> Tensor:
        """The standard deviation of the observation noise."""
        return self.log_sigma.exp()

    def log_prob(self, f: Tensor, y: Tensor) -> Tensor:
        residual = (_columns(f, y) - f) / self.sigma
        return (-0.5 * residual**2 - self.log_sigma - 0.5 * log(2 * pi)).sum(1)

    def score(self, f: Tensor, y: Tensor) -> Tensor:
        return (_columns(f, y) - f) / self.sigma**2

    def sizes(self, f: Tensor) -> Tensor:
        return (1 / self.sigma**2).expand_as(f)

    def root_times(self, f: Tensor, z: Tensor) -> Tensor:
        return (1 / self.sigma).expand_as(f)[:, :, None] * z

    def sum_of_hessians(self, f: Tensor) -> Tensor:
        return self.sizes(f).sum(0).diag()

    def predict(self, f: Tensor) -> Tensor:
        """Return the mean of the target, which is the output itself."""
        return f

    def expected_prediction(self, mean: Tensor, variance: Tensor, draws: Tensor | None = None) -> Tensor:
        """Return the mean of the outputs: the prediction is linear in them."""
        return mean

    def noise_variance(self) -> Tensor:
        return self.sigma.detach() ** 2

    def misfit(self, f: Tensor, y: Tensor) -> Tensor:
        """Return the squared error, whatever sigma is."""
        return (_columns(f, y) - f).square().sum(1)

    def target_sums(self, f: Tensor, y: Tensor) -> Tensor:
        """Return the sum and the sum of squares of the targets of each output, shape (2, c)."""
        targets = _columns(f, y)
        return torch.stack([targets.sum(0), targets.square().sum(0)])

    def constant_misfit(self, sums: Tensor, count: float) -> float:
        """Return the variance of the targets, summed over outputs."""
        mean, mean_square = sums / count
        return float((mean_square - mean.square()).clamp(min=0).sum())

    def constant_answer(self, sums: Tensor, count: float) -> ConstantAnswer | None:
        """Return the mean of the targets, with their standard deviation as noise; None if they do not vary.

        There is one standard deviation for all outputs, or one each, as in this likelihood. With these values plugged
        in, the log-likelihood is  -N/2 sum_c (log 2 pi sigma_c^2 + 1).  It stands for the evidence, which is lower by
        some log N nats for each mean and deviation: no prior of theirs is assumed.
        """
        mean, mean_square = sums.double() / count
        variance = (mean_square - mean.square()).clamp(min=0)
        shared = self.log_sigma.dim() == 0
        sigma = (variance.mean().expand_as(variance) if shared else variance).sqrt()
        if not (sigma > 0).all():
            return None
        answer = Gaussian(outputs=len(mean)).to(sums.device, torch.float64)
        answer.load_state_dict({"log_sigma": sigma.log()})
        log_likelihood = -0.5 * count * float((2 * sigma.log() + log(2 * pi) + 1).sum())
        return ConstantAnswer(log_likelihood, mean, answer.requires_grad_(False))

    def check_targets(self, outputs: int, y: Tensor) -> None:
        if self.log_sigma.dim() == 1 and len(self.log_sigma) != outputs:
            raise DataError(f"Gaussian has {len(self.log_sigma)} values of sigma, but the network {outputs} outputs.")
        if not y.is_floating_point():
            raise DataError(f"Gaussian needs real targets, but they have type {y.dtype}. Convert them: y.float().")
        _check_columns("Gaussian", outputs, y)
        if not y.isfinite().all():
            raise DataError("The targets contain NaN or infinite values.")


def _columns(f: Tensor, y: Tensor) -> Tensor:
    """Return targets in the shape and type of f; a vector of targets is a single column."""
    return y.to(f.dtype).reshape(f.shape)


def _check_columns(name: str, outputs: int, y: Tensor) -> None:
    if not (y.dim() == 2 and y.shape[1] == outputs) and not (y.dim() == 1 and outputs == 1):
        raise DataError(
            f"{name} needs one target per output, shape (batch, {outputs}), but the targets have shape "
            f"{tuple(y.shape)}."
        )
