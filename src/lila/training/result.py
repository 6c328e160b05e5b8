"""What a finished run reports, as a file of its folder: evidence, scores, and what it is compared with."""

from dataclasses import asdict, dataclass
from math import inf, isfinite
from pathlib import Path
from typing import TYPE_CHECKING

from lila._util.choices import check_count
from lila._util.shell import quoted
from lila._util.versions import versions
from lila.errors import CheckpointError, NumericalError
from lila.laplace.terms import Terms
from lila.model.metrics import CalibrationBin
from lila.training.baselines import Baselines
from lila.training.checkpoint import CHECKPOINT, RESULT, check_identity, read_checkpoint, read_json, write_json
from lila.training.description import RunDescription, check_shape
from lila.training.posterior_file import POSTERIOR
from lila.training.schema import checked
from lila.training.scores import check_confusion

if TYPE_CHECKING:
    from lila.training.run import Run


@dataclass(frozen=True, kw_only=True)
class Result:
    """What a finished run reports, as its folder holds it.

    Attributes:
        evidence: the terms of the final estimate.
        test: the scores on the test data, if there was any.
        confusion: as in `Run`.
        calibration: as in `Run`; runs of lila before version 0.2 do not have it.
        shape: of one input.
        baselines: what simpler models of the same data are worth.
        never_predicted: the classes that the network never predicts.
        examples: the number of training examples.
        class_names: as in `Run`.
        range_errors: as in `Run`.
        versions: of the software that made it.
    """

    evidence: Terms
    test: dict[str, float] | None = None
    confusion: list[list[int]] | None = None
    calibration: list[CalibrationBin] | None = None
    shape: tuple[int, ...]
    baselines: Baselines
    never_predicted: tuple[int, ...]
    examples: int
    class_names: tuple[str, ...] | None = None
    range_errors: dict[str, float | None] | None = None
    versions: dict[str, str]

    def __post_init__(self) -> None:
        check_shape(self.shape)
        check_count("examples", self.examples)
        if self.confusion is not None:
            check_confusion(self.confusion)
        for name, error in (self.range_errors or {}).items():
            if error is not None and not 0 < error < inf:
                raise NumericalError(f"The error of the range {name[:40]!r} is not positive and finite: {error}.")
        for name, value in (self.test or {}).items():
            if not isfinite(value):
                raise NumericalError(f"The test score {name} is not finite: {value}.")


def write_result(folder: Path, run: "Run", identity: str) -> None:
    """Write what a run reports beside its checkpoint."""
    e = run.evidence
    terms = Terms(**e.terms(), standard_error=e.standard_error)
    result = Result(
        evidence=terms,
        test=run.test,
        confusion=run.confusion,
        calibration=run.calibration,
        shape=run.shape,
        examples=run.examples,
        baselines=run.baselines,
        never_predicted=run.never_predicted,
        class_names=run.class_names,
        range_errors=run.range_errors,
        versions=versions(),
    )
    write_json(folder / RESULT, {"run": identity, **asdict(result)})


def discard_result(folder: Path) -> None:
    """Delete what a run reported when it was stopped, and its posterior, before it goes on."""
    for name in (RESULT, POSTERIOR):
        (folder / name).unlink(missing_ok=True)


def read_result(folder: Path, description: RunDescription) -> Result:
    """Read what a finished run reports."""
    path = folder / RESULT
    if (folder / CHECKPOINT).exists() and not path.exists():
        epoch = read_checkpoint(folder, description.run, epochs=description.settings.epochs).epoch
        raise CheckpointError(f"The run in {folder} is not finished: {_what_is_missing(epoch, description, folder)}")
    values = read_json(path)
    if isinstance(values, dict):
        check_identity(values, description.run, str(path))
        values = {name: value for name, value in values.items() if name != "run"}
    result: Result = checked(Result, values, f"{path}: ")
    return result


def _what_is_missing(epoch: int, description: RunDescription, folder: Path) -> str:
    """Return what a run that was interrupted still has to do, and how to let it do that."""
    epochs = description.settings.epochs
    in_python = "lila.resume in Python, with the same network and data"
    how = in_python if description.task is None else f"`lila resume {quoted(str(folder))}`, or {in_python}"
    if epoch < epochs:
        return f"{epoch} of {epochs} epochs are done. Go on with {how}."
    return (
        f"all {epochs} epochs are done, but it ended before its evidence and test scores were computed. Compute them, "
        f"without training again, with {how}."
    )
