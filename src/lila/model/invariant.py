"""The invariant network: a network averaged over random transformations of its input (eq. invariant_function)."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.func import functional_call

from lila._util.choices import check_count, choose
from lila.augment.base import Augmentation
from lila.augment.noise import Draw, NoiseName, balanced_noise
from lila.errors import ModelError
from lila.model.checks import check_augmentation, check_network


class InvariantModel(nn.Module):
    """f_hat(x; theta, eta) = 1/S sum_s f(g(x, eps_s; eta); theta).

    Called without noise it behaves as dropout does: in training mode it draws fresh noise from PyTorch's global
    generator, independently for each example; in evaluation mode it uses one fixed set of S noise vectors for every
    input, so that a prediction depends neither on the other inputs nor on how often it is asked for. That set is
    spread evenly about zero: a few random vectors would, on average, scale or turn all inputs.

    Args:
        net: any network without batch norm that maps (batch, *shape) to (batch, outputs).
        augmentation: the learnable distribution of transformations.
        samples: S, the number of transformations to average over; the bound on the likelihood tightens with it.
        noise: "stratified" to spread the S noise vectors of an example over a Latin hypercube, which makes averages
            over them vary less, or "independent" as in the paper.
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
        self.noise = choose(NoiseName, noise, "kind of noise")
        self.net = net
        self.augmentation = augmentation
        self.samples = samples
        self._takes_any_layout = True

    def with_samples(self, samples: int) -> "InvariantModel":
        """The same network and augmentation, not copied, averaged over at most another number of samples.

        A network that is not averaged stays so.
        """
        return InvariantModel(self.net, self.augmentation, min(samples, self.samples), self.noise)

    def draw(self, draw: Draw, index: Tensor, dtype: torch.dtype) -> Tensor:
        """The noise of the examples with these indices, shape (len(index), S, k)."""
        kinds = {NoiseName.INDEPENDENT: draw.uniform, NoiseName.STRATIFIED: draw.stratified}
        return kinds[self.noise](index, (self.samples, self.augmentation.noise_dim), dtype)

    def views(self, x: Tensor, noise: Tensor) -> Tensor:
        """The transformed inputs of all examples in one batch, example by example: shape (b s, *shape)."""
        views: Tensor = self.augmentation(x, noise)
        if not isinstance(views, Tensor) or views.shape[:2] != noise.shape[:2] or views.dim() != x.dim() + 1:
            got = f"a tensor of shape {tuple(views.shape)}" if isinstance(views, Tensor) else f"a {type(views)}"
            raise ModelError(
                f"The augmentation {type(self.augmentation).__name__} must return a view of each example for each of "
                f"its noise vectors, a tensor of shape ({x.shape[0]}, {noise.shape[1]}, ...) with one dimension more "
                f"than the inputs, but it returned {got} for inputs of shape {tuple(x.shape)}. Where the inputs lack "
                "the dimension of the samples, add it: x.unsqueeze(1)."
            )
        return views.flatten(0, 1)

    def average(self, views: Tensor, batch: int, weights: Mapping[str, Tensor] | None = None) -> Tensor:
        """Average the network's outputs at the views of each example: (b s, *shape) to (b, c).

        Args:
            views: as from `views`.
            batch: b.
            weights: values to use in place of the network's own parameters, by name.
        """
        try:
            outputs = self._run(_channels_last(views) if self._lays_out(views) else views, weights)
        except RuntimeError as error:
            if "view size is not compatible" not in str(error) or not self._lays_out(views):
                raise
            self._takes_any_layout = False  # it takes pixels apart by Tensor.view
            outputs = self._run(views, weights)
        if not isinstance(outputs, Tensor) or outputs.dim() != 2 or outputs.shape[0] != views.shape[0]:
            got = f"a tensor of shape {tuple(outputs.shape)}" if isinstance(outputs, Tensor) else f"a {type(outputs)}"
            raise ModelError(
                f"The network must map a batch of {views.shape[0]} inputs to outputs of shape ({views.shape[0]}, "
                f"outputs), but {type(self.net).__name__} returned {got}. A single output needs a column of its own "
                "(no squeeze); further dimensions want nn.Flatten(); of several results return the logits alone."
            )
        return outputs.unflatten(0, (batch, views.shape[0] // batch)).mean(1)

    def _run(self, views: Tensor, weights: Mapping[str, Tensor] | None) -> Tensor:
        if weights is None:
            outputs: Tensor = self.net(views)
        else:
            # Without tying: a module with two names has one parameter, which would otherwise not be given back.
            outputs = functional_call(self.net, dict(weights), (views,), tie_weights=False)
        return outputs

    def _lays_out(self, views: Tensor) -> bool:
        """Whether to lay images out channels last: for convolutions on a CPU, unless the network proved unable to."""
        convolves = any(isinstance(module, nn.Conv2d) for module in self.net.modules())
        return self._takes_any_layout and convolves and views.dim() == 4 and views.device.type == "cpu"

    def forward(self, x: Tensor, noise: Tensor | None = None) -> Tensor:
        """The averaged outputs at inputs x, shape (b, c), for noise of shape (b, s, k) or noise drawn as above."""
        if noise is None:
            noise = self._fresh_noise(x) if self.training else self.fixed_noise(x)
        return self.average(self.views(x, noise), x.shape[0])

    def _fresh_noise(self, x: Tensor) -> Tensor:
        draw = Draw(seed=int(torch.randint(2**63 - 1, ())))
        return self.draw(draw, torch.arange(len(x), device=x.device), x.dtype)

    def fixed_noise(self, x: Tensor) -> Tensor:
        """The noise of evaluation mode, the same for every input: shape (b, S, k)."""
        shared = balanced_noise(self.samples, self.augmentation.noise_dim).to(x.device, x.dtype, copy=True)
        return shared.expand(x.shape[0], -1, -1)


def _channels_last(images: Tensor) -> Tensor:
    """The same images (n, c, h, w), laid out channels last, in which convolutions and pooling are faster on a CPU.

    The stride of a single channel is a matter of choice, from which PyTorch infers the layout; `Tensor.contiguous`
    leaves it alone, so it is made anew here.
    """
    width, channels = images.shape[3], images.shape[1]
    rows = images.permute(0, 2, 3, 1).flatten(2)
    return rows.unflatten(2, (width, channels)).permute(0, 3, 1, 2)
