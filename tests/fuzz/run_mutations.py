"""Ways to damage the files of a run that get past its checks of form: other JSON values, other tensors, sealed anew."""

import json
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import torch
from mutations import flip_bits
from safetensors import SafetensorError, safe_open
from safetensors.torch import load, save

from damage import COMPLEX
from lila.training.checkpoint import digest

NUMBERS = (0, 1, -1, 2, 31, 10**5, 2**31, 2**53, 10**400, 0.5, -0.0, 1e-320, 1e38, 1e308, float("nan"), float("inf"))
TEXTS = (
    "",
    "lila",
    "kron",
    "mlp",
    "os:system",
    "../..",
    "x" * 200,
    "$(x)",
    "<b>",
    "\n",
    "\x00",
    "\ud800",
    "\udcff",
    "é",
)
VALUES: tuple[Any, ...] = (
    None,
    True,
    False,
    *NUMBERS,
    *TEXTS,
    [],
    {},
    [[]],
    [None],
    [0],
    [1, 8, 8],
    [2**40],
    {"class": "torch.nn.LSTM"},
)
DTYPES = (torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.bool, *COMPLEX)
Place = tuple[Any, Any]
"""A list or an object, and the index or the name of one of its values."""


def inside_a_run(content: bytes, random: Random) -> bytes:
    """Change a value of a JSON file or of a line of one, or a tensor or an entry of a checkpoint."""
    if content.startswith(b"{"):
        return _inside_json(content, random)
    return _inside_checkpoint(content, random)


def _inside_json(content: bytes, random: Random) -> bytes:
    try:
        whole = json.loads(content)
        return json.dumps(_changed(whole, random), indent=2).encode()
    except ValueError:
        pass
    lines = content.splitlines()
    number = random.randrange(len(lines))
    try:
        lines[number] = json.dumps(_changed(json.loads(lines[number]), random)).encode()
    except ValueError:  # damaged before
        return flip_bits(content, random)
    if random.random() < 0.1:
        lines.insert(random.randrange(len(lines) + 1), random.choice(lines))
    return b"\n".join(lines) + b"\n"


def _changed(value: Any, random: Random) -> Any:
    """A JSON value with one to three of its parts changed, removed, added or put elsewhere."""
    for _ in range(random.choice((1, 1, 2, 3))):
        places = list(_places(value))
        if not places:
            return _odd_value(random)
        parent, key = random.choice(places)
        chance = random.random()
        if chance < 0.6:
            parent[key] = _odd_value(random)
        elif chance < 0.7:
            del parent[key]
        elif chance < 0.8:
            other, other_key = random.choice(places)
            parent[key] = deepcopy(other[other_key])
        elif chance < 0.9:
            parent[key] = _nested(parent[key], random.choice((1, 3, 31, 200)), random)
        elif isinstance(parent, dict):
            parent[random.choice((*TEXTS, "class", "children", "device"))] = _odd_value(random)
        else:
            parent.extend(_odd_value(random) for _ in range(random.choice((1, 20))))
    return value


def _odd_value(random: Random) -> Any:
    return deepcopy(random.choice(VALUES))  # as it may be changed again


def _places(value: Any) -> Iterator[Place]:
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in list(children):
        yield value, key
        yield from _places(child)


def _nested(value: Any, levels: int, random: Random) -> Any:
    for _ in range(levels):
        value = [value] if random.random() < 0.5 else {"net": value}
    return value


def _inside_checkpoint(content: bytes, random: Random) -> bytes:
    """Change a tensor or an entry of the metadata; the checksum is right again, most of the time."""
    try:
        tensors = load(content)
        metadata = _metadata(content)
    except (SafetensorError, ValueError, OSError):  # damaged before
        return flip_bits(content, random)
    if not tensors:
        return flip_bits(content, random)
    name = random.choice(sorted(tensors))
    chance = random.random()
    if chance < 0.75:
        tensors |= {name: _other_tensor(tensors[name], random)}
    elif chance < 0.8:
        del tensors[name]
    elif chance < 0.85:
        tensors[random.choice(TEXTS[:8])] = tensors.pop(name)
    else:
        text = random.choice((*map(str, NUMBERS), *TEXTS)).encode(errors="ignore").decode()
        metadata[random.choice(sorted(metadata) or ["epoch"])] = text
    seal = {"sha256": digest(tensors)} if random.random() < 0.9 else {}
    return in_order(save(tensors, metadata | seal))


def in_order(content: bytes) -> bytes:
    """Sort the entries of the header of a safetensors file, whose order is otherwise another in each process."""
    size = int.from_bytes(content[:8], "little")
    header = json.dumps(json.loads(content[8 : 8 + size]), sort_keys=True, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)
    return len(header).to_bytes(8, "little") + header + content[8 + size :]


def _metadata(content: bytes) -> dict[str, str]:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "checkpoint"
        path.write_bytes(content)
        with safe_open(path, framework="pt") as file:
            return dict(file.metadata() or {})


def _other_tensor(tensor: torch.Tensor, random: Random) -> torch.Tensor:
    chance, changed = random.random(), (tensor.real if tensor.is_complex() else tensor).clone()
    if chance < 0.3 and changed.numel():
        value = random.choice((float("nan"), float("inf"), 1e38, -1e38, 1e-38, 0.0, 1e6))
        changed.view(-1)[random.randrange(changed.numel())] = value if changed.is_floating_point() else 7
    elif chance < 0.5 and changed.is_floating_point():
        changed.fill_(random.choice((1e38, -1e38, 1e20, 1e6, 0.0)))
    elif chance < 0.7:
        changed = changed.to(random.choice(DTYPES))
    elif chance < 0.85:
        changed = changed.flatten()[: random.randrange(changed.numel() + 1)].clone()
    else:
        changed = torch.zeros(random.choice(((), (0,), (1,), (2, 0), (3, 3, 3), (2**16,))))
    return changed
