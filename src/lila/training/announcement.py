"""What a person is told before the first epoch: the data, the network, and the time and memory that are expected."""

import torch
from torch import Tensor

from lila._util.memory import readable_bytes
from lila._util.shell import printable
from lila.data.examples import Data, Examples
from lila.data.images import SERIES_DIMENSIONS
from lila.training.description import TaskDescription
from lila.training.forecast import Forecast, readable_seconds
from lila.training.settings import ResolvedSettings
from lila.training.state import State

_LISTED = 10  # classes that are listed with their numbers of examples


def announcement(
    state: State,
    data: Data,
    settings: ResolvedSettings,
    *,
    test: Data | None,
    task: TaskDescription | None,
    forecast: Forecast,
    memory: int,
) -> str:
    """Return the announcement of a run, in three lines.

    Args:
        state: the state before the first epoch of this process.
        data: the training data.
        settings: how it is trained.
        test: the test data, if there is any.
        task: what `lila train` made the run from, if it did.
        forecast: of the time.
        memory: the bytes that the run is expected to take.
    """
    lines = [_data(data, test, task, state), _network(state, settings, task), _cost(state, forecast, memory)]
    return printable("\n".join(lines))  # names of classes come from the names of folders


def _data(data: Data, test: Data | None, task: TaskDescription | None, state: State) -> str:
    examples = Examples(data)
    shape = tuple(next(examples.batches(1)).x.shape[1:])
    tested = "no test data" if test is None else f"{len(Examples(test)):,} for test"
    what = "inputs"
    size = " x ".join(map(str, shape))
    if task is not None:
        what = "series" if len(shape) == SERIES_DIMENSIONS else "images"
        unit = "values in time" if what == "series" else "pixels"
        colours = "grey" if what == "images" and shape[0] == 1 else f"{shape[0]} channel{'s' * (shape[0] > 1)}"
        size = f"{' x '.join(map(str, shape[1:]))} {unit}, {colours}"
    labels = class_labels(examples) if state.likelihood.classifies else None
    classes = "" if labels is None else f"; {_classes(labels, None if task is None else task.classes)}"
    return f"Data: {len(examples):,} {what} for training and {tested}; {size}{classes}."


def class_labels(examples: Examples) -> Tensor | None:
    """Return the class of each example if it is known without reading the inputs; else None."""
    if examples.tensors is not None:
        labels = examples.tensors[1]
    else:
        found = getattr(examples.dataset, "targets", None)  # as torchvision's datasets have
        if not isinstance(found, Tensor | list) or len(found) != len(examples):
            return None
        labels = torch.as_tensor(found)
    return labels.cpu().long() if labels.dim() == 1 and not labels.is_floating_point() else None


def _classes(labels: Tensor, names: tuple[str, ...] | None) -> str:
    counts = labels.bincount(minlength=len(names or ())).tolist()
    if len(counts) <= _LISTED:
        named = names or tuple(map(str, range(len(counts))))
        listed = ", ".join(f"{name}: {count:,}" for name, count in zip(named, counts, strict=True))
        return f"{len(counts)} classes ({listed})"
    return f"{len(counts)} classes with {min(counts):,} to {max(counts):,} each"


def _network(state: State, settings: ResolvedSettings, task: TaskDescription | None) -> str:
    net = state.model.net
    name = type(net).__name__ if task is None else task.model
    weights = sum(p.numel() for p in net.parameters() if p.requires_grad)
    text = f"Network: {name}, {weights:,} weights"
    if state.model.samples > 1:
        views = state.weights_model.samples
        text += f"; averaged over {state.model.samples} views ({views} in steps of the weights)"
    return f"{text}. Method: {settings.method}, {settings.epochs} epochs in batches of {settings.batch_size}."


def _cost(state: State, forecast: Forecast, memory: int) -> str:
    parts, total = forecast.parts(state.epoch), forecast.total(state.epoch)
    shares = ", ".join(f"{name} {seconds / total:.0%}" for name, seconds in parts.items() if seconds >= total / 200)
    already = f" for the other {len(forecast.counts.hyper) - state.epoch} epochs" if state.epoch else ""
    return f"Expected: {readable_seconds(total)}{already} ({shares}), {readable_bytes(memory)} of memory."
