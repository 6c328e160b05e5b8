"""Ways to damage the files of a run."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save, save_file

from lila.training.checkpoint import digest

Change = Callable[[Any], Any]


def _can_be_saved(dtype: torch.dtype) -> bool:
    try:
        save({"tensor": torch.zeros(1, dtype=dtype)})
    except KeyError:
        return False
    return True


COMPLEX = (torch.complex64,) if _can_be_saved(torch.complex64) else ()
"""The complex type of tensors, if safetensors knows it, as it does from version 0.7 on."""


def change(path: Path, how: Change) -> None:
    """Change the JSON of a file, or of the first line of a history."""
    lines = path.read_text().splitlines() if path.suffix == ".jsonl" else [path.read_text()]
    path.write_text("\n".join([json.dumps(how(json.loads(lines[0]))), *lines[1:]]) + "\n")


def put(*names: str, value: Any) -> Change:
    """A change that puts a value at a path of names."""

    def how(content: Any) -> Any:
        part = content
        for name in names[:-1]:
            part = part[name]
        part[names[-1]] = value
        return content

    return how


def without(*names: str) -> Change:
    """A change that leaves out what is at a path of names."""

    def how(content: Any) -> Any:
        part = content
        for name in names[:-1]:
            part = part[name]
        del part[names[-1]]
        return content

    return how


def checkpoint(folder: Path) -> tuple[dict[str, torch.Tensor], dict[str, str]]:
    path = folder / "checkpoint.safetensors"
    with safe_open(path, framework="pt") as file:
        return load_file(path), dict(file.metadata())


def put_checkpoint(folder: Path, tensors: dict[str, torch.Tensor], metadata: dict[str, str]) -> None:
    save_file(tensors, folder / "checkpoint.safetensors", metadata | {"sha256": digest(tensors)})
