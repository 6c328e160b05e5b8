"""Checkpoints: one safetensors file that is replaced as a whole, and the history as JSON lines beside it.

- `settings.json`: the settings of the run.
- `model.json`: the architecture, as far as it can be described.
- `result.json`: what a finished run reports.
- `history.jsonl`: one record per epoch; lines beyond the checkpoint's epoch are ignored.
- `checkpoint.safetensors`: the state, with its epoch in the file's metadata.
"""

import json
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from lila._util.files import replaced
from lila.errors import LilaError
from lila.training.settings import ResolvedSettings

FORMAT = "lila-checkpoint-1"
SETTINGS, MODEL, RESULT = "settings.json", "model.json", "result.json"
HISTORY, CHECKPOINT = "history.jsonl", "checkpoint.safetensors"


class CheckpointError(LilaError):
    """A checkpoint is missing, damaged, or of something else."""


def write_json(path: Path, content: Any) -> None:
    """Write a JSON file as a whole."""
    with replaced(path) as temporary:
        temporary.write_text(json.dumps(content, indent=2) + "\n")


def read_json(path: Path) -> Any:
    """Read a JSON file of a run."""
    if not path.exists():
        raise CheckpointError(f"There is no run in {path.parent}, or not a whole one: {path.name} is missing.")
    try:
        return json.loads(path.read_text())
    except ValueError as error:
        raise CheckpointError(f"{path} is damaged and cannot be read: {error}") from error


def read_settings(folder: Path) -> ResolvedSettings:
    """Read the settings of a run."""
    values = read_json(folder / SETTINGS)
    try:
        missing = [name for name in ("method", "epochs", "samples", "seed") if name not in values]
        if missing:
            raise ValueError(f"{missing[0]} is missing")
        return ResolvedSettings.from_dict(values)
    except (ValueError, TypeError) as error:
        raise CheckpointError(f"{folder / SETTINGS} does not hold settings: {error}") from error


def write_checkpoint(folder: Path, tensors: dict[str, Tensor], epoch: int, history: list[dict[str, Any]]) -> None:
    """Write the history, then the state; a crash in between leaves the last state and a history that goes beyond it."""
    with replaced(folder / HISTORY) as path:
        path.write_text("".join(json.dumps(record) + "\n" for record in history))
    with replaced(folder / CHECKPOINT) as path:
        contiguous = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
        save_file(contiguous, path, metadata={"format": FORMAT, "epoch": str(epoch)})


def read_checkpoint(folder: Path) -> tuple[dict[str, Tensor], int, list[dict[str, Any]]]:
    """The state, its epoch and the history up to it."""
    path = folder / CHECKPOINT
    if not path.exists():
        raise CheckpointError(f"There is no checkpoint in {folder}: {CHECKPOINT} is missing.")
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{path} is damaged and cannot be read: {error}") from error
    if metadata.get("format") != FORMAT:
        raise CheckpointError(f"{path} is not a checkpoint of lila: its format is {metadata.get('format')!r}.")
    epoch = int(metadata["epoch"])
    history_path = folder / HISTORY
    try:
        lines = history_path.read_text().splitlines()[:epoch]
        history = [json.loads(line) for line in lines]
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{history_path} is missing or damaged: {error}") from error
    if len(history) < epoch:
        raise CheckpointError(f"{history_path} has {len(history)} records, but the checkpoint is of epoch {epoch}.")
    return tensors, epoch, history
