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
    example_weights      how much each example counts because of its target                   (b,)
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
from math import pi
from typing import ClassVar

import torch
from torch import Tensor, nn

from lila.errors import ArgumentError, DataError
from lila.model.constant import ConstantAnswer


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

    def example_weights(self, y: Tensor) -> Tensor | None:
        """Return how much each example counts because of its target, shape (b,); None if all count alike."""
        return None

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


def columns(f: Tensor, y: Tensor) -> Tensor:
    """Return targets in the shape and type of f; a vector of targets is a single column."""
    return y.to(f.dtype).reshape(f.shape)


def check_columns(name: str, outputs: int, y: Tensor) -> None:
    """Raise DataError unless there is one target per output; the name is that of the likelihood."""
    if not (y.dim() == 2 and y.shape[1] == outputs) and not (y.dim() == 1 and outputs == 1):
        raise DataError(
            f"{name} needs one target per output, shape (batch, {outputs}), but the targets have shape "
            f"{tuple(y.shape)}."
        )
