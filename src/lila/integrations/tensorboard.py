"""A callback that writes the record of each epoch for TensorBoard (`pip install lila-torch[tensorboard]`)."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lila.errors import LilaError


class TensorBoard:
    """Write every number of a run's records as scalars: `lila.fit(..., callbacks=[lila.TensorBoard("runs/first")])`.

    Nested numbers are grouped by name: "evidence/value", "ranges/rotation", "seconds/hyper".

    Args:
        folder: where TensorBoard looks for them.
    """

    def __init__(self, folder: str | Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise LilaError("TensorBoard is not installed: pip install 'lila-torch[tensorboard]'.") from error
        self.writer = SummaryWriter(str(folder))

    def __call__(self, record: dict[str, Any]) -> None:
        for name, value in scalars(record):
            self.writer.add_scalar(name, value, record["epoch"])
        self.writer.flush()


def scalars(values: dict[str, Any], group: str = "") -> Iterator[tuple[str, float]]:
    """All numbers of a record, by the path of names that leads to them."""
    for name, value in values.items():
        if isinstance(value, dict):
            yield from scalars(value, f"{group}{name}/")
        elif isinstance(value, int | float):
            yield group + name, value
