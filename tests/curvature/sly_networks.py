"""Networks whose evidence would be a wrong number, or no number at all, made so that a careless check lets them pass.

Each has layers with a rule and maps a batch of images to logits. What is wrong with it does not show at the first row
of a batch, is small, is rare, or shows for some inputs only.
"""

import random
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from cases import CHANNELS, OUTPUTS, SIDE

PIXELS = CHANNELS * SIDE**2


class Base(nn.Module):
    """A network with one hidden layer."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.body, self.head = nn.Linear(PIXELS, 4), nn.Linear(4, OUTPUTS)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(self.hidden(x.flatten(1)))
        return out

    def hidden(self, x: Tensor) -> Tensor:
        return torch.tanh(self.body(x))


def mean(x: Tensor) -> Tensor:
    """The mean of each input, shape (v, 1)."""
    return x.flatten(1).mean(1, keepdim=True)


# Examples that see each other -----------------------------------------------------------------------------------------


class CentredInputs(Base):
    """Statistics of the batch before the first layer: gradients agree, outputs do not."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x - x.mean(0))


class MixedButForTheFirst(Base):
    """All rows but the first are averaged with their neighbour."""

    def hidden(self, x: Tensor) -> Tensor:
        h = super().hidden(x)
        return torch.cat([h[:1], 0.5 * (h[1:] + h[1:].roll(1, 0))]) if len(h) > 1 else h


class Sorted(Base):
    """The hidden layer sees its inputs in order of their brightness: outputs are right, what belongs to whom is not."""

    def hidden(self, x: Tensor) -> Tensor:
        order = x[1:].mean(1).argsort() + 1
        order = torch.cat([order.new_zeros(1), order])
        return super().hidden(x[order])[order.argsort()]


class MaskedMixing(Base):
    """Bright inputs share their mean."""

    def hidden(self, x: Tensor) -> Tensor:
        h = super().hidden(x)
        bright = (mean(x) > mean(x)[0]).to(h)
        return h + bright * ((bright * h).sum(0) / bright.sum().clamp(min=1) - h)


class AttentionOverBatch(Base):
    """Attention whose sequence is the batch; the first row attends to itself alone."""

    def hidden(self, x: Tensor) -> Tensor:
        h = super().hidden(x)
        causal = torch.ones(len(h), len(h)).tril().bool()
        scores = (h @ h.mT).masked_fill(~causal, -torch.inf)
        return scores.softmax(1) @ h


class WeakMixing(Base):
    """A thousandth of the batch's mean."""

    def hidden(self, x: Tensor) -> Tensor:
        h = super().hidden(x)
        return h - 0.001 * h.mean(0)


class BatchSize(Base):
    """Logits scaled by the number of inputs."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) * (1 + 0.002 * len(x))


class LargeBatches(Base):
    """Centred only if there are many inputs."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x - x.mean(0) if len(x) > 12 else x)


class BatchControlFlow(Base):
    """A layer that runs if the batch is bright on average."""

    def __init__(self) -> None:
        super().__init__()
        self.extra = nn.Linear(4, 4)

    def hidden(self, x: Tensor) -> Tensor:
        h = super().hidden(x)
        return h + torch.tanh(self.extra(h)) if bool(x.mean() > 0) else h


class ZeroBranch(Base):
    """A branch that mixes, and whose last scale is zero as Fixup initialises it: nothing shows before training."""

    def __init__(self) -> None:
        super().__init__()
        self.mixed = nn.Linear(4, 4)
        nn.init.zeros_(self.mixed.weight)
        nn.init.zeros_(self.mixed.bias)

    def hidden(self, x: Tensor) -> Tensor:
        h = super().hidden(x)
        return h + self.mixed(h.mean(0, keepdim=True).expand_as(h))


class GhostPairs(Base):
    """Each input sees the difference to the one sixteen rows further on."""

    def hidden(self, x: Tensor) -> Tensor:
        h = super().hidden(x)
        return h + 0.5 * (h.roll(-16, 0) - h) if len(h) > 16 else h


