"""Ranges by the variational evidence of an invariant Gaussian process.

van der Wilk, Bauer, John and Hensman, "Learning Invariances using the Marginal Likelihood", NeurIPS 2018. A function g
has a Gaussian process prior with kernel k, and f(x) = 1/S sum_s g(x_s) is its average over random views of the input,
so that f is a Gaussian process too:

    cov(f(x), f(x')) = 1/S^2 sum_s sum_t k(x_s, x'_t),    cov(f(x), g(z)) = 1/S sum_s k(x_s, z).

Inducing variables are values u = g(z) of the function that is averaged, which takes one sum per covariance in place of
two. With Gaussian noise of variance v the bound on the log marginal likelihood is known in closed form (Titsias,
"Variational Learning of Inducing Variables in Sparse Gaussian Processes", AISTATS 2009):

    log N(y; 0, Q + v I) - tr(K_ff - Q) / 2v,    Q = K_fu K_uu^-1 K_uf.

The trace is a sum, over examples, of the mean over pairs of views of k(x_s, x_t) - k(x_s, z) K_uu^-1 k(z, x_t). With
pairs of the same view in it, few views make it far too large for wide ranges, of which the average of infinitely many
views is what is meant. As in the paper these pairs are left out: for independent views the rest is unbiased.

Classes are written as numbers, 1 for the class and 0 for the others less their mean, with a process each, all of one
kernel. The predicted densities of the C possible targets, normalised, are the probabilities of the classes: if the mean
is m and the variance s^2 for all classes, these are softmax(m / s^2). There is no network here, and no epochs: the
bound of all data, of up to 2,000 images, takes steps by Adam. So no estimators from minibatches are needed.
"""

from dataclasses import dataclass
from math import log, pi

import torch
from torch import Tensor, nn

from lila.augment.noise import Draw
from lila.compare.system import Conditions, Found, Stopwatch
from lila.model.invariant import InvariantModel
from lila.model.metrics import class_scores
from lila.training.optimisers import cosine

_INDUCING = 200
_MOST_IMAGES = 2000  # more do not fit beside each other in one bound
_STEPS = 100
_RATE, _RATE_END = 0.05, 0.001
_JITTER = 1e-5  # as a share of the variance of g
_CHUNK = 100


class Kernel(nn.Module):
    """The squared exponential kernel of g, and the variance of the noise.

    Args:
        length: the length from which learning starts.
        noise: the variance of the noise from which it starts.

    Attributes:
        log_variance: of g, learned.
        log_length: learned.
        log_noise: the logarithm of v, learned.
    """

    def __init__(self, length: float, noise: float = 0.05) -> None:
        super().__init__()
        self.log_variance, self.log_length, self.log_noise = (
            nn.Parameter(torch.tensor(log(value))) for value in (0.1, length, noise)
        )

    def forward(self, x: Tensor, z: Tensor) -> Tensor:
        """Return the covariances of g at inputs (..., n, d) and (..., m, d): shape (..., n, m)."""
        squares = x.square().sum(-1)[..., :, None] + z.square().sum(-1)[..., None, :] - 2 * x @ z.mT
        return self.log_variance.exp() * (-0.5 * squares.clamp(min=0) / (2 * self.log_length).exp()).exp()


@dataclass(frozen=True)
class Covariances:
    """The covariances that the bound is made of, in float64; f is the mean of g over s views.

    Attributes:
        uu: of the inducing variables, shape (m, m).
        ug: of these with g at each view, shape (m, n, s).
        gg: of g at the views of an example, shape (n, s, s).
    """

    uu: Tensor
    ug: Tensor
    gg: Tensor


def covariances(kernel: Kernel, views: Tensor, z: Tensor, jitter: float = _JITTER) -> Covariances:
    """Return the covariances of g at the views (n, s, d) of inputs, and at inducing inputs (m, d)."""
    ug = kernel(z, views.flatten(0, 1)).unflatten(1, views.shape[:2])
    uu = kernel(z, z).double()
    eye = torch.eye(len(z), dtype=torch.float64, device=z.device)
    scale = jitter * kernel.log_variance.exp().double()
    return Covariances(uu + scale * eye, ug.double(), kernel(views, views).double())


def mean_over_pairs(each: Tensor, apart: bool) -> Tensor:
    """Return the mean of (n, s, s) over pairs of views, or over pairs of different views: shape (n,)."""
    samples = each.shape[1]
    if not apart:
        return each.mean((1, 2))
    same = each.diagonal(dim1=1, dim2=2).sum(1)
    return (each.sum((1, 2)) - same) / (samples * (samples - 1))


@dataclass(frozen=True)
class Posterior:
    """What predictions follow from.

    Attributes:
        root: the Cholesky factor of K_uu, shape (m, m).
        inner: the Cholesky factor of B = I + A A' with A = K_uu^-1/2 K_uf / sqrt v, shape (m, m).
        mean: inner^-1 A y / sqrt v, shape (m, c).
    """

    root: Tensor
    inner: Tensor
    mean: Tensor


