"""The likelihood of classes: one of C for each example."""

from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from lila.errors import DataError
from lila.model.constant import ConstantAnswer, counts_evidence, smoothed_frequencies
from lila.model.likelihood.base import Likelihood
from lila.model.metrics import class_scores


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
