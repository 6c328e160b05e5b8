"""Checkpoints: one safetensors file that is replaced as a whole, and the history as JSON lines beside it.

The files of a run's folder are

- `run.json`: the description of the run, with its identity, which all other files repeat.
- `history.jsonl`: one record per epoch. Records are appended; lines beyond the checkpoint's epoch are ignored.
- `checkpoint.safetensors`: the state, with its epoch and a checksum in the file's metadata.
- `result.json`: what a finished run reports.
"""

import hashlib
import json
import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from lila._util.files import replaced
from lila.errors import CheckpointError
from lila.training.history import EpochRecord, from_json, to_json
from lila.training.schema import check_file, check_no_link, parse_json, read_text

FORMAT = "lila-checkpoint-2"
RUN, RESULT = "run.json", "result.json"
HISTORY, CHECKPOINT = "history.jsonl", "checkpoint.safetensors"


class Checkpoint(NamedTuple):
    """The state of a run after an epoch.

    Attributes:
        tensors: the state by name.
        epoch: the number of epochs that are done.
        history: a record per epoch.
    """

    tensors: dict[str, Tensor]
    epoch: int
    history: list[EpochRecord]


class CheckpointWriter:
    """Writes the checkpoints of a run; each is whole on the disk before it takes the place of the one before.

    Args:
        folder: of the run, in which `run.json` is.
        identity: of the run.
        history: the records of the checkpoint that is there; lines that go beyond it are removed.
    """

    def __init__(self, folder: Path, identity: str, history: Sequence[EpochRecord] = ()) -> None:
        self._folder, self._identity, self._records = folder, identity, len(history)
        path = folder / HISTORY
        check_no_link(path)
        lines = path.read_bytes().splitlines(keepends=True)[: len(history)] if path.exists() else []
        self._bytes = sum(map(len, lines))

    def write(self, checkpoint: Checkpoint) -> None:
        """Append the new records to the history, then replace the state.

        A crash in between leaves the last state, and a history that goes beyond it.
        """
        self._append(checkpoint.history[self._records :])
        path = self._folder / CHECKPOINT
        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in checkpoint.tensors.items()}
        metadata = {"format": FORMAT, "run": self._identity, "epoch": str(checkpoint.epoch), "sha256": digest(tensors)}
        with replaced(path) as temporary:
            try:
                save_file(tensors, temporary, metadata=metadata)
            except SafetensorError as error:  # what the operating system refuses is no OSError there
                raise OSError(
                    f"{path} could not be written: {error}. The checkpoint before it is whole: make room on the disk, "
                    "then go on with `lila resume`, or lila.resume in Python."
                ) from error
            temporary.chmod(stat.S_IMODE((self._folder / RUN).stat().st_mode))  # safetensors makes it private

    def _append(self, records: Sequence[EpochRecord]) -> None:
        lines = [json.dumps({"run": self._identity, **to_json(record)}, allow_nan=False) + "\n" for record in records]
        text = "".join(lines).encode()
        with (self._folder / HISTORY).open("ab") as file:
            file.truncate(self._bytes)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        self._records += len(records)
        self._bytes += len(text)


def read_checkpoint(folder: Path, identity: str, *, epochs: int) -> Checkpoint:
    """Read the state of a run, and the history up to it.

    Args:
        folder: of the run.
        identity: of the run, which its files must repeat.
        epochs: of the whole run.
    """
    path = folder / CHECKPOINT
    if not path.exists():
        raise CheckpointError(f"There is no checkpoint in {folder}: {CHECKPOINT} is missing.")
    check_file(path)
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError, TypeError) as error:
        raise CheckpointError(f"{path} is damaged and cannot be read: {error}") from error
    if metadata.get("format") != FORMAT:
        raise CheckpointError(f"{path} is not a checkpoint of lila: its format is {metadata.get('format')!r}.")
    check_identity(metadata, identity, str(path))
    written = metadata.get("epoch", "")
    if not (written.isascii() and written.isdigit() and len(written) < 10 and int(written) <= epochs):
        raise CheckpointError(f"{path}: epoch must be a whole number of at most {epochs}, but is {written[:40]!r}.")
    if metadata.get("sha256") != digest(tensors):
        raise CheckpointError(f"{path} is damaged: its tensors do not have the checksum that was stored with them.")
    return Checkpoint(tensors, int(written), _read_history(folder / HISTORY, identity, int(written)))


def _read_history(path: Path, identity: str, epoch: int) -> list[EpochRecord]:
    if not path.exists():
        raise CheckpointError(f"{path} is missing.")
    lines = read_text(path).split("\n")[:epoch]
    history: list[EpochRecord] = []
    for number, line in enumerate(lines, start=1):
        if not line:
            break
        place = f"{path}, line {number}"
        value = parse_json(line, place)
        if isinstance(value, dict):
            check_identity(value, identity, place)
            value = {name: part for name, part in value.items() if name != "run"}
        record = from_json(value, f"{place}: ")
        if record.epoch != number:
            raise CheckpointError(f"{place}: epoch must be {number}, but is {record.epoch}.")
        if history and history[0].ranges.keys() != record.ranges.keys():
            raise CheckpointError(f"{place}: ranges must have the names of line 1, {list(history[0].ranges)}.")
        history.append(record)
    if len(history) < epoch:
        raise CheckpointError(f"{path} has {len(history)} records, but the checkpoint is of epoch {epoch}.")
    return history


def check_identity(values: Mapping[str, Any], identity: str, place: str) -> None:
    """Raise unless a file carries the identity of the run in whose folder it is."""
    if values.get("run") != identity:
        raise CheckpointError(
            f"{place} belongs to another run than {RUN} beside it: its field `run` is {str(values.get('run'))[:40]!r}, "
            f"not {identity!r}. Bring back the file that was there."
        )


def write_json(path: Path, content: Any) -> None:
    """Write a JSON file as a whole."""
    with replaced(path) as temporary:
        temporary.write_text(json.dumps(content, indent=2, allow_nan=False) + "\n", encoding="utf-8")


def read_json(path: Path) -> Any:
    """Read a JSON file of a run."""
    if not path.exists():
        message = f"There is no run in {path.parent}, or not a whole one: {path.name} is missing."
        inside = sorted(found.parent.name for found in path.parent.glob(f"*/{path.name}"))
        if inside:
            message += f" There are runs inside of it, such as {path.parent / inside[0]}."
        raise CheckpointError(message)
    return parse_json(read_text(path), str(path))


def digest(tensors: Mapping[str, Tensor]) -> str:
    """Return the SHA-256 of tensors with their names, types and shapes."""
    found = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name]
        found.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        found.update(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return found.hexdigest()