class ScaledByLargest(Base):
    """Inputs divided by the largest value of the batch."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x / x.abs().max().clamp(min=1))


class Chunks(Base):
    """Attention within chunks of four rows."""

    def hidden(self, x: Tensor) -> Tensor:
        chunks = super().hidden(x).split(4)
        return torch.cat([F.scaled_dot_product_attention(h[None], h[None], h[None])[0] for h in chunks])


class MixedGradient(torch.autograd.Function):
    """The identity, whose gradient is averaged over the batch."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        return g.mean(0).expand_as(g)


class MixedBackwards(Base):
    def hidden(self, x: Tensor) -> Tensor:
        made: Tensor = MixedGradient.apply(super().hidden(x))  # type: ignore[no-untyped-call]
        return made


class WithGradientsOnly(Base):
    """Centred while gradients are computed."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x - x.mean(0) if x.requires_grad else x)


class SingleOnly(Base):
    """Centred in float32, or where weights are as they were made."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x - x.mean(0) if x.dtype == torch.float32 else x + 0.01 * x.mean(0))


# Weights that do more than their layer --------------------------------------------------------------------------------


class OutsideForSome(Base):
    """The hidden layer's weight also acts directly, for bright inputs only."""

    def hidden(self, x: Tensor) -> Tensor:
        h = super().hidden(x)
        gate = (mean(x) > 0.05).to(h)
        return h + gate * F.linear(h, self.body.weight[:, :4])


class OutsideBehindRelu(Base):
    """The hidden layer's weight also acts directly, where no input at hand gets past a threshold."""

    def hidden(self, x: Tensor) -> Tensor:
        return super().hidden(x) + F.relu(F.linear(x, self.body.weight) - 50)


class OutsideOnZero(Base):
    """The hidden layer's weight also acts on what the first row of the batch has none of."""

    def hidden(self, x: Tensor) -> Tensor:
        return super().hidden(x) + F.linear(x.clamp(min=0) * (mean(x) != 0), 0.1 * self.body.weight)


class Rescaled(nn.Linear):
    """A weight that acts as a little more than itself."""

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, 1.005 * self.weight, self.bias)


class RescaledWeight(Base):
    def __init__(self) -> None:
        super().__init__()
        self.body = Rescaled(PIXELS, 4)


class Clamped(nn.Linear):
    """A weight that is cut off where none is yet."""

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight.clamp(-0.2, 0.2), self.bias)


class ClampedWeight(Base):
    def __init__(self) -> None:
        super().__init__()
        self.body = Clamped(PIXELS, 4)


class ForwardCalled(Base):
    """The forward of a layer, called past its hooks, for half of the inputs."""

    def hidden(self, x: Tensor) -> Tensor:
        gate = (mean(x) > 0).to(x)
        return torch.tanh(gate * self.body.forward(x) + (1 - gate) * self.body(x))


class Rolled(Base):
    """The hidden layer sees the batch from the second row on, and the first one last."""

    def hidden(self, x: Tensor) -> Tensor:
        return super().hidden(x.roll(-1, 0)).roll(1, 0)


class TwiceInside(nn.Linear):
    """A layer that applies its weight twice."""

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(torch.tanh(F.linear(x, self.weight, self.bias)), 0.01 * self.weight, self.bias)


class AppliedTwice(Base):
    def __init__(self) -> None:
        super().__init__()
        self.twice = TwiceInside(4, 4)

    def hidden(self, x: Tensor) -> Tensor:
        made: Tensor = self.twice(super().hidden(x))
        return made


class SharedMemory(Base):
    """Two parameters that are one in memory."""

    def __init__(self) -> None:
        super().__init__()
        self.middle, self.back = nn.Linear(4, 4), nn.Linear(4, 4, bias=False)

    def hidden(self, x: Tensor) -> Tensor:
        out: Tensor = self.back(torch.tanh(self.middle(super().hidden(x))))
        return out

    def _apply(self, fn: Any, recurse: bool = True) -> nn.Module:
        made: nn.Module = super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self.back.weight = nn.Parameter(self.middle.weight.data.mT)
        return made


