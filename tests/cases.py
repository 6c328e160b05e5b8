"""Small networks, likelihoods and data over which everything is tested, in float64."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import lila
from lila.model.fixup import Bias, Scale

SIDE = 5
CHANNELS = 2
OUTPUTS = 3


class Residual(nn.Module):
    """A residual block with Fixup scalars."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.bias1, self.bias2, self.bias3, self.scale = Bias(0.1), Bias(-0.2), Bias(0.3), Scale(0.7)
        self.conv = nn.Conv2d(channels, channels, 3, padding=1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.scale(torch.tanh(self.bias3(self.conv(self.bias1(x))))) + self.bias2(x)


class Attention(nn.Module):
    """Self-attention with one head, built from Linear."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        z = self.norm(x)
        return x + F.scaled_dot_product_attention(self.query(z), self.key(z), self.value(z))


class Patches(nn.Module):
    """An image as a sequence of its rows."""

    def forward(self, x: Tensor) -> Tensor:
        return x.transpose(1, 2).flatten(2)


class Mean(nn.Module):
    """The mean over positions."""

    def forward(self, x: Tensor) -> Tensor:
        return x.mean(1)


class Twice(nn.Module):
    """The same layer used twice."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(torch.tanh(self.layer(x)))


class Backwards(nn.Module):
    """A network that names its layers in another order than that in which they run."""

    def __init__(self) -> None:
        super().__init__()
        self.head, self.body = nn.Linear(4, OUTPUTS, bias=False), nn.Linear(CHANNELS * SIDE**2, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.tanh(self.body(x.flatten(1))))


def mlp() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(CHANNELS * SIDE**2, 4), nn.Tanh(), nn.Linear(4, OUTPUTS))


def linear() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(CHANNELS * SIDE**2, OUTPUTS))


def cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(CHANNELS, 4, 3, stride=2, padding=1),
        nn.ELU(inplace=True),
        nn.Conv2d(4, 4, 2, groups=2, dilation=2, padding="same", padding_mode="reflect", bias=False),
        nn.Tanh(),
        nn.Flatten(),
        nn.Linear(36, OUTPUTS),
    )


def residual() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(CHANNELS, 3, 3, stride=2, bias=False),
        Residual(3),
        nn.GroupNorm(3, 3),
        nn.Tanh(),
        nn.Flatten(),
        nn.Linear(12, OUTPUTS),
    )


class Rectified(nn.Module):
    """A residual block that is linear between its kinks, with Fixup scalars."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.bias1, self.bias2, self.bias3, self.scale = Bias(0.1), Bias(-0.2), Bias(0.3), Scale(0.7)
        self.conv = nn.Conv2d(channels, channels, 3, padding=1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        shortcut = F.pad(F.avg_pool2d(x, 1, 2), (0, 0, 0, 0, 0, 1))
        branch = self.scale(F.max_pool2d(F.relu(self.bias3(self.conv(self.bias1(x)))), 2, ceil_mode=True))
        return shortcut + self.bias2(F.pad(branch, (0, 0, 0, 0, 1, 0)))


def rectified() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(CHANNELS, 3, 3, padding=1),
        nn.LeakyReLU(inplace=True),
        Rectified(3),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(16, OUTPUTS),
    )


def attention() -> nn.Module:
    return nn.Sequential(Patches(), nn.Linear(CHANNELS * SIDE, 4), Attention(4), Mean(), nn.Linear(4, OUTPUTS))


def sequence() -> nn.Module:
    return nn.Sequential(
        Patches(),
        nn.Conv1d(SIDE, 3, 3, stride=2, padding=1),
        nn.Tanh(),
        nn.GroupNorm(1, 3),
        nn.Flatten(),
        nn.Linear(15, OUTPUTS),
    )


def shared() -> nn.Module:
    return nn.Sequential(
        nn.Flatten(), nn.Linear(CHANNELS * SIDE**2, 3), nn.Tanh(), Twice(nn.Linear(3, 3)), nn.Linear(3, OUTPUTS)
    )


def partly_frozen() -> nn.Module:
    net = nn.Sequential(
        nn.Conv2d(CHANNELS, 3, 3),
        nn.Tanh(),
        nn.Conv2d(3, 2, 2),
        nn.Tanh(),
        nn.Flatten(),
        nn.Linear(8, OUTPUTS),
    )
    net[0].requires_grad_(False)
    net[2].weight.requires_grad_(False)
    net[5].bias.requires_grad_(False)
    return net


def decoder() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(CHANNELS, 4, 3, stride=2, bias=False),
        nn.Tanh(),
        nn.ConvTranspose2d(4, 4, (3, 2), (2, 1), padding=1, output_padding=(1, 0), groups=2, dilation=(1, 2)),
        nn.Tanh(),
        nn.Flatten(),
        nn.Linear(32, OUTPUTS),
    )


NETWORKS: dict[str, Callable[[], nn.Module]] = {
    net.__name__: net
    for net in (mlp, linear, cnn, residual, rectified, attention, sequence, shared, partly_frozen, decoder)
}


def bernoulli_targets(n: int, generator: torch.Generator) -> Tensor:
    return torch.randint(2, (n, OUTPUTS), generator=generator)


def class_targets(n: int, generator: torch.Generator) -> Tensor:
    return torch.randint(OUTPUTS, (n,), generator=generator)


def real_targets(n: int, generator: torch.Generator) -> Tensor:
    return torch.randn(n, OUTPUTS, generator=generator, dtype=torch.float64)


LIKELIHOODS: dict[str, tuple[Callable[[], lila.Likelihood], Callable[[int, torch.Generator], Tensor]]] = {
    "categorical": (lila.Categorical, class_targets),
    "bernoulli": (lila.Bernoulli, bernoulli_targets),
    "gaussian": (lambda: lila.Gaussian(0.7), real_targets),
    "gaussian-per-output": (lambda: lila.Gaussian(0.7, outputs=OUTPUTS), real_targets),
}


class Gamma(lila.Augmentation):
    """Contrast and brightness with ranges in two parameter tensors, not a Lie group: x' = x exp(a eps_1) + b eps_2."""

    noise_dim = 2

    def __init__(self) -> None:
        super().__init__()
        self.contrast = nn.Parameter(torch.tensor(0.3))
        self.brightness = nn.Parameter(torch.tensor([0.2]))

    def forward(self, x: Tensor, noise: Tensor) -> Tensor:
        self.check_noise(x, noise)
        one, two = noise[..., 0, None, None, None], noise[..., 1, None, None, None]
        return x.unsqueeze(1) * torch.exp(self.contrast * one) + self.brightness * two