def collapsed_bound(given: Covariances, y: Tensor, noise: Tensor, *, apart: bool = False) -> tuple[Tensor, Posterior]:
    """Return Titsias' bound on the log marginal likelihood of independent outputs (n, c), and the posterior.

    Args:
        given: the covariances.
        y: the targets, shape (n, c), in float64.
        noise: the variance v of the noise.
        apart: whether the trace leaves out pairs of the same view: for the average of infinitely many views, from a
            few; otherwise for the average of just these views.
    """
    count, outputs = y.shape
    root = torch.linalg.cholesky(given.uu)
    each = torch.linalg.solve_triangular(root, given.ug.flatten(1), upper=False).view_as(given.ug)  # (m, n, s)
    A = each.mean(2) / noise.sqrt()  # (m, n)
    inner = torch.linalg.cholesky(A @ A.mT + torch.eye(len(A), dtype=A.dtype, device=A.device))
    mean = torch.linalg.solve_triangular(inner, A @ y, upper=False) / noise.sqrt()  # (m, c)
    log_det = 2 * inner.diagonal().log().sum() + count * (noise.log() + log(2 * pi))
    quadratic = y.square().sum() / noise - mean.square().sum()
    left = given.gg - torch.einsum("mns,mnt->nst", each, each)  # of the variance of g, when u is known
    lost = mean_over_pairs(left, apart).sum() / noise
    return -0.5 * (outputs * (log_det + lost) + quadratic), Posterior(root, inner, mean)


def predictions(posterior: Posterior, given: Covariances) -> tuple[Tensor, Tensor]:
    """Return the means (n, c) and variances (n,) of f at inputs with these covariances."""
    A = torch.linalg.solve_triangular(posterior.root, given.ug.mean(2), upper=False)  # (m, n)
    B = torch.linalg.solve_triangular(posterior.inner, A, upper=False)
    variance = given.gg.mean((1, 2)) - A.square().sum(0) + B.square().sum(0)
    return B.mT @ posterior.mean, variance


def _class_scores(
    kernel: Kernel, model: InvariantModel, posterior: Posterior, z: Tensor, conditions: Conditions
) -> dict[str, float]:
    """Return the scores of the classes that are predicted for the test images."""
    x, y = conditions.test
    probabilities = []
    for part in x.split(_CHUNK):
        views = model.views(part, model.fixed_noise(part)).flatten(1).unflatten(0, (len(part), -1))
        mean, variance = predictions(posterior, covariances(kernel, views, z))
        spread = variance.clamp(min=0) + kernel.log_noise.exp()
        probabilities.append((mean / spread[:, None]).softmax(1))
    return class_scores(torch.cat(probabilities), y)


def run_gaussian_process(conditions: Conditions) -> Found:
    """Learn ranges, kernel and noise by the bound of all training data."""
    watch = Stopwatch()
    (x, y), classes, augmentation = conditions.train, len(conditions.task.classes), conditions.augmentation()
    if len(x) > _MOST_IMAGES:
        some = Draw(conditions.seed, 2).subset(len(x), _MOST_IMAGES)
        x, y = x[some], y[some]
    model = InvariantModel(nn.Flatten(), augmentation, conditions.samples, "independent")
    targets = nn.functional.one_hot(y, classes).double() - 1 / classes
    z = x[Draw(conditions.seed).subset(len(x), min(_INDUCING, len(x)))].flatten(1)
    apart = (z[1:] - z[:-1]).square().sum(1).mean().sqrt()
    kernel = Kernel(float(apart) / 2)
    ranges, others = [*augmentation.parameters()], [*kernel.parameters()]
    optimiser = torch.optim.Adam([{"params": ranges}, {"params": others}], lr=_RATE)
    index, bound = torch.arange(len(x)), torch.zeros(())
    for step in range(_STEPS + 1):
        noise = model.draw(Draw(conditions.seed, step), index, x.dtype)
        with torch.set_grad_enabled(step < _STEPS):
            views = model.views(x, noise).flatten(1).unflatten(0, (len(x), -1))
            given = covariances(kernel, views, z)
            noise_variance = kernel.log_noise.exp().double()
            bound, posterior = collapsed_bound(given, targets, noise_variance, apart=conditions.samples > 1)
        if step == _STEPS:  # the posterior of the last parameters
            break
        rate = cosine(_RATE, _RATE_END, step / _STEPS)
        optimiser.param_groups[0]["lr"], optimiser.param_groups[1]["lr"] = conditions.eta_rate(rate), rate
        optimiser.zero_grad()
        (-bound / len(x)).backward()
        optimiser.step()
        augmentation.saturate_()
    watch.lap()
    with torch.no_grad():
        scores = _class_scores(kernel, model, posterior, z, conditions)
    details = {"bound": float(bound), "images": len(x), "inducing points": len(z), "steps": _STEPS}
    return Found(scores["accuracy"], scores["log_likelihood"], watch.seconds, dict(augmentation.ranges), details)