class PastTheHooks(nn.Linear):
    """A layer whose call is not PyTorch's."""

    def __call__(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight, self.bias)


class Uncalled(Base):
    def __init__(self) -> None:
        super().__init__()
        self.body = PastTheHooks(PIXELS, 4)


class Hooked(Base):
    """A hook that changes what a layer returns, for some inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.body.register_forward_hook(lambda module, args, out: out + 0.01 * out * (mean(args[0]) > 0.1))


# Layers that run for some inputs only ---------------------------------------------------------------------------------


class SomeRows(Base):
    """A layer that only bright inputs pass."""

    def __init__(self) -> None:
        super().__init__()
        self.extra = nn.Linear(4, 4)

    def hidden(self, x: Tensor) -> Tensor:
        h = super().hidden(x)
        bright = mean(x)[:, 0] > 0
        return h.index_put((bright.nonzero()[:, 0],), torch.tanh(self.extra(h[bright])))


class SomeUses(Base):
    """A layer that is used again for bright inputs; all outputs are right."""

    def __init__(self) -> None:
        super().__init__()
        self.extra = nn.Linear(4, 4)

    def hidden(self, x: Tensor) -> Tensor:
        h = torch.tanh(self.extra(super().hidden(x)))
        bright = mean(x) > 0
        return torch.where(bright, torch.tanh(self.extra(h)), h) if bool(bright.any()) else h


# Randomness and memory ------------------------------------------------------------------------------------------------


class FunctionalDropout(Base):
    """Dropout that is rare."""

    def hidden(self, x: Tensor) -> Tensor:
        return F.dropout(super().hidden(x), 0.01)


class SmallNoise(Base):
    def hidden(self, x: Tensor) -> Tensor:
        return super().hidden(x) + 1e-5 * torch.randn(len(x), 4, dtype=x.dtype) if self.training else super().hidden(x)


class StochasticDepth(Base):
    """A layer that is left out now and then, by Python's own random numbers."""

    def hidden(self, x: Tensor) -> Tensor:
        h = super().hidden(x)
        return h if random.random() < 0.01 else h.sin()


class OwnGenerator(Base):
    """Random numbers from a generator of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.generator = torch.Generator().manual_seed(0)

    def hidden(self, x: Tensor) -> Tensor:
        h = super().hidden(x)
        return h * (torch.rand(len(x), 1, generator=self.generator, dtype=x.dtype) > 0.001)


class OwnPythonGenerator(Base):
    """Rare random numbers from a generator of Python's that the network keeps."""

    def __init__(self) -> None:
        super().__init__()
        self.choice = random.Random(0)

    def hidden(self, x: Tensor) -> Tensor:
        h = super().hidden(x)
        return h.sin() if self.choice.random() < 0.001 else h


class RunningMean(Base):
    """A buffer that follows the data."""

    centre: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("centre", torch.zeros(4))

    def hidden(self, x: Tensor) -> Tensor:
        h = super().hidden(x)
        self.centre.mul_(0.999).add_(0.001 * h.detach().mean(0))
        return h - self.centre


class Remembered(Base):
    """The same, in an attribute that is no buffer."""

    centre: Any = 0.0

    def hidden(self, x: Tensor) -> Tensor:
        h = super().hidden(x)
        self.centre = 0.999 * self.centre + 0.001 * h.detach().mean(0)
        return h - self.centre


