"""Checkpoints: one safetensors file that is replaced as a whole, and the history as JSON lines beside it.

- `settings.json`: the settings of the run.
- `history.jsonl`: one record per epoch; lines beyond the checkpoint's epoch are ignored.
- `checkpoint.safetensors`: the state, with its epoch in the file's metadata.
"""

import json
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from lila.errors import LilaError
from lila.files import replaced
from lila.training.settings import Settings

FORMAT = "lila-checkpoint-1"
SETTINGS, HISTORY, CHECKPOINT = "settings.json", "history.jsonl", "checkpoint.safetensors"


class CheckpointError(LilaError):
    """A checkpoint is missing, damaged, or of something else."""


def write_settings(folder: Path, settings: Settings) -> None:
    """Write the settings of a run."""
    with replaced(folder / SETTINGS) as path:
        path.write_text(settings.to_json() + "\n")


def read_settings(folder: Path) -> Settings:
    """Read the settings of a run."""
    path = folder / SETTINGS
    if not path.exists():
        raise CheckpointError(f"There is no run in {folder}: {SETTINGS} is missing.")
    try:
        return Settings.from_json(path.read_text())
    except (ValueError, TypeError) as error:
        raise CheckpointError(f"{path} cannot be read as settings: {error}") from error


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
