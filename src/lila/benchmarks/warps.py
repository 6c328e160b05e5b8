"""The cost of transforming images and of its gradient, in units of PyTorch's `affine_grid` and `grid_sample`."""

import torch
import torch.nn.functional as F
from torch import Tensor

from lila.augment import Affine2d
from lila.augment.noise import Draw
from lila.benchmarks.measuring import ratios
from lila.errors import NumericalError
from lila.model.invariant import InvariantModel

_TOLERANCE = 0.01  # rounding decides on the gradient of a pixel that falls on a kink


def warp_ratios(model: InvariantModel, x: Tensor, repeats: int) -> dict[str, float]:
    """Return the time from noise to images and the time of the gradient in eta, each divided by PyTorch's.

    PyTorch's functions are given the matrices, and their gradient ends there. So the matrix exponential is counted for
    lila alone. Nothing is timed unless both agree.
    """
    augmentation = model.augmentation
    assert isinstance(augmentation, Affine2d)
    noise = model.draw(Draw(), torch.arange(len(x)), x.dtype)
    matrices = augmentation.elements(-noise)[..., :2, :].flatten(0, 1)
    theta = matrices.detach().requires_grad_()
    images = x.repeat_interleave(model.samples, 0)

    def warp_by_pytorch(matrices: Tensor) -> Tensor:
        grid = F.affine_grid(matrices, list(images.shape), align_corners=False)
        return F.grid_sample(images, grid, align_corners=False)

    ours, theirs = augmentation(x, noise).flatten(0, 1), warp_by_pytorch(theta)
    cotangent = torch.randn_like(theirs)

    def gradient_in(parameter: Tensor, views: Tensor) -> Tensor:
        return torch.autograd.grad(views, parameter, cotangent, retain_graph=True)[0]

    if x.shape[-1] == x.shape[-2]:  # otherwise PyTorch's rotations are not rigid
        (expected,) = torch.autograd.grad(matrices, augmentation.eta, gradient_in(theta, theirs))
        gradient = gradient_in(augmentation.eta, ours)
        for error in ((ours - theirs).detach().abs().max(), (gradient - expected).norm() / expected.norm()):
            if error > _TOLERANCE:
                raise NumericalError(f"The warp differs from PyTorch's by {float(error)}, so it is not timed.")
    with torch.no_grad():
        (forward,) = ratios([lambda: augmentation(x, noise)], lambda: warp_by_pytorch(theta), repeats)
    (backward,) = ratios([lambda: gradient_in(augmentation.eta, ours)], lambda: gradient_in(theta, theirs), repeats)
    return {"warp / PyTorch's": forward, "its gradient / PyTorch's": backward}
