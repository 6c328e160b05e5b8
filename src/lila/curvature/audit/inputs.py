"""The inputs on which a network is audited: views of a few examples, and what can be put together from them.

A network may treat some inputs differently from others. So the audit also uses inputs between and beyond the views: at
each element the smallest and the largest of all views, and random choices among them. Every element keeps a value that
it has in some view, so these inputs suit whatever the network expects at that place.
"""

import torch
from torch import Tensor

from lila._util.spread import spread_indices
from lila.errors import ModelError
from lila.model.invariant import InvariantModel

_LEAST, _MOST = 4, 8  # inputs of an audit; as many as a pass gives to the network at a time, within these


def audit_inputs(model: InvariantModel, x: Tensor, noise: Tensor, at_once: int) -> Tensor:
    """Return inputs for an audit, shape (v, *shape), without a graph.

    Args:
        model: the invariant network, whose augmentation makes the views.
        x: examples.
        noise: their noise, shape (b, s, k).
        at_once: the number of views that a pass gives to the network at a time.

    Raises:
        ModelError: a view depends on something else than its example and its noise vector.
    """
    count = max(min(at_once, _MOST), _LEAST)
    few = min(len(x), count)
    samples = min(noise.shape[1], -(-count // few))
    chosen = spread_indices(len(x), few).to(x.device)
    x, noise = x[chosen], noise[chosen, :samples]
    views = _checked_views(model, x, noise)
    pool = views.transpose(0, 1).flatten(0, 1)  # the first view of each example first
    if bool((pool == pool[0]).all()):
        pool = _varied(pool)
    made = torch.stack([pool.amin(0), pool.amax(0), *_crossed(pool, max(count // 8, 1))])
    return torch.cat([pool[: count - min(len(made), count // 2)], made])[:count]


@torch.no_grad()
def first_views(model: InvariantModel, x: Tensor, noise: Tensor) -> Tensor:
    """Return one view of each example, shape (b, *shape)."""
    return model.views(x, noise[:, :1])


def _crossed(pool: Tensor, count: int) -> list[Tensor]:
    """Return inputs of which each element is that of a randomly chosen view."""
    generator = torch.Generator().manual_seed(0)
    chosen = torch.randint(len(pool), (count, *pool.shape[1:]), generator=generator).to(pool.device)
    return list(pool.gather(0, chosen))


def _varied(pool: Tensor) -> Tensor:
    """Inputs that differ, in place of inputs that are all the same: one and its reverse, or noise if that is equal."""
    one = pool[:1]
    turned = one.flatten(1).flip(1).view_as(one)
    if bool((turned == one).all()):
        generator = torch.Generator().manual_seed(0)
        noise = torch.rand(4, *one.shape[1:], generator=generator, dtype=torch.float64)
        return torch.cat([one, one + noise.to(one)])
    return torch.cat([one, turned])


def _checked_views(model: InvariantModel, x: Tensor, noise: Tensor) -> Tensor:
    """Return the views of each example, shape (b, s, *shape)."""
    with torch.no_grad():
        views = model.views(x, noise)
        alone = torch.cat([model.views(one[None], of_one[None]) for one, of_one in zip(x, noise, strict=True)])
    if bool((alone - views).abs().max() > torch.finfo(views.dtype).eps ** 0.5 * views.abs().max()):
        raise ModelError(
            f"What the augmentation {type(model.augmentation).__name__} makes of an example depends on the other "
            "examples of the batch, or differs from call to call. A view must be a function of its example and its "
            "noise vector alone."
        )
    return views.unflatten(0, noise.shape[:2])