class Cached(Base):
    """A result that is kept by the shape of the input."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[torch.Size, Tensor] = {}

    def hidden(self, x: Tensor) -> Tensor:
        offset = self.kept.setdefault(x.shape, mean(x).detach())
        return super().hidden(x) + offset


# Precision ------------------------------------------------------------------------------------------------------------


class HalfPrecision(Base):
    def hidden(self, x: Tensor) -> Tensor:
        return super().hidden(x).half().to(x.dtype)


class Autocast(Base):
    def hidden(self, x: Tensor) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            h = super().hidden(x.float())
        return h.to(x.dtype)


class SetUpByTheFirst(Base):
    """Centres by the mean of the first batch that it sees, which it keeps in an attribute."""

    centre: Tensor | None = None

    def hidden(self, x: Tensor) -> Tensor:
        h = super().hidden(x)
        if self.centre is None:
            self.centre = h.detach().mean(0)
        return h - self.centre.to(h.dtype)


class OtherInEval(Base):
    """Is another network in eval mode."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) * (1.0 if self.training else 2.0)


class NoSingles(Base):
    """Fails for a batch of one."""

    def hidden(self, x: Tensor) -> Tensor:
        h = super().hidden(x).squeeze()
        return h - h.mean(1, keepdim=True)


class Recomputed(Base):
    """Saves memory by running a layer again in the backward pass."""

    def hidden(self, x: Tensor) -> Tensor:
        out: Tensor = checkpoint(super().hidden, x, use_reentrant=False)
        return out


class MixedIfBright(Base):
    """Bright inputs get the mean of the batch."""

    def hidden(self, x: Tensor) -> Tensor:
        h = super().hidden(x)
        return torch.where(mean(x) > 2, 3 * h.mean(0, keepdim=True), h)


MIXING = "depends on the other inputs of the batch"
REFUSED: dict[Callable[[], nn.Module], str] = {
    CentredInputs: MIXING,
    MixedButForTheFirst: MIXING,
    MaskedMixing: MIXING,
    AttentionOverBatch: MIXING,
    WeakMixing: MIXING,
    BatchSize: MIXING,
    LargeBatches: MIXING,
    BatchControlFlow: "'extra' runs for some inputs only",
    ZeroBranch: MIXING,
    GhostPairs: MIXING,
    ScaledByLargest: MIXING,
    Chunks: MIXING,
    MixedBackwards: "'body' does not keep the inputs of the batch in their order",
    WithGradientsOnly: "is another one under torch.no_grad()",
    SingleOnly: MIXING,
    Rolled: "'body' does not keep the inputs of the batch in their order",
    AppliedTwice: "'twice', whose class TwiceInside has a forward of its own",
    SharedMemory: "['back.weight', 'middle.weight'] share memory",
    Uncalled: "are used outside of the forward of their layer 'body'",
    Hooked: "'body' (Linear) by its rule LinearRule",
    OwnPythonGenerator: "draws random numbers (by the generator 'choice')",
    Sorted: "'body' does not keep the inputs of the batch in their order",
    OutsideForSome: "['body.weight'] are used outside of the forward of their layer 'body'",
    OutsideBehindRelu: "['body.weight'] are used outside of the forward of their layer 'body'",
    OutsideOnZero: "['body.weight'] are used outside of the forward of their layer 'body'",
    RescaledWeight: "'body', whose class Rescaled has a forward of its own",
    ClampedWeight: "'body', whose class Clamped has a forward of its own",
    ForwardCalled: "['body.weight', 'body.bias'] are used outside of the forward of their layer 'body'",
    SomeRows: "'extra' runs for some inputs only",
    SomeUses: "'extra' runs for some inputs only",
    FunctionalDropout: "draws random numbers",
    SmallNoise: "draws random numbers",
    StochasticDepth: "draws random numbers",
    OwnGenerator: "draws random numbers",
    RunningMean: "changed its buffer 'centre'",
    Remembered: "remembers earlier inputs",
    Cached: "remembers earlier inputs",
    SetUpByTheFirst: "remembers earlier inputs",
    OtherInEval: "computes something else after eval()",
    NoSingles: "runs on several inputs but not on a single one",
    Recomputed: "uses gradient checkpointing",
    HalfPrecision: "computes in torch.float16",
    Autocast: "computes in torch.bfloat16",
}
"""What is to be refused, with the words that name the cause."""
