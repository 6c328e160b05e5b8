"""What the method is for, on a problem whose exact evidence is known."""

import torch
from torch import Tensor, nn

import lila

DELTA, SIGMA, N, PLANES, SAMPLES = 0.2, 1.5, 100, 10, 200


def regression() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(8)
    x = torch.randn(N, 2 * PLANES, generator=generator, dtype=torch.float64)
    y = x @ torch.randn(2 * PLANES, 1, generator=generator, dtype=torch.float64)
    return x, y + SIGMA * torch.randn(N, 1, generator=generator, dtype=torch.float64)


class Turns(lila.Rotation2d):
    """Turns of all planes by the same angle."""

    def forward(self, x: Tensor, noise: Tensor) -> Tensor:
        return torch.einsum("bsij,bpj->bspi", self.elements(noise), x.unflatten(1, (PLANES, 2))).flatten(2)


def exact_evidence(x: Tensor, y: Tensor, eta: float) -> float:
    """The evidence of the linear model with features averaged over S turns, in the mean over a few draws of these."""
    turns, values = Turns(init=eta).double(), []
    for epoch in range(5):
        noise = lila.Draw(99, epoch).uniform(torch.arange(N), (SAMPLES, 1), torch.float64)
        phi = turns(x, noise).mean(1).detach()
        covariance = SIGMA**2 * torch.eye(N, dtype=torch.float64) + phi @ phi.mT / DELTA
        normal = torch.distributions.MultivariateNormal(torch.zeros(N, dtype=torch.float64), covariance)
        values.append(float(normal.log_prob(y[:, 0])))
    return sum(values) / len(values)


def test_the_learned_eta_of_a_linear_model_sits_at_the_maximum_of_the_exact_evidence() -> None:
    """All that eta can do here is to scale the features, and it does, as the prior over the weights is too wide."""
    x, y = regression()
    grid = torch.linspace(0.1, 3.0, 60)
    values = torch.tensor([exact_evidence(x, y, float(eta)) for eta in grid])
    best = float(grid[values.argmax()])
    assert 0.5 < best < 2.5
    torch.manual_seed(0)
    run = lila.fit(
        nn.Linear(2 * PLANES, 1, bias=False).double(),
        (x, y),
        Turns(init=0.3),
        likelihood=lila.Gaussian(SIGMA),
        progress="silent",
        passes="probed",
        noise="independent",
        epochs=300,
        batch_size=20,
        samples=SAMPLES,
        lr=0.1,
        lr_end=0.01,
        eta_lr=0.05,
        hyper_lr=1e-9,  # the prior stays too wide
        precision=DELTA,
        microbatch=N,
    )
    assert abs(run.ranges["rotation"] - best) < 0.05 * best
