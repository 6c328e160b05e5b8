"""The error that random probes add to a gradient, beside the noise of the sampled transformations.

A network is trained for some epochs. Then the gradient of the evidence in eta is computed with all columns for several
draws of the noise; the spread of these gradients is the Monte Carlo noise that every hyper-step has. For the same draws
the gradient is computed with probes, and with "sampled" passes, which use a third of the examples.

    python -m lila.benchmarks.probe_noise --data mnist --subset 1250 --epochs 25
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

import lila
from lila.benchmarks.script import new_parser, print_result, start


def trained(data: str, subset: int, epochs: int, seed: int) -> tuple[lila.Run, tuple[Tensor, Tensor]]:
    """Train an MLP on partially rotated images for some epochs, and return it with its data."""
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
    *,
    probes: int | None = None,
    gradient_probes: int | None = None,
    subset: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Return gradients in eta (draws, generators), and log-determinants (draws,), of all examples or of a subset."""
    evidence = lila.Evidence(
        run.model, run.likelihood, run.prior, probes=probes, gradient_probes=gradient_probes, microbatch=125
    )
    found, log_dets = [], []
    for epoch in range(draws):
        estimate = evidence.estimate(data, lila.Draw(1, epoch), subset)
        found.append(evidence.gradient(data, estimate, subset)["augmentation.eta"])
        log_dets.append(estimate.occam_factor)
    return torch.stack(found), torch.tensor(log_dets, dtype=torch.float64)


def main(given: Sequence[str] | None = None) -> None:
    """Measure and print JSON."""
    parser = new_parser(__doc__)
    parser.add_argument("--data", default="digits", metavar="NAME", help="name of the data set [digits]")
    parser.add_argument("--subset", type=int, default=1000, metavar="N", help="training images [1000]")
    parser.add_argument("--epochs", type=int, default=25, metavar="N", help="[25]")
    parser.add_argument("--draws", type=int, default=8, metavar="N", help="draws of the noise [8]")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="[0]")
    arguments = start(parser, given)
    run, data = trained(arguments.data, arguments.subset, arguments.epochs, arguments.seed)
    exact, log_det = gradients(run, data, arguments.draws)
    noise = exact.std(0)
    result: dict[str, Any] = {
        "Monte Carlo noise of the gradient": noise.tolist(),
        "Monte Carlo noise of the log-determinant": float(log_det.std()),
    }
    options: dict[str, dict[str, int | None]] = {
        f"probes {probes or 'all'}, in the gradient {gradient_probes}": {
            "probes": probes,
            "gradient_probes": gradient_probes,
        }
        for probes, gradient_probes in ((None, 1), (None, 2), (1, 1), (2, 1), (2, 2))
    }
    sampled = replace(run.settings, passes="sampled")
    probes, gradient_probes = sampled.probe_counts(len(data[0]))
    subset = sampled.examples_per_estimate(len(data[0]))
    options["sampled"] = {"probes": probes, "gradient_probes": gradient_probes, "subset": subset}
    for name, chosen in options.items():
        found, found_log_det = gradients(run, data, arguments.draws, **chosen)
        rms = (found - exact).square().mean(0).sqrt()
        result[name] = {
            "error of the gradient / Monte Carlo noise": (rms / noise).tolist(),
            "norm of the error / norm of the noise": float(rms.norm() / noise.norm()),
            "bias of the log-determinant, nats": float((found_log_det - log_det).mean()),
        }
    print_result(arguments, result)


if __name__ == "__main__":
    main()
