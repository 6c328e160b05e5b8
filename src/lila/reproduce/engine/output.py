"""The files that an experiment writes: a page, its figures, and the data behind them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from lila._util.files import replaced
from lila.reproduce.engine.experiment import Cell, Experiment, Scale, Summary, chosen_jobs, group_seeds
from lila.reproduce.engine.store import Store, rounded
from lila.results.plots.style import save
from lila.results.tables import as_csv


@dataclass(frozen=True)
class Outcome:
    """An experiment with all its results.

    Attributes:
        experiment: the experiment.
        scale: the scale at which it was run.
        seeds: the number of seeds.
        contents: the contents of the result files (see `Store.read`) by cell.
        summary: the summary of the results.
        networks: the data sets and networks to which it was restricted; empty for all of them.
    """

    experiment: Experiment
    scale: Scale
    seeds: int
    _: KW_ONLY
    contents: Mapping[Cell, Mapping[str, Any]]
    summary: Summary
    networks: Sequence[tuple[str, str]] = ()

    @property
    def command(self) -> str:
        """The command that runs this experiment again."""
        restriction = "".join(f" --network {':'.join(network)}" for network in self.networks)
        return f"lila reproduce {self.experiment.name} --scale {self.scale} --seeds {self.seeds}{restriction}"

    def conclusion(self) -> str:
        """Say in a sentence whether the claims held."""
        held, claims = sum(verdict.held for verdict in self.summary.verdicts), len(self.summary.verdicts)
        return "All claims held at this scale." if held == claims else f"{held} of {claims} claims held at this scale."

    def cost(self) -> str:
        """Say how long the jobs took, and on which machines."""
        all_made = [content["made"] for content in self.contents.values()]
        seconds = sum(made["seconds"] for made in all_made)
        threads = sorted({made["threads"] for made in all_made})
        where = sorted({f"{made['machine']} {made['device']}, PyTorch {made['torch']}" for made in all_made})
        used = " or ".join(f"{count} thread{'s' if count > 1 else ''}" for count in threads)
        typical = median(made["seconds"] for made in all_made)
        return (
            f"{len(all_made)} runs, {seconds / 60:.0f} minutes one after the other, {typical:.0f} s the median run "
            f"({used}; {'; '.join(where)})"
        )


def conclude(
    experiment: Experiment, scale: Scale, seeds: int, store: Store, *, networks: Sequence[tuple[str, str]] = ()
) -> Outcome:
    """Read the results of an experiment whose jobs are all done, and summarise them."""
    contents = {cell: store.read(job) for cell, job in chosen_jobs(experiment, scale, seeds, networks).items()}
    results = {cell: content["result"] for cell, content in contents.items()}
    summary = experiment.summarise(results, scale)
    return Outcome(experiment, scale, seeds, contents=contents, summary=summary, networks=networks)


def write(outcome: Outcome, folder: Path) -> None:
    """Write page, figures and data into a folder; each file is replaced as a whole."""
    for name, draw in outcome.summary.figures.items():
        figure = draw()
        for kind in ("svg", "png"):
            with replaced(folder / f"{name}.{kind}") as temporary:
                save(figure, temporary, kind, dpi=110)
    with replaced(folder / "README.md") as temporary:
        temporary.write_text(page(outcome), encoding="utf-8")
    with replaced(folder / "data.json") as temporary:
        temporary.write_text(json.dumps(rounded(outcome_data(outcome)), separators=(",", ":")) + "\n")
    with replaced(folder / "data.csv") as temporary:
        temporary.write_text(as_csv(rounded(list(outcome.summary.rows), 5)), encoding="utf-8")


def write_index(folder: Path, names: Sequence[str]) -> None:
    """Write a page that lists which claims held, for each of the named experiments whose results are in the folder."""
    lines = ["# Results", "", "| experiment | seeds | held | did not hold |", "|---|---|---|---|"]
    for name in names:
        path = folder / name / "data.json"
        if path.exists():
            data = json.loads(path.read_text())
            held, others = ([v["claim"] for v in data["verdicts"] if v["held"] is kind] for kind in (True, False))
            fewest, most = data["seeds_of_cells"]
            seeds = f"{fewest}" if fewest == most else f"{fewest} to {most}"
            lines.append(f"| [{name}]({name}/README.md) | {seeds} | {_joined(held)} | {_joined(others)} |")
    with replaced(folder / "README.md") as temporary:
        temporary.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _joined(claims: Sequence[str]) -> str:
    return "; ".join(claims) or "–"


def outcome_data(outcome: Outcome) -> dict[str, Any]:
    """Return everything but the figures, ready for JSON."""
    experiment, summary = outcome.experiment, outcome.summary
    seeds = [len(of_cell) for of_cell in group_seeds(outcome.contents).values()]
    return {
        "experiment": experiment.name,
        "scale": outcome.scale.value,
        "seeds": outcome.seeds,
        "seeds_of_cells": [min(seeds), max(seeds)],
        "claim": experiment.claim,
        "reproduced_if": experiment.reproduced_if,
        "verdicts": [asdict(verdict) for verdict in summary.verdicts],
        "tables": [asdict(table) for table in summary.tables],
        "remarks": list(summary.remarks),
        "command": outcome.command,
        "cost": outcome.cost(),
        "rows": list(summary.rows),
    }


def text(outcome: Outcome) -> str:
    """Return the outcome as plain text, for a terminal."""
    experiment, summary = outcome.experiment, outcome.summary
    lines = [experiment.title, "", f"Claim: {experiment.claim}", f"Reproduced if {experiment.reproduced_if}.", ""]
    for table in summary.tables:
        lines += [table.text(), ""]
    lines += [f"{'held    ' if v.held else 'NOT held'}  {v.claim}: {v.found}" for v in summary.verdicts]
    lines += ["", outcome.conclusion(), *summary.remarks, outcome.cost()]
    return "\n".join(lines)


def page(outcome: Outcome) -> str:
    """Return the outcome as a Markdown page, which shows the figures beside it."""
    experiment, summary = outcome.experiment, outcome.summary
    verdicts = [f"| {'yes' if v.held else '**no**'} | {v.claim} | {v.found} |" for v in summary.verdicts]
    parts = [
        f"# {experiment.name}",
        f"{experiment.title}.",
        f"**Claim.** {experiment.claim}",
        f"**Reproduced** if {experiment.reproduced_if}.",
        "\n".join(["| held | claim | found |", "|---|---|---|", *verdicts]),
        outcome.conclusion(),
        *(table.markdown() for table in summary.tables),
        *(f"![{experiment.title}: {name}]({name}.png)" for name in summary.figures),
        *summary.remarks,
        f"    {outcome.command}",
        f"{outcome.cost()}. The data is in [data.json](data.json) and [data.csv](data.csv).",
    ]
    return "\n\n".join(parts) + "\n"
