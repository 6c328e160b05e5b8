"""How the cost of a hyper-step grows with the examples, the samples, the classes and the width of a layer.

Times are in units of an epoch of the weights at the same setting: a cost that grows as the epoch does is constant.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial

from lila.benchmarks.hyper_steps import checked_passes, evidence_of
from lila.benchmarks.measuring import peak_bytes, ratios, seconds
from lila.benchmarks.workloads import WORKLOADS, Workload, parameter_epoch, prepare

_MLP = WORKLOADS["mlp"]
_TWO_SAMPLES = replace(_MLP, samples=2)
_SMALL = Workload("mlp", (1, 8, 8), samples=8, batch=100, width=200)


@dataclass(frozen=True)
class Point:
    """One setting at which the cost is measured.

    Attributes:
        label: the label of its row, as "N = 1000".
        workload: the network and its sizes.
        examples: N, the number of examples.
        kinds: the kinds of passes to measure.
    """

    label: str
    workload: Workload
    examples: int
    kinds: tuple[str, ...] = ("exact", "probed")


def points() -> Iterator[Point]:
    """Yield the settings, which differ in one size at a time.

    Exact passes with many classes take long, so they are measured on few examples.
    """
    for examples in (500, 1000, 2000):
        yield Point(f"N = {examples}", _MLP, examples)
    for samples in (8, 16, 32):
        yield Point(f"S = {samples}", replace(_MLP, samples=samples), 1000)
    for classes in (10, 100, 1000):
        yield Point(f"C = {classes}, N = 100", replace(_SMALL, classes=classes, batch=20), 100, ("exact",))
    for classes in (10, 100, 1000):
        yield Point(f"C = {classes}, N = 8000", replace(_SMALL, classes=classes), 8000, ("probed",))


def scaling(repeats: int, at: Iterable[Point] | None = None) -> dict[str, float]:
    """Return the cost of each kind of passes at each of the points."""
    result: dict[str, float] = {}
    for point in points() if at is None else at:
        model, data = prepare(point.workload, point.examples)
        epoch = partial(parameter_epoch, model, data, point.workload.batch)
        passes = checked_passes(point.workload, model, data, point.kinds)
        result[f"{point.label}: seconds of an epoch"] = seconds(epoch, repeats)
        for kind in point.kinds:
            result[f"{point.label}: {kind}"] = sum(ratios(passes[kind], epoch, repeats))
    return result


def memory(examples: tuple[int, ...] = (1_000, 10_000, 60_000), workload: Workload = _TWO_SAMPLES) -> dict[str, float]:
    """Return the peak memory of a hyper-step in bytes for several numbers of examples, without the data."""
    result = {}
    for count in examples:
        model, data = prepare(workload, count)
        passes = checked_passes(workload, model, data, ("probed",))["probed"]
        result[f"peak bytes, N = {count}"] = float(max(map(peak_bytes, passes)))
    return result


def width(units: int, examples: int) -> dict[str, float]:
    """Return the seconds of an epoch and of one hyper-step of an MLP with a wide hidden layer, and the latter's bytes.

    The gradient is checked with a narrow layer, as decomposing a factor of side 10,000 takes minutes.
    """
    workload = replace(_MLP, width=units)
    narrow = replace(workload, width=100)
    checked_passes(narrow, *prepare(narrow, 10), ("probed",))
    model, data = prepare(workload, examples)
    evidence = evidence_of(workload, model, "probed", examples)

    def hyper_step() -> None:
        evidence.gradient(data, evidence.estimate(data))

    times: list[float] = []
    most_bytes = peak_bytes(lambda: times.append(seconds(hyper_step, 1, warm_up=False)))
    return {
        "seconds of an epoch": seconds(partial(parameter_epoch, model, data, workload.batch), 1),
        "seconds of a hyper-step": times[0],
        "peak bytes of a hyper-step": float(most_bytes),
    }
