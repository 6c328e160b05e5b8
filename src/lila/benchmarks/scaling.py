"""How the cost of a hyper-step grows: with the examples, the samples, the classes and the width of a layer.

Times are in units of an epoch of the weights at the same setting, so what grows linearly with the epoch is constant.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial

from lila.benchmarks.networks import JOBS, Job, evidence_of, hyper_steps, parameter_epoch, prepared
from lila.benchmarks.tools import peak, ratios, seconds

_MLP = JOBS["mlp"]
_TWO_SAMPLES = replace(_MLP, samples=2)
_SMALL = Job("mlp", (1, 8, 8), samples=8, batch=100, width=200)


@dataclass(frozen=True)
class Point:
    """One setting at which the cost is measured.

    Attributes:
        what: the row it makes, as "N = 1000".
        job: the network.
        examples: N.
        kinds: the kinds of passes to measure.
    """

    what: str
    job: Job
    examples: int
    kinds: tuple[str, ...] = ("exact", "probed")


def points() -> Iterator[Point]:
    """The settings: one thing changes at a time. All columns of many classes take long, so fewer examples are used."""
    for examples in (500, 1000, 2000):
        yield Point(f"N = {examples}", _MLP, examples)
    for samples in (8, 16, 32):
        yield Point(f"S = {samples}", replace(_MLP, samples=samples), 1000)
    for classes in (10, 100, 1000):
        yield Point(f"C = {classes}, N = 100", replace(_SMALL, classes=classes, batch=20), 100, ("exact",))
    for classes in (10, 100, 1000):
        yield Point(f"C = {classes}, N = 8000", replace(_SMALL, classes=classes), 8000, ("probed",))


def scaling(repeats: int, at: Iterable[Point] | None = None) -> dict[str, float]:
    """The cost of each kind of passes at each of the points."""
    result: dict[str, float] = {}
    for point in points() if at is None else at:
        model, data = prepared(point.job, point.examples)
        epoch = partial(parameter_epoch, model, data, point.job.batch)
        work = hyper_steps(point.job, model, data, point.kinds)
        result[f"{point.what}: seconds of an epoch"] = seconds(epoch, repeats)
        for kind in point.kinds:
            result[f"{point.what}: {kind}"] = sum(ratios(work[kind], epoch, repeats))
    return result


def memory(examples: tuple[int, ...] = (1_000, 10_000, 60_000), job: Job = _TWO_SAMPLES) -> dict[str, float]:
    """The peak of a hyper-step in bytes for numbers of examples, the data not counted."""
    result = {}
    for count in examples:
        model, data = prepared(job, count)
        result[f"peak bytes, N = {count}"] = float(max(map(peak, hyper_steps(job, model, data, ("probed",))["probed"])))
    return result


def width(units: int, examples: int) -> dict[str, float]:
    """Seconds and bytes of an epoch and of one hyper-step of an MLP with a wide hidden layer.

    What is timed was checked with a narrow layer: decomposing a factor of side 10,000 takes minutes.
    """
    job = replace(_MLP, width=units)
    narrow = replace(job, width=100)
    hyper_steps(narrow, *prepared(narrow, 10), ("probed",))
    model, data = prepared(job, examples)
    evidence = evidence_of(job, model, "probed", examples)

    def hyper_step() -> None:
        evidence.gradient(data, evidence.estimate(data))

    times: list[float] = []
    bytes_ = peak(lambda: times.append(seconds(hyper_step, 1, warm_up=False)))
    return {
        "seconds of an epoch": seconds(partial(parameter_epoch, model, data, job.batch), 1),
        "seconds of a hyper-step": times[0],
        "peak bytes of a hyper-step": float(bytes_),
    }
