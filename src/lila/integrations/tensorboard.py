"""A callback that writes the record of each epoch for TensorBoard (`pip install lila-torch[tensorboard]`)."""

from pathlib import Path

from lila._util.arguments import suggests_arguments
from lila.errors import LilaError
from lila.training.history import EpochRecord, scalars


@suggests_arguments
class TensorBoard:
    """Writes all numbers of each epoch as scalars: `lila.fit(..., callbacks=[lila.TensorBoard("runs/first")])`.

    They have the names that `lila.scalars` gives them: "loss", "evidence/value", "ranges/rotation", "seconds/hyper".

    Args:
        folder: where TensorBoard looks for event files.
    """

    def __init__(self, folder: str | Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise LilaError("TensorBoard is not installed: pip install 'lila-torch[tensorboard]'.") from error
        self.writer = SummaryWriter(str(folder))

    def __call__(self, record: EpochRecord) -> None:
        for name, value in scalars(record).items():
            self.writer.add_scalar(name, value, record.epoch)
        self.writer.flush()
