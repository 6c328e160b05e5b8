"""Training data as the passes see it: examples by index, in batches of any size.

The noise of an example is determined by its index, so a pass fetches examples by index and does not depend on the order
in which a loader gives them.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import (
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    Subset,
    default_collate,
)

from lila.data.fields import Fields, read_pair
from lila.errors import ArgumentError, DataError

Data = tuple[Tensor, Tensor] | Dataset[Any] | DataLoader[Any] | Fields


@dataclass(frozen=True)
class Batch:
    """A batch of examples.

    Attributes:
        index: the indices of the examples in the data set, shape (b,).
        x: the inputs, shape (b, *shape).
        y: the targets.
        weight: how much each example counts, shape (b,); None if all count alike.
    """

    index: Tensor
    x: Tensor
    y: Tensor
    weight: Tensor | None = None

    def split(self, size: int) -> Iterator["Batch"]:
        """Divide the batch into batches of at most `size` examples; an empty batch gives none."""
        if len(self.index):
            parts = self.index.split(size), self.x.split(size), self.y.split(size)
            weights = [None] * len(parts[0]) if self.weight is None else self.weight.split(size)
            yield from map(Batch, *parts, weights)


class Examples:
    """A data set of (x, y) from a pair of tensors, a map-style Dataset, or the Dataset behind a DataLoader.

    Examples that are no pairs come with `Fields`. The dataset, the collate function and the workers of a DataLoader are
    used, but not its batch size and its order. A DataLoader that draws only some of the examples is refused.

    Args:
        data: the data.
        device: the device to which batches are moved; if None, they stay where the data is.
    """

    def __init__(self, data: Data, device: torch.device | None = None) -> None:
        self.device = device
        self.loading: dict[str, Any] = {"collate_fn": default_collate}
        self.tensors: tuple[Tensor, Tensor] | None = None
        self.dataset: Dataset[Any] | None = None
        self.weighted = isinstance(data, Fields) and data.weight is not None
        self._read: Callable[[Any], tuple[Tensor, Tensor, Tensor | None]] = read_pair
        if isinstance(data, Fields):
            self._read, data = data.read, data.data
        if isinstance(data, DataLoader):
            _check_loader(data)
            self.loading = {
                "collate_fn": data.collate_fn,
                "num_workers": data.num_workers,
                "pin_memory": data.pin_memory,
            }
            data = data.dataset
        if isinstance(data, IterableDataset):
            raise DataError(
                "The data is an IterableDataset, whose examples have no index. Noise is determined by the index; "
                "use a map-style Dataset with __getitem__ and __len__."
            )
        if isinstance(data, (tuple, list)):
            self.tensors = _checked_pair(data)
            self.length = len(data[0])
        elif hasattr(data, "__getitem__") and hasattr(data, "__len__"):
            self.dataset = data
            self.length = len(data)
        else:
            raise DataError(
                f"The data must be a pair of tensors (x, y), a map-style Dataset or a DataLoader, not {type(data)}."
            )
        if self.length == 0:
            raise DataError("The data set is empty.")

    @property
    def class_names(self) -> tuple[str, ...] | None:
        """The names of the classes, if the Dataset, or the one that it is a subset of, has them as `classes`."""
        dataset: Any = self.dataset
        while isinstance(dataset, Subset):
            dataset = dataset.dataset
        names = getattr(dataset, "classes", None)
        if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
            return None
        return tuple(names)

    def __len__(self) -> int:
        return self.length

    def batches(self, size: int, chosen: Tensor | None = None) -> Iterator[Batch]:
        """Give the data set, or the examples with the chosen indices, in checked batches of at most `size`."""
        if size < 1:
            raise ArgumentError(f"A batch holds at least one example, but its size was given as {size}.")
        return self.parts((torch.arange(self.length) if chosen is None else chosen).split(size))

    def parts(self, indices: Sequence[Tensor]) -> Iterator[Batch]:
        """Give a checked batch for each tensor of indices that is not empty."""
        filled = [index for index in indices if len(index)]
        for index, (x, y, weight) in zip(filled, self._raw(filled), strict=True):
            weight = None if weight is None else weight.to(self.device)
            batch = Batch(index.to(self.device), x.to(self.device), y.to(self.device), weight)
            _check(batch)
            yield batch

    def _raw(self, indices: Sequence[Tensor]) -> Iterator[tuple[Tensor, Tensor, Tensor | None]]:
        if self.tensors is not None:
            x, y = self.tensors
            for index in indices:
                yield x[index.to(x.device)], y[index.to(y.device)], None
            return
        assert self.dataset is not None
        sampler = [index.tolist() for index in indices]
        try:
            for item in DataLoader(self.dataset, batch_sampler=sampler, **self.loading):
                yield self._read(item)
        except DataError as error:
            # An error from a worker process comes with the traceback of that process before its message.
            raise DataError(str(error).strip().splitlines()[-1].rpartition("DataError: ")[2]) from error
        except (TypeError, RuntimeError) as error:
            if not any(words in str(error) for words in ("default_collate", "stack expects each tensor")):
                raise
            raise DataError(
                f"The examples could not be stacked to a batch of tensors of one shape: {error}. Resize or convert "
                "them in the Dataset."
            ) from error


def _check_loader(loader: DataLoader[Any]) -> None:
    if isinstance(loader.dataset, IterableDataset):
        return  # refused later, with another message
    if loader.batch_size is None and loader.batch_sampler is None:
        raise DataError(
            "The DataLoader has batch_size=None: its Dataset gives batches. Give a Dataset of single examples."
        )
    sampler = loader.sampler
    whole = isinstance(sampler, SequentialSampler) or (
        isinstance(sampler, RandomSampler) and not sampler.replacement and len(sampler) == len(sampler.data_source)
    )
    if not whole or getattr(loader.batch_sampler, "sampler", None) is not sampler:
        raise DataError(
            f"The DataLoader draws its examples by a {type(sampler).__name__} or a batch sampler of its own, which may "
            "leave some out. To use a part of the data, wrap the Dataset: torch.utils.data.Subset(dataset, indices)."
        )


def _checked_pair(data: Sequence[Any]) -> tuple[Tensor, Tensor]:
    if len(data) != 2 or not all(isinstance(part, Tensor) for part in data):
        raise DataError(f"Data given as a tuple must be two tensors (x, y), but is {[type(part) for part in data]}.")
    x, y = data
    if x.dim() == 0 or y.dim() == 0 or len(x) != len(y):
        raise DataError(
            f"There must be as many inputs as targets, but x has shape {tuple(x.shape)} and y {tuple(y.shape)}."
        )
    return x, y


def _check(batch: Batch) -> None:
    if not batch.x.is_floating_point():
        raise DataError(
            f"Inputs must be real numbers, but they have type {batch.x.dtype}. Convert them: x.float() (images also "
            "want scaling: x.float() / 255)."
        )
    if batch.x.dim() < 2:
        raise DataError(
            f"Inputs must have a batch dimension and at least one more, but their shape is {tuple(batch.x.shape)}. Of "
            "scalar inputs make columns: x.unsqueeze(1)."
        )
    finite = batch.x.flatten(1).isfinite().all(1)
    if not finite.all():
        raise DataError(f"The input of example {batch.index[~finite][0]} contains NaN or infinite values.")
    if batch.weight is not None:
        check_weights(batch.weight, len(batch.x))


def check_weights(weight: Tensor, count: int) -> None:
    """Raise DataError unless these are weights of `count` examples: finite, and not negative."""
    if weight.shape != (count,) or not weight.is_floating_point():
        raise DataError(
            f"Weights must be one real number per example, shape ({count},), but they have shape "
            f"{tuple(weight.shape)} and type {weight.dtype}. If that field is no weight, do not name it as one."
        )
    if not weight.isfinite().all() or (weight < 0).any():
        raise DataError("The weights of examples must be finite and not negative.")
