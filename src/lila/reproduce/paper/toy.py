"""The classification example: five models of points in the plane, compared by their evidence."""

from collections.abc import Mapping
from math import degrees, pi
from statistics import mean
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from lila.augment import Rotation2d
from lila.augment.noise import Draw
from lila.data.toy import REACH, arcs
from lila.laplace.evidence import Evidence
from lila.laplace.posterior import Posterior
from lila.reproduce.engine.experiment import Cell, Experiment, Scale, Summary, Verdict, group_seeds
from lila.reproduce.engine.images import run_result
from lila.reproduce.engine.jobs import Job, Result, Surroundings
from lila.reproduce.engine.registry import register_work
from lila.results.plots.plane import grid, plot_plane
from lila.results.plots.style import new_figure
from lila.results.tables import Table, listed, spread
from lila.training.fit import fit

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WORK = "toy"
"""The name of this work in jobs."""

_MODELS: dict[str, dict[str, Any]] = {
    "non-invariant": {"structure": "full", "method": "non-invariant"},
    "polar coordinates": {"structure": "full", "method": "non-invariant", "polar": True},
    "standard augmentation": {"structure": "full", "method": "fixed-loss", "start": REACH},
    "lila, full": {"structure": "full", "method": "lila"},
    "lila, kron": {"structure": "kron", "method": "lila"},
}
"""The models by name, in the order (a) to (e) of the paper's figure."""

_SETTINGS: dict[str, Any] = {
    "epochs": 500,
    "batch_size": 200,
    "samples": 100,
    "lr": 0.1,
    "lr_end": 0.1,
    "hyper_lr": 0.1,
    "eta_lr": 0.005 * pi,  # in half turns: 0.005
    "eta_lr_end": 0.0001 * pi,
    "burn_in": 0,
    "prior": "scalar",
    "passes": "exact",
    "noise": "independent",
}
"""The paper's settings, for both scales."""

_PAR = 3.0  # nats by which two models may differ and still count as equal
_UNSEEN_EPOCH = 10_000  # the epoch whose noise the last estimate uses; training does not get there


class Toy(Experiment):
    """Five models of points on two arcs."""

    name = "toy"
    title = "Classification example: five models and their evidence (appendix)"
    claim = (
        "lila learns the soft rotation of 60 degrees, and has more evidence than other models, as much as prior "
        "knowledge gives."
    )
    reproduced_if = (
        f"by mean evidence with the full GGN, lila is above the non-invariant network, and that above standard "
        f"augmentation; lila by Kronecker factors lies within {_PAR:.0f} nats of lila, and polar coordinates no more "
        "than that above it; and both mean ranges lie within 20% of 60 degrees"
    )
    small_seeds = 3

    def jobs(self, scale: Scale, seeds: int) -> dict[Cell, Job]:
        return {
            (name, seed): Job(WORK, model | {"settings": _SETTINGS | {"seed": seed}})
            for seed in range(seeds)
            for name, model in _MODELS.items()
        }

    def summarise(self, results: Mapping[Cell, Result], scale: Scale) -> Summary:
        runs = {str(cell[0]): by_seed for cell, by_seed in group_seeds(results).items()}
        evidence = {name: [run["full evidence"] for run in by_seed] for name, by_seed in runs.items()}
        ranges = {
            name: [degrees(run["ranges"]["rotation"]) for run in by_seed if run["ranges"]]
            for name, by_seed in runs.items()
        }
        table = Table(
            "Evidence in nats with the full GGN, and the range of the rotation in degrees (truth: 60)",
            ["model", "evidence", "rotation"],
            [[name, spread(evidence[name], 1), spread(ranges[name], 1)] for name in runs],
        )
        rows = [
            {"model": cell[0], "seed": cell[1], "evidence": result["full evidence"], **result["ranges"]}
            for cell, result in results.items()
        ]
        figures = {self.name: lambda: _figure(runs, evidence)}
        return Summary([table], _verdicts(evidence, ranges), figures=figures, rows=rows)


def _verdicts(evidence: Mapping[str, list[float]], ranges: Mapping[str, list[float]]) -> list[Verdict]:
    e = {name: mean(values) for name, values in evidence.items()}

    def both(one: str, other: str) -> str:
        return listed({name: e[name] for name in (one, other)}, 1)

    full, plain = "lila, full", "non-invariant"
    ours = [mean(ranges[name]) for name in ("lila, full", "lila, kron")]
    return [
        Verdict(
            "the range of the data is learned, by the full GGN and by Kronecker factors",
            all(abs(value - 60) < 12 for value in ours),
            ", ".join(f"{value:.1f}°" for value in ours),
        ),
        Verdict("lila has more evidence than the non-invariant network", e[full] > e[plain], both(full, plain)),
        Verdict(
            "standard augmentation has less than that",
            e["standard augmentation"] < e[plain],
            both("standard augmentation", plain),
        ),
        Verdict(
            "Kronecker factors do almost as well",
            abs(e["lila, kron"] - e[full]) < _PAR,
            both("lila, kron", full),
        ),
        Verdict(
            "prior knowledge does not do better",
            e["polar coordinates"] < e[full] + _PAR,
            both("polar coordinates", full),
        ),
    ]


class Polar(nn.Module):
    """Maps points to radius and angle, which builds knowledge of the rotation into a network."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([x.norm(dim=1), torch.atan2(x[:, 1], x[:, 0])], dim=1)


def work(arguments: Mapping[str, Any], surroundings: Surroundings) -> Result:
    """Train one of the models; return its predictive, and its evidence with the full GGN."""
    settings = dict(arguments["settings"])
    seed = settings["seed"]
    torch.manual_seed(seed)
    first = [Polar()] if arguments.get("polar") else []
    net = nn.Sequential(*first, nn.Linear(2, 50), nn.Tanh(), nn.Linear(50, 2))
    data = arcs(seed=seed)
    chosen = {name: arguments[name] for name in ("structure", "method")}
    start = Rotation2d(init=arguments.get("start", 0.0))
    run = fit(net, data, start, progress="silent", device=surroundings.device, microbatch=200, **settings, **chosen)
    average = run.settings.procedure.average
    full = Evidence(run.model, run.likelihood, run.prior, structure="full", microbatch=200, average=average)
    estimate = full.estimate(data, Draw(seed, _UNSEEN_EPOCH))
    posterior = Posterior(run.model.eval(), run.likelihood, run.prior, estimate.curvature)
    points = grid().to(next(net.parameters()).device)
    probability = torch.cat([posterior.predict(few)[:, 1] for few in points.split(200)])
    return run_result(run) | {"full evidence": estimate.value, "predictive": probability.tolist(), "seed": seed}


def _figure(runs: Mapping[str, list[Result]], evidence: Mapping[str, list[float]]) -> "Figure":
    figure = new_figure(2.9 * len(runs), 3.2)
    for axes, (name, by_seed) in zip(figure.subplots(1, len(runs)), runs.items(), strict=True):
        first = by_seed[0]
        plot_plane(axes, arcs(seed=first["seed"]), torch.tensor(first["predictive"]))
        rotation = f", ±{degrees(first['ranges']['rotation']):.0f}°" if first["ranges"] else ""
        axes.set_title(f"{name}\n{evidence[name][0]:.1f} nats{rotation}", fontsize=11, loc="left")
    return figure


register_work(WORK, work)
