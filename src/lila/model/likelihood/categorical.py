"""The likelihood of classes: one of C for each example."""

from collections.abc import Sequence
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from lila._util.arguments import suggests_arguments
from lila._util.choices import as_numbers, is_number
from lila.errors import ArgumentError, DataError
from lila.model.constant import ConstantAnswer, counts_evidence, smoothed_frequencies
from lila.model.likelihood.base import Likelihood
from lila.model.metrics import class_scores

_TOLERANCE = 1e-3  # by which the sum of a target's probabilities may differ from 1


@suggests_arguments
class Categorical(Likelihood):
    """One of C classes: p(y = c | f) = softmax(f)_c and Lambda = diag(p) - p p'.

    With u = sqrt(p), a unit vector, Lambda = D (I - u u') D for D = diag(u). Let e be the unit vector of the likeliest
    class, and H the reflection that swaps u and -e; then I - u u' = H (I - e e') H. So D H without the column of that
    class is a root; it has C - 1 columns, and those of unlikely classes are short:

        H = I - w w' / (1 + u'e),    w = u + e.

    Targets are classes, shape (b,), or probabilities of the classes, shape (b, C). An example with probabilities q
    counts as q_c of an example of each class c: log p(q | f) = sum_c q_c log p_c, whose Hessian is Lambda as well.

    Args:
        label_smoothing: epsilon, by which each target q becomes (1 - epsilon) q + epsilon / C, as in
            `nn.CrossEntropyLoss`. Test scores are of the targets themselves.
        class_weights: how much an example of each class counts, one number per class; None if all count alike. Give
            weights whose mean over the examples is 1: the sum of all weights is the number of examples that the
            evidence sees. They do not go with targets that are probabilities.
    """

    classifies: ClassVar[bool] = True

    def __init__(self, label_smoothing: float = 0.0, class_weights: Sequence[float] | Tensor | None = None) -> None:
        super().__init__()
        if not is_number(label_smoothing) or not 0 <= label_smoothing < 1:
            raise ArgumentError(f"label_smoothing must be at least 0 and less than 1, but is {label_smoothing!r}.")
        self.label_smoothing = float(label_smoothing)
        if class_weights is not None and not isinstance(class_weights, Tensor):
            class_weights = as_numbers("class_weights", class_weights, count=1)
        weights = None if class_weights is None else torch.as_tensor(class_weights, dtype=torch.float64).flatten()
        if weights is not None and not (weights.isfinite().all() and (weights > 0).all() and len(weights)):
            raise ArgumentError(f"Class weights must be positive and finite, but are {class_weights}.")
        self.class_weights: list[float] | None = None if weights is None else weights.tolist()

    def arguments(self) -> dict[str, float | list[float] | None]:
        """Return the arguments of the constructor that make it again."""
        return {"label_smoothing": self.label_smoothing, "class_weights": self.class_weights}

    def log_prob(self, f: Tensor, y: Tensor) -> Tensor:
        targets = y.to(f.dtype) if y.dim() == 2 else y.long()
        return -F.cross_entropy(f, targets, reduction="none", label_smoothing=self.label_smoothing)

    def score(self, f: Tensor, y: Tensor) -> Tensor:
        return self._probabilities(f, y) - f.softmax(1)

    def example_weights(self, y: Tensor) -> Tensor | None:
        """Return the weight of each example's class."""
        if self.class_weights is None:
            return None
        return torch.tensor(self.class_weights, dtype=torch.float64, device=y.device)[y.long()]

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
        return f.argmax(1) == likeliest_class(y)

    def metrics(self, f: Tensor, y: Tensor) -> dict[str, float]:
        """Return "accuracy", "calibration_error" (expected, 15 bins), "brier" and "log_likelihood".

        The accuracy, the calibration and the Brier score of targets that are probabilities are those of the likeliest
        class.
        """
        log_likelihood = float(Categorical().log_prob(f, y).mean())  # from logits: it cannot underflow
        return class_scores(self.predict(f), likeliest_class(y)) | {"log_likelihood": log_likelihood}

    def misfit(self, f: Tensor, y: Tensor) -> Tensor:
        """Return the divergence of the predicted probabilities from those of the target: -log p less its least."""
        if y.dim() == 1 and not self.label_smoothing:
            return -self.log_prob(f, y)
        return -self.log_prob(f, y) - torch.special.entr(self._probabilities(f, y)).sum(1)

    def target_sums(self, f: Tensor, y: Tensor) -> Tensor:
        """Return the number of targets of each class and, after these, the sum of the targets' own entropies."""
        if y.dim() == 2:
            q = self._probabilities(f, y)
            return torch.cat([q.sum(0), torch.special.entr(q).sum()[None]])
        counts = torch.bincount(y.long(), minlength=f.shape[1]).to(f.dtype)  # without a row of C numbers per example
        entropy = torch.special.entr(self._smoothed(F.one_hot(y[:1].long(), f.shape[1]).to(f.dtype))).sum()
        return torch.cat([self._smoothed(counts, len(y)), len(y) * entropy[None]])

    def constant_misfit(self, sums: Tensor, count: float) -> float:
        """Return the entropy of the class frequencies, less the mean entropy of the targets."""
        return float(torch.special.entr(sums[:-1] / count).sum() - sums[-1] / count)

    def constant_answer(self, sums: Tensor, count: float) -> ConstantAnswer | None:
        """Return the class frequencies; the evidence is exact, see `lila.model.constant`. None with class weights."""
        if self.class_weights is not None:
            return None
        counts = sums[:-1].double()
        return ConstantAnswer(float(counts_evidence(counts)), smoothed_frequencies(counts).log(), Categorical())

    def _probabilities(self, f: Tensor, y: Tensor) -> Tensor:
        """Return the probabilities q of the classes that targets are, smoothed, shape (b, c)."""
        return self._smoothed((y if y.dim() == 2 else F.one_hot(y.long(), f.shape[1])).to(f.dtype))

    def _smoothed(self, q: Tensor, total: float = 1.0) -> Tensor:
        """Return (1 - epsilon) q + epsilon total / C for numbers q of the classes whose sum is the total."""
        if not self.label_smoothing:
            return q
        return (1 - self.label_smoothing) * q + self.label_smoothing * total / q.shape[-1]

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
        if self.class_weights is not None and (len(self.class_weights) != outputs or y.dim() != 1):
            raise DataError(
                f"Categorical has {len(self.class_weights)} class weights, which go with a network of as many outputs "
                f"and with one class per example, but there are {outputs} outputs and labels of shape {tuple(y.shape)}."
            )
        if y.is_floating_point() and y.dim() == 2:
            _check_probabilities(outputs, y)
            return
        if y.is_floating_point() or y.is_complex() or y.dtype == torch.bool or y.dim() != 1:
            raise DataError(
                f"Categorical needs one integer class per example, shape (batch,), but the labels have type {y.dtype} "
                f"and shape {tuple(y.shape)}. A column of labels: y.squeeze(1); one-hot labels: y.argmax(1); whole "
                "numbers kept as floats: y.long(); numbers to predict: use lila.Gaussian(). Probabilities of "
                "the classes are real numbers of shape (batch, classes)."
            )
        low, high = int(y.min()), int(y.max())
        if low < 0 or high >= outputs:
            raise DataError(
                f"The labels range from {low} to {high}, but the network has {outputs} outputs, so they must lie in "
                f"0 ... {outputs - 1}."
            )


def likeliest_class(y: Tensor) -> Tensor:
    """Return the class of each target, or the likeliest class if targets are probabilities, shape (b,)."""
    return y.argmax(1) if y.dim() == 2 else y


def _check_probabilities(outputs: int, y: Tensor) -> None:
    if y.shape[1] != outputs:
        raise DataError(
            f"The targets are probabilities of {y.shape[1]} classes, but the network has {outputs} outputs."
        )
    off = (y.sum(1) - 1).abs()
    if not y.isfinite().all() or (y < 0).any() or (off > _TOLERANCE).any():
        raise DataError(
            "Targets of shape (batch, classes) must be probabilities: not negative, and of sum 1 for each example. Of "
            "counts make probabilities by y / y.sum(1, keepdim=True); for independent yes/no labels use "
            "lila.Bernoulli()."
        )
