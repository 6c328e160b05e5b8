"""The second derivative of the evidence in the parameters eta of the augmentation, with the weights and the prior held.

With the log-likelihood l, the curvature H, and the cotangent P, which is the gradient of log|H + diag(delta)| by H,

    evidence(eta)       = l(eta) - 1/2 log|H(eta) + diag(delta)| + what does not depend on eta,
    d/d i               = d_i l - 1/2 <P, d_i H>,
    d/d i d/d j         = d_ij l - 1/2 <P, d_ij H>  -  1/2 <dP[d_i H], d_j H>,

where dP[D] is the derivative of P when H changes along D (`Structure.cotangent_slope`). The first two terms are linear
in the curvature, so they are a sum over examples: some examples stand for all. They are central differences of the
gradient d_j l - 1/2 <P, d_j H> with P held, at eta shifted by a step along each axis. All shifts see the same examples,
views and probes, so that noise does not enter the differences. The same recordings give H at the shifted eta, and
their difference is d_i H.

The last term is a product of two slopes of H. It is positive where H changes with eta, and makes the evidence less
concave, so leaving it out would make error bars too small. Noise in a slope that is multiplied with itself would make
the term too large. So one half of the examples gives the first slope, and the other half the second.

The cost is that of hyper-steps on as many examples, twice for each parameter. Nothing is decomposed.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from lila.augment.noise import Draw
from lila.curvature import CurvatureSum, Structure
from lila.data.examples import Data, Examples
from lila.errors import ArgumentError
from lila.laplace.evidence import Evidence
from lila.laplace.passes import Pass
from lila.laplace.terms import Estimate

STEP = 0.05
"""The shift of a parameter: less than a pixel of a small image, or three degrees. Interpolation between pixels, ReLU
and max pooling make the gradient rough. At a smaller scale the second derivative is that of their kinks, and not that
of the evidence as it falls over an error bar."""


@dataclass(frozen=True)
class _Half:
    """What one half of the examples gives at one value of eta, scaled up to all examples.

    Attributes:
        gradient: of log-likelihood - 1/2 <P, H> in eta, shape (d,), in float64.
        curvature: H.
    """

    gradient: Tensor
    curvature: Structure

    def slope(self, below: "_Half", step: float) -> "_Half":
        """Return the central difference of this and what was found two steps below."""
        pairs = zip(self.curvature.tensors(), below.curvature.tensors(), strict=True)
        curvature = self.curvature.with_tensors([(up - down) / (2 * step) for up, down in pairs])
        return _Half((self.gradient - below.gradient) / (2 * step), curvature)


def second_derivative(
    evidence: Evidence, data: Data, estimate: Estimate, *, examples: int, draw: Draw, step: float = STEP
) -> Tensor:
    """Return the second derivative of the evidence in the augmentation's trainable parameters, shape (d, d).

    Args:
        evidence: of the network, at its trained weights.
        data: the training data.
        estimate: an estimate of the evidence at the present hyperparameters, from the data or from running averages.
        examples: the number of random examples that stand for all; at least 2.
        draw: the noise.
        step: the shift of a parameter.

    Returns:
        A symmetric matrix in float64 over all parameter tensors of the augmentation, flattened, in their order.
    """
    parameters = [p for name, p in evidence.hyperparameters().items() if name.startswith("augmentation.")]
    read = evidence.examples(data)
    if not parameters or not 2 <= examples <= len(read):
        raise ArgumentError(
            f"The second derivative needs trainable parameters of the augmentation, of which there are "
            f"{len(parameters)} tensors, and between 2 and {len(read)} examples, not {examples}."
        )
    with torch.no_grad():
        cotangent = estimate.curvature.cotangent(evidence.prior.precisions())
    chosen = draw.subset(len(read), examples)
    pass_ = evidence.gradient_pass(draw).in_fast_layout(next(read.batches(1)).x)
    halves = _Halves(evidence, read, pass_, cotangent, parameters, (chosen[::2], chosen[1::2]))
    slopes = []
    for parameter in parameters:
        for position in range(parameter.numel()):
            with _shifted(parameter, position, step):
                above = halves.at_present()
            with _shifted(parameter, position, -step):
                below = halves.at_present()
            slopes.append([up.slope(down, step) for up, down in zip(above, below, strict=True)])
    of_sums = torch.stack([(first.gradient + second.gradient) / 2 for first, second in slopes])
    precisions = evidence.prior.precisions()
    of_products = torch.empty_like(of_sums)
    for i, (first, _) in enumerate(slopes):
        bent = estimate.curvature.cotangent_slope(first.curvature, precisions)
        for j, (_, second) in enumerate(slopes):
            of_products[i, j] = -0.5 * bent.inner(second.curvature).double()
    found = of_sums + of_products
    return (found + found.mT) / 2


@dataclass(frozen=True)
class _Halves:
    """Two halves of some examples, and what is computed on each.

    Attributes:
        evidence: gives the microbatch and the processes.
        examples: the data.
        pass_: the second pass.
        cotangent: P.
        parameters: eta.
        indices: of the examples of each half.
    """

    evidence: Evidence
    examples: Examples
    pass_: Pass
    cotangent: Structure
    parameters: Sequence[Tensor]
    indices: tuple[Tensor, Tensor]

    def at_present(self) -> list[_Half]:
        """Return what each half gives at the present eta."""
        return [self._of(index) for index in self.indices]

    @torch.enable_grad()
    def _of(self, index: Tensor) -> _Half:
        ranks, total = self.evidence.ranks, CurvatureSum(self.evidence.no_curvature())
        sums = [torch.zeros_like(p, dtype=torch.float64) for p in self.parameters]
        with ranks.together(sums[0].device):
            for batch in self.examples.batches(self.evidence.microbatch, ranks.share(index)):
                each, tape, columns = self.pass_.recorded(batch, differentiable=True)
                scalar = each.sum() - 0.5 * total.add_and_pair(tape, columns, self.cotangent)
                found = torch.autograd.grad(scalar, list(self.parameters), allow_unused=True)
                for sum_, gradient in zip(sums, found, strict=True):
                    sum_ += 0.0 if gradient is None else gradient
        ranks.sum_(sums)
        total.sum_over(ranks)
        scale = len(self.examples) / len(index)
        return _Half(scale * torch.cat([part.flatten() for part in sums]), total.structure().scaled(scale))


@contextmanager
def _shifted(parameter: Tensor, position: int, step: float) -> Iterator[None]:
    """Shift one number of a parameter within the block."""
    flat = parameter.data.view(-1)
    before = flat[position].clone()
    flat[position] += step
    try:
        yield
    finally:
        flat[position] = before