def affine() -> lila.Augmentation:
    return lila.Affine2d(init=[0.11, 0.07, 0.5, 0.13, 0.17, 0.05])


def composed() -> lila.Augmentation:
    return lila.Compose(lila.Affine2d(["rotation", "x-scale"], init=[0.4, 0.2]), Gamma())


AUGMENTATIONS: dict[str, Callable[[], lila.Augmentation]] = {"affine": affine, "composed": composed}


@dataclass(frozen=True)
class Case:
    """A model with its data and noise."""

    model: lila.InvariantModel
    likelihood: lila.Likelihood
    x: Tensor
    y: Tensor
    draw: lila.Draw

    @property
    def net(self) -> nn.Module:
        return self.model.net

    @property
    def data(self) -> tuple[Tensor, Tensor]:
        return self.x, self.y

    def noise(self) -> Tensor:
        return self.model.draw(self.draw, torch.arange(len(self.x)), self.x.dtype)

    def views(self) -> Tensor:
        """All views, shape (n, s, *shape), with a graph to the augmentation."""
        views: Tensor = self.model.augmentation(self.x, self.noise())
        return views

    def prior(self, structure: str = "layerwise") -> lila.GaussianPrior:
        """A prior whose precisions all differ."""
        prior = lila.GaussianPrior(self.net, structure, precision=0.8)
        generator = torch.Generator().manual_seed(5)
        with torch.no_grad():
            for parameter in prior.parameters():
                parameter.add_(torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype), alpha=0.3)
        return prior

    def evidence(self, structure: str, curvature: str = "ggn", **settings: Any) -> lila.Evidence:
        prior = self.prior()
        return lila.Evidence(self.model, self.likelihood, prior, structure=structure, curvature=curvature, **settings)


def make_case(
    network: str = "mlp",
    likelihood: str = "categorical",
    samples: int = 3,
    n: int = 3,
    augmentation: str = "affine",
    seed: int = 0,
) -> Case:
    generator = torch.Generator().manual_seed(seed)
    net = NETWORKS[network]()
    with torch.no_grad():
        for parameter in net.parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            parameter.copy_(parameter * 0.5 + 0.4 * noise)  # biases and norm scales away from 0 and 1 too
    make_likelihood, targets = LIKELIHOODS[likelihood]
    model = lila.InvariantModel(net, AUGMENTATIONS[augmentation](), samples).double()
    x = torch.randn(n, CHANNELS, SIDE, SIDE, generator=generator, dtype=torch.float64)
    return Case(model, make_likelihood().double(), x, targets(n, generator), lila.Draw(seed=seed, epoch=2))


def case_of(net: nn.Module, n: int = 3, samples: int = 2) -> Case:
    """A case of any network for images, which is converted in place."""
    case = make_case("mlp", samples=samples, n=n)
    case.model.net = net.double()
    return case
