"""Checks that an augmentation does what the contract of `Augmentation` asks of it."""

import torch
from torch import Tensor

from lila.augment.base import Augmentation
from lila.augment.enumeration import view_weights
from lila.errors import ModelError

_EXAMPLES, _SAMPLES = 2, 2


def check_views(augmentation: Augmentation, x: Tensor, noise: Tensor, views: Tensor) -> None:
    """Raise ModelError unless an augmentation returned one view per example and sample.

    Args:
        augmentation: the augmentation.
        x: the inputs that it was given, shape (b, *shape).
        noise: the noise that it was given, shape (b, s, k).
        views: what it returned, which should have shape (b, s, *shape).
    """
    expected = (*noise.shape[:2], *augmentation.view_shape(tuple(x.shape[1:])))
    if isinstance(views, Tensor) and views.shape == expected:
        return
    returned = f"a tensor of shape {tuple(views.shape)}" if isinstance(views, Tensor) else f"a {type(views).__name__}"
    raise ModelError(
        f"{type(augmentation).__name__} returned {returned} for inputs of shape {tuple(x.shape)} and noise of shape "
        f"{tuple(noise.shape)}, but an augmentation returns (examples, samples, *shape of an input), here {expected}. "
        "Keep the samples in the second dimension; a family that changes the shape of its inputs overrides "
        "`view_shape`."
    )


def check_differentiable(augmentation: Augmentation, x: Tensor, noise: Tensor) -> None:
    """Raise ModelError if a trainable parameter of an augmentation cannot be learned, as no gradient reaches it.

    Gradients that are zero are fine, and so are parameters that are frozen.

    Args:
        augmentation: the augmentation.
        x: some inputs, shape (b, *shape), of which a few are used.
        noise: their noise, shape (b, s, k).
    """
    trainable = {name: p for name, p in augmentation.named_parameters() if p.requires_grad}
    if not trainable:
        return
    with torch.enable_grad():
        noise = noise[:_EXAMPLES, :_SAMPLES]
        views, weights = augmentation(x[:_EXAMPLES].detach(), noise), view_weights(augmentation, noise)
        total = views.sum() if weights is None else views.sum() + weights.sum()
        unreached = list(trainable)
        if total.requires_grad:
            gradients = torch.autograd.grad(total, list(trainable.values()), allow_unused=True)
            unreached = [name for name, gradient in zip(trainable, gradients, strict=True) if gradient is None]
    if unreached:
        raise ModelError(
            f"{type(augmentation).__name__} cannot learn its parameters {', '.join(unreached)}: no gradient reaches "
            "them from its output. Compute the output from the parameters with differentiable operations, without "
            "detach(), .data, .item() or torch.no_grad(), or freeze the parameters (requires_grad_(False)) if they are "
            "not to be learned."
        )
