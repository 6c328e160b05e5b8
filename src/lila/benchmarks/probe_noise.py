"""How far probes are off, beside the noise of the augmentation's own samples.

A network is trained for some epochs; then the gradient of the evidence in eta is computed with all columns for several
draws of the noise, whose spread is the Monte Carlo noise that every hyper-step has, and for the same draws with probes,
and with those of "sampled" on a third of the examples.

    python -m lila.benchmarks.probe_noise --data mnist --subset 1250 --epochs 25
"""

import argparse
import json
from dataclasses import replace

import torch
from torch import Tensor

import lila


def trained(data: str, subset: int, epochs: int, seed: int) -> tuple[lila.Run, tuple[Tensor, Tensor]]:
    """An MLP on partially rotated images, in the middle of learning its ranges."""
    task = lila.load_data(lila.Recipe(data, transform="partially-rotated", subset=subset, seed=seed), in_memory=True)
    torch.manual_seed(seed)
    net = lila.make_model("mlp", task.shape, len(task.classes))
    assert isinstance(task.train, tuple)
    run = lila.fit(
        net,
        task.train,
        lila.Affine2d(),
        progress="silent",
        epochs=epochs,
        batch_size=125,
        eta_lr=0.1,
        burn_in=5,
        seed=seed,
    )
    return run, task.train


def gradients(
    run: lila.Run,
    data: tuple[Tensor, Tensor],
    draws: int,
    probes: int | None,
    gradient_probes: int | None,
    subset: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Gradients in eta (draws, generators), and log-determinants (draws,); with a subset, of so many examples."""
    evidence = lila.Evidence(
        run.model, run.likelihood, run.prior, probes=probes, gradient_probes=gradient_probes, microbatch=125
    )
    found, log_dets = [], []
    for epoch in range(draws):
        estimate = evidence.estimate(data, lila.Draw(1, epoch), subset)
        found.append(evidence.gradient(data, estimate, subset)["augmentation.eta"])
        log_dets.append(estimate.occam_factor)
    return torch.stack(found), torch.tensor(log_dets, dtype=torch.float64)


def main() -> None:
    """Measure and print JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="digits")
    parser.add_argument("--subset", type=int, default=1000)
    parser.add_argument("--epochs", type=int, default=25)
    parser.add_argument("--draws", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    run, data = trained(arguments.data, arguments.subset, arguments.epochs, arguments.seed)
    exact, log_det = gradients(run, data, arguments.draws, None, None)
    noise = exact.std(0)
    result = {
        "settings": vars(arguments),
        "torch": torch.__version__,
        "Monte Carlo noise of the gradient": noise.tolist(),
        "Monte Carlo noise of the log-determinant": float(log_det.std()),
    }
    ways: dict[str, tuple[int | None, ...]] = {
        f"probes {probes or 'all'}, in the gradient {gradient_probes}": (probes, gradient_probes)
        for probes, gradient_probes in ((None, 1), (None, 2), (1, 1), (2, 1), (2, 2))
    }
    sampled = replace(run.settings, passes="sampled")
    ways["sampled"] = *sampled.probe_counts(len(data[0])), sampled.sampled(len(data[0]))
    for name, way in ways.items():
        found, found_log_det = gradients(run, data, arguments.draws, *way)
        rms = (found - exact).square().mean(0).sqrt()
        result[name] = {
            "error of the gradient / Monte Carlo noise": (rms / noise).tolist(),
            "norm of the error / norm of the noise": float(rms.norm() / noise.norm()),
            "bias of the log-determinant, nats": float((found_log_det - log_det).mean()),
        }
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
