"""Which fields of an example are its input, its target and its weight, where an example is not a plain pair (x, y)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from lila._util.arguments import suggests_arguments
from lila.errors import ArgumentError, DataError

Key = str | int


@suggests_arguments
@dataclass(frozen=True)
class Fields:
    """Data whose examples have named fields, or more fields than an input and a target.

    It goes wherever data goes: `lila.fit(net, lila.Fields(dataset, "image", "label"), ...)` reads dictionaries, as
    those of Hugging Face's `datasets`, and `lila.Fields(dataset, 0, 1)` the first two entries of longer tuples.

    Attributes:
        data: a map-style Dataset, or a DataLoader over one.
        input: the name or position of the input.
        target: the name or position of the target.
        weight: the name or position of the weight of an example; None if all examples count alike. An example of weight
            2 counts as two copies of it, in the loss and in the evidence. (With Kronecker factors, the factor A of a
            layer's inputs is that of all examples alike.)
    """

    data: Dataset[Any] | DataLoader[Any]
    input: Key
    target: Key
    weight: Key | None = None

    def __post_init__(self) -> None:
        if isinstance(self.data, Fields | tuple | list | Tensor):
            raise ArgumentError(
                f"Fields chooses from the examples of a Dataset or a DataLoader, not from a {type(self.data).__name__}."
            )

    def read(self, item: Any) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return input, target and weight of a batch, or of an example.

        Raises:
            DataError: a field is missing, or is not a tensor.
        """
        x, y = _field(item, self.input), _field(item, self.target)
        return x, y, None if self.weight is None else _field(item, self.weight)


def read_pair(item: Any) -> tuple[Tensor, Tensor, None]:
    """Return input and target of a batch that is a pair, and no weight.

    Raises:
        DataError: it is no pair of tensors.
    """
    if isinstance(item, Mapping):
        raise DataError(
            f"The examples are dictionaries with the keys {_keys(item)}. Say which of them are the input and the "
            "target: lila.Fields(data, 'image', 'label')."
        )
    if isinstance(item, tuple | list) and len(item) > 2:
        raise DataError(
            f"The examples have {len(item)} fields, but a pair (x, y) is expected. Say which of them are the input and "
            "the target: lila.Fields(data, 0, 1), or lila.Fields(data, 0, 1, weight=2) if the third is a weight."
        )
    if not isinstance(item, tuple | list) or len(item) != 2 or not all(isinstance(part, Tensor) for part in item):
        raise DataError(
            "Each example of the Dataset must be a pair (x, y) that collates to two tensors, but a batch came out as "
            f"{type(item)}. Return tensors from it (with torchvision: transform=ToTensor())."
        )
    return item[0], item[1], None


def _field(item: Any, key: Key) -> Tensor:
    if isinstance(key, str) and isinstance(item, Mapping):
        if key not in item:
            raise DataError(f"The examples have no field {key!r}; they have {_keys(item)}.")
        value = item[key]
    elif isinstance(key, int) and isinstance(item, Sequence) and not isinstance(item, str):
        if not -len(item) <= key < len(item):
            raise DataError(f"The examples have {len(item)} fields, so there is none at position {key}.")
        value = item[key]
    else:
        wanted = "dictionaries" if isinstance(key, str) else "tuples"
        raise DataError(f"To choose a field by {key!r}, examples must be {wanted}, but they are {type(item).__name__}.")
    if not isinstance(value, Tensor):
        raise DataError(
            f"The field {key!r} of the examples collates to a {type(value).__name__}, not to a tensor. Return tensors "
            "(with Hugging Face's datasets: dataset.with_format('torch'))."
        )
    return value


def _keys(item: Mapping[Any, Any]) -> str:
    return ", ".join(repr(key) for key in item)
