"""The invariant network: a network averaged over random transformations of its input (Section 3.1, eq. 1)."""

from collections.abc import Mapping
from copy import copy

import torch
from torch import Tensor, nn
from torch.func import functional_call

from lila._util.arguments import suggests_arguments
from lila._util.choices import check_count, choose
from lila.augment.base import Augmentation
from lila.augment.checks import check_views
from lila.augment.enumeration import combinations, enumerated, view_weights
from lila.augment.noise import Draw, NoiseName, balanced_noise
from lila.errors import ArgumentError, ModelError
from lila.model.checks import check_augmentation, check_network
from lila.model.layout import channels_last, gains_from_channels_last


@suggests_arguments
class InvariantModel(nn.Module):
    """f_hat(x; theta, eta) = 1/S sum_s f(g(x, eps_s; eta); theta).

    Transformations with few outcomes, such as a flip, are enumerated rather than sampled: then the average is weighted
    by the probabilities of the outcomes (`view_weights`).

    Called without noise it behaves as dropout does: in training mode it draws fresh noise from PyTorch's global
    generator, independently for each example; in evaluation mode it uses one fixed set of S noise vectors for every
    input, so that a prediction depends neither on the other inputs nor on how often it is asked for. The fixed set is
    spread evenly about zero: a few random vectors would, on average, scale or turn all inputs.

    Args:
        net: any network that maps (batch, *shape) to (batch, outputs), each example on its own.
        augmentation: the learnable distribution of transformations.
        samples: S, the number of transformations to average over; the bound on the likelihood tightens with it.
        noise: "stratified" to spread the S noise vectors of an example over a Latin hypercube, which makes averages
            over them vary less, or "independent" as in the paper.

    Attributes:
        channels_last: whether images are laid out channels last for the network; see `in_fast_layout`.
    """

    def __init__(
        self,
        net: nn.Module,
        augmentation: Augmentation,
        samples: int = 31,
        noise: str | NoiseName = NoiseName.STRATIFIED,
    ) -> None:
        super().__init__()
        check_network(net)
        check_augmentation(augmentation)
        check_count("samples", samples)
        if samples < combinations(augmentation):
            raise ArgumentError(
                f"The augmentation has {combinations(augmentation)} combinations of outcomes, such as flipped or not, "
                f"of which each needs a sample, but samples is {samples}."
            )
        self.noise = choose(NoiseName, noise, "kind of noise")
        self.net = net
        self.augmentation = augmentation
        self.samples = samples
        self.channels_last = False

    def with_samples(self, samples: int) -> "InvariantModel":
        """Return the same network and augmentation, not copied, averaged over at most `samples` samples.

        A network that is not averaged stays so. Outcomes that are enumerated keep a sample each.
        """
        changed = copy(self)
        changed.samples = max(min(samples, self.samples), combinations(self.augmentation))
        return changed

    def in_fast_layout(self, x: Tensor) -> "InvariantModel":
        """Return the same network and augmentation, not copied, with images laid out as the network computes fastest.

        Where that may be channels last, the network is run on one image to find out whether it accepts the layout.

        Args:
            x: inputs, shape (b, *shape), of which the first is used.
        """
        if self.channels_last or not gains_from_channels_last(self.net, x[:1]):
            return self
        changed = copy(self)
        changed.channels_last = True
        return changed

    def draw(self, draw: Draw, index: Tensor, dtype: torch.dtype) -> Tensor:
        """Return the noise of the examples with these indices, shape (len(index), S, k)."""
        kinds = {NoiseName.INDEPENDENT: draw.uniform, NoiseName.STRATIFIED: draw.stratified}
        noise = kinds[self.noise](index, (self.samples, self.augmentation.noise_dim), dtype)
        return enumerated(noise, self.augmentation.outcomes)

    def view_weights(self, noise: Tensor) -> Tensor | None:
        """Return the weight of each view in the average, shape (b, s), or None if it is 1/S for all."""
        return view_weights(self.augmentation, noise)

    def views(self, x: Tensor, noise: Tensor) -> Tensor:
        """Return the transformed inputs of all examples in one batch, example by example: shape (b s, *shape)."""
        with torch.autocast(x.device.type, enabled=False):  # pixels have fewer digits in bfloat16 than positions need
            views: Tensor = self.augmentation(x, noise)
        check_views(self.augmentation, x, noise, views)
        views = views.flatten(0, 1)
        return channels_last(views) if self.channels_last and views.dim() == 4 else views

    def average(
        self,
        views: Tensor,
        batch: int,
        weights: Mapping[str, Tensor] | None = None,
        *,
        view_weights: Tensor | None = None,
    ) -> Tensor:
        """Average the network's outputs at the views of each example: (b s, *shape) to (b, c).

        Args:
            views: the transformed inputs, as `views` returns them.
            batch: b, the number of examples.
            weights: values to use in place of the network's own parameters, by name.
            view_weights: the weight of each view, shape (b, s); 1/S if None.
        """
        if weights is None:
            outputs: Tensor = self.net(views)
        else:
            # A module with two names has one parameter. With tie_weights=True it would not be given back.
            outputs = functional_call(self.net, dict(weights), (views,), tie_weights=False)
        if not isinstance(outputs, Tensor) or outputs.dim() != 2 or outputs.shape[0] != views.shape[0]:
            got = f"a tensor of shape {tuple(outputs.shape)}" if isinstance(outputs, Tensor) else f"a {type(outputs)}"
            raise ModelError(
                f"The network must map a batch of {views.shape[0]} inputs to outputs of shape ({views.shape[0]}, "
                f"outputs), but {type(self.net).__name__} returned {got}. A single output needs a column of its own "
                "(no squeeze); further dimensions need nn.Flatten(); of several results return the logits alone."
            )
        return weighted_mean(outputs.unflatten(0, (batch, views.shape[0] // batch)), view_weights)

    def forward(self, x: Tensor, noise: Tensor | None = None) -> Tensor:
        """Return the averaged outputs at inputs x, shape (b, c), for noise (b, s, k); it is drawn if None."""
        if noise is None:
            noise = self._fresh_noise(x) if self.training else self.fixed_noise(x)
        return self.average(self.views(x, noise), x.shape[0], view_weights=self.view_weights(noise))

    def _fresh_noise(self, x: Tensor) -> Tensor:
        draw = Draw(seed=int(torch.randint(2**63 - 1, ())))
        return self.draw(draw, torch.arange(len(x), device=x.device), x.dtype)

    def fixed_noise(self, x: Tensor) -> Tensor:
        """Return the noise of evaluation mode, the same for every input, shape (b, S, k)."""
        shared = balanced_noise(self.samples, self.augmentation.noise_dim).to(x.device, x.dtype, copy=True)
        return enumerated(shared.expand(x.shape[0], -1, -1), self.augmentation.outcomes)


def weighted_mean(values: Tensor, view_weights: Tensor | None) -> Tensor:
    """Average values (b, s, ...) over the views s.

    Args:
        values: the values.
        view_weights: the weight of each view, shape (b, s); 1/S if None.
    """
    if view_weights is None:
        return values.mean(1)
    return (values * view_weights.to(values.dtype).reshape(view_weights.shape + (1,) * (values.dim() - 2))).sum(1)
