"""Sheets of runs that were never made, and pages in a browser."""

from pathlib import Path
from typing import Any

from torch import Tensor

from lila.augment import Augmentation
from lila.data.task import Scaling
from lila.reproduce.engine.experiment import Scale
from lila.reproduce.engine.output import Outcome
from lila.reproduce.paper import PAPER_EXPERIMENTS
from lila.results.report import Sheet
from lila.training.history import EpochRecord
from made_up import made_up


def made_up_sheet(augmentation: Augmentation, images: Tensor | None = None, scaling: Scaling | None = None) -> Sheet:
    """What a report shows of a run that was never made."""
    shape = (1, 8, 8) if images is None else tuple(images.shape[1:])
    return Sheet(
        title=type(augmentation).__name__,
        augmentation=augmentation,
        shape=shape,
        history=[EpochRecord(epoch=i, loss=1.0, ranges=dict(augmentation.ranges)) for i in (1, 2)],
        evidence={"value": -50.0},
        scores=None,
        settings={"method": "lila"},
        versions={},
        images=images,
        labels=None if images is None else ["a"] * len(images),
        scaling=scaling,
    )


def experiment_outcome(name: str) -> Outcome:
    """What an experiment whose jobs were never run has found."""
    experiment = PAPER_EXPERIMENTS[name]
    jobs = experiment.jobs(Scale.SMALL, 1)
    made = {"seconds": 60.0, "threads": 1, "machine": "x86_64", "device": "cpu"}
    made |= {"torch": "2", "lila": "0", "python": "3"}
    contents = {
        cell: {"work": job.work, "arguments": job.arguments, "made": made, "result": made_up(job)}
        for cell, job in jobs.items()
    }
    results = {cell: made_up(job) for cell, job in jobs.items()}
    summary = experiment.summarise(results, Scale.SMALL)
    return Outcome(experiment, Scale.SMALL, 1, contents=contents, summary=summary)


class Shown:
    """A page in the browser, with what went wrong while it was opened."""

    def __init__(self, browser: Any, path: Path, width: int = 1200, scheme: str = "light") -> None:
        self.problems: list[str] = []
        self.page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        self.page.on("console", lambda message: self.problems.append(message.text))
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("requestfailed", lambda request: self.problems.append(request.url))
        self.page.goto(path.as_uri())
        explorers = "[...document.querySelectorAll('.explorer')]"
        self.page.wait_for_function(f"{explorers}.every(e => e.dataset.ready)")

    def pixels(self) -> list[list[int]]:
        """The red values of the first tile of each explorer."""
        read = """[...document.querySelectorAll(".explorer")].map(e => {
            const canvas = e.querySelector("canvas"), copy = canvas.cloneNode();
            const context = copy.getContext("2d", { willReadFrequently: true });
            context.drawImage(canvas, 0, 0);
            return [...context.getImageData(0, 0, canvas.width, canvas.height).data].filter((_, i) => i % 4 === 0);
        })"""
        found: list[list[int]] = self.page.evaluate(read)
        return found
