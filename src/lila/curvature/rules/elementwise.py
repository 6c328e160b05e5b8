"""Rules of layers that scale or shift elements without normalising them."""

from torch import Tensor, nn

from lila.curvature.rules.base import Rule, Sharing, split_channels


class ScaleRule(Rule):
    """A scalar that multiplies every element: `lila.model.fixup.Scale`."""

    weight, bias = "scale", None
    sharing = Sharing.REDUCE

    def shape(self, module: nn.Module) -> tuple[int, int, int]:
        return 1, 1, 1

    def features(self, module: nn.Module, x: Tensor) -> Tensor:
        return _elements(x)

    def inputs(self, module: nn.Module, x: Tensor) -> Tensor:
        return x[:, :, None, None]

    def outputs(self, module: nn.Module, g: Tensor) -> Tensor:
        return _elements(g)[:, :, None, None]


class BiasRule(Rule):
    """A scalar added to every element, `lila.model.fixup.Bias`: a constant input, so one position stands for all."""

    weight, bias = None, "bias"
    sharing = Sharing.REDUCE

    def shape(self, module: nn.Module) -> tuple[int, int, int]:
        return 1, 1, 0

    def features(self, module: nn.Module, x: Tensor) -> Tensor:
        return x.new_empty(x.shape[0], 0)

    def inputs(self, module: nn.Module, x: Tensor) -> Tensor:
        return x[:, None, None, :]

    def outputs(self, module: nn.Module, g: Tensor) -> Tensor:
        return g.sum(tuple(range(1, g.dim())))[:, None, None, None]


class PReLURule(Rule):
    """`nn.PReLU`, max(x, 0) + w min(x, 0): the slope w multiplies negative inputs, of a channel or of all."""

    bias = None
    sharing = Sharing.REDUCE

    def shape(self, module: nn.Module) -> tuple[int, int, int]:
        assert isinstance(module, nn.PReLU)
        return module.num_parameters, 1, 1

    def features(self, module: nn.Module, x: Tensor) -> Tensor:
        return x.clamp(max=0)

    def inputs(self, module: nn.Module, x: Tensor) -> Tensor:
        return self.outputs(module, x)

    def outputs(self, module: nn.Module, g: Tensor) -> Tensor:
        assert isinstance(module, nn.PReLU)
        return split_channels(g) if module.num_parameters > 1 else _elements(g)[:, :, None, None]


def _elements(x: Tensor) -> Tensor:
    """Arrange all elements of a view as positions, (v, t), the channels last, as the passes lay images out."""
    return x.movedim(1, -1).flatten(1)
