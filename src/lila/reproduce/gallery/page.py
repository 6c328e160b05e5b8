"""The page of the gallery: a section for each case, with its picture and a table of the learned ranges."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from lila._util.files import replaced
from lila.augment import Augmentation, DiscreteFamily
from lila.augment.noise import Draw
from lila.reproduce.gallery.problem import Case, Problem
from lila.results.plots import plot_ranges, plot_samples
from lila.results.plots.style import COLOURS, empty_axes, new_figure, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_ROWS, _COLUMNS = 3, 7
_HEAD = """# Gallery

Each family of augmentations on real data that was transformed by known ranges. Every range of the family is learned,
from zero; "in the data" is the range by which the data was transformed, and is empty for what was left alone. Dashed in
the pictures: the ranges of the data. Settings are the defaults but for 60 or 100 epochs, and a burn-in of 20 epochs for
the photographs.

Some cases were changed after first results: the digits of mnist1d are trained for 100 epochs, as 60 did not suffice for
one seed, and the points are turned all the way around, as a quarter turn to each side was learned as almost a half
turn. Digits with another ink were added when digits in two inks gave nothing. So the gallery shows what each family can
learn, not how often it learns it from any data. Where a range was not recovered,
[families.md](families.md#what-is-not-recovered) says why.

This page is written by a command, which also trains the runs that are not in `results/gallery/` yet:

```console
python -m lila.reproduce.gallery --seeds 3 --out docs
```

The packages that it needs are those of the extra `gallery`. `--photographs` and `--garments` name CIFAR-10 and
Fashion-MNIST, or other images. The time series of the UCR archive come inside aeon, whose files are read without its
code, so that `pip install --no-deps aeon` is enough; `--series` is another folder with such files.
"""

Results = Mapping[str, Any]
"""What the runs of a case learned, as its file in `results/gallery` holds it."""


def write_page(folder: Path, cases: Mapping[str, Case], results: Mapping[str, Results]) -> None:
    """Write `gallery.md` of the cases that have results."""
    sections = [_section(name, cases[name], results[name]) for name in cases if name in results]
    with replaced(folder / "gallery.md") as temporary:
        temporary.write_text("\n".join([_HEAD, *sections]), encoding="utf-8")


def _section(name: str, case: Case, results: Results) -> str:
    runs: Sequence[Mapping[str, Any]] = results["runs"]
    lines = [
        f"## {case.title}",
        "",
        case.text,
        "",
        f"![Learned ranges, and examples under them](images/gallery-{name}.png)",
        "",
        "| | in the data | " + " | ".join(f"seed {run['seed']}" for run in runs) + " |",
        "|---|---|" + "---|" * len(runs),
    ]
    for range_ in runs[0]["readable"]:
        learned = " | ".join(run["readable"][range_] for run in runs)
        lines.append(f"| {range_} | {results['truth'].get(range_, '')} | {learned} |")
    lines.append("| test accuracy | | " + " | ".join(f"{run['accuracy']:.3f}" for run in runs) + " |")
    lines.append("| evidence, nats per example | | " + " | ".join(f"{run['evidence']:.3f}" for run in runs) + " |")
    return "\n".join([*lines, ""])


def draw_case(problem: Problem, runs: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Draw the ranges that the runs of a case learned, and examples under the ranges of the first run.

    Args:
        problem: the problem of the first run.
        runs: what the runs learned, as the file of a case in `results/gallery` holds it.
        path: of the picture.
    """
    figure = new_figure(11, 3.4)
    left, right = figure.subfigures(1, 2, width_ratios=(1, 1.5), squeeze=False)[0]
    axes = left.subplots()
    plot_ranges(axes, [run["ranges"] for run in runs], problem.truth)
    axes.set_ylabel(problem.augmentation.unit, fontsize=8)
    if problem.augmentation.unit == DiscreteFamily.unit:
        axes.set_ylim(0, 0.55)  # none is more probable than the input as it is
    grid = right.subplots(_ROWS, _COLUMNS, squeeze=False).tolist()
    augmentation = problem.augmentation
    with torch.no_grad():
        nn.utils.vector_to_parameters(torch.tensor(runs[0]["parameters"]), augmentation.parameters())
    shown = problem.test[0][:_ROWS]
    if shown.shape[-1] == 3:
        _plot_clouds(grid, augmentation, shown)
    else:
        plot_samples(grid, augmentation, shown)
    right.suptitle("examples, and each under the learned distribution", fontsize=10, x=0.02, ha="left")
    path.parent.mkdir(parents=True, exist_ok=True)
    with replaced(path) as temporary:
        save(figure, temporary, "png", dpi=110)


def _plot_clouds(rows: Sequence[Sequence["Axes"]], augmentation: Augmentation, clouds: Tensor) -> None:
    """Draw each cloud from above, with higher points darker, followed by random transformations of it."""
    noise = Draw(0).uniform(torch.arange(len(clouds)), (len(rows[0]) - 1, augmentation.noise_dim), clouds.dtype)
    with torch.no_grad():
        views = torch.cat([clouds[:, None], augmentation(clouds, noise)], dim=1)
    reach = 1.1 * float(clouds[..., :2].norm(dim=-1).max())
    for row, of_cloud in zip(rows, views, strict=True):
        for axes, points in zip(row, of_cloud, strict=True):
            x, y, height = points.T.numpy()
            axes.scatter(x, y, c=COLOURS[0], s=9, alpha=(0.3 + 1.2 * abs(height)).clip(0, 1))
            axes.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal")
            empty_axes(axes)
