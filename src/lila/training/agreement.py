"""Processes of one run make sure that they were started alike, and begin from the same state."""

import hashlib
from dataclasses import asdict
from typing import Any

import torch

from lila._util.ranks import Ranks
from lila.data.examples import Data, Examples
from lila.training.settings import ResolvedSettings
from lila.training.state import State

_COMPARED = 16  # examples that are compared
_OWN = ("microbatch", "memory")  # settings that depend on the machine


def start_alike(state: State, settings: ResolvedSettings, data: Data, ranks: Ranks) -> None:
    """Check that all processes of a run were started alike, and give them the first one's state.

    Raises:
        ArgumentError: they were started with different settings or data, or read different checkpoints.
    """
    if ranks.count > 1:
        with ranks.together(next(state.model.parameters()).device):
            mine = started_with(state, settings, data)
        ranks.check_same(mine)
        ranks.send_(list(state.tensors().values()), source=0)  # whatever weights each began with


def started_with(state: State, settings: ResolvedSettings, data: Data) -> dict[str, Any]:
    """Return by name what must be the same in all processes: of the data, its length and a few of its examples."""
    examples = Examples(data)
    some = torch.linspace(0, len(examples) - 1, min(len(examples), _COMPARED)).long()
    digest = hashlib.sha256()
    for batch in examples.batches(len(some), some):
        digest.update(batch.x.double().cpu().numpy().tobytes() + batch.y.double().cpu().numpy().tobytes())
    modules = state.model.net, state.model.augmentation, state.likelihood, state.prior
    shapes = [repr(modules), *((n, tuple(t.shape), t.dtype) for n, t in state.tensors().items())]
    return {
        "settings": {name: value for name, value in asdict(settings).items() if name not in _OWN},
        "choices of the microbatch": settings.microbatch is None,
        "numbers of examples": len(examples),
        "examples": digest.hexdigest()[:12],
        "epochs done": state.epoch,
        "networks": hashlib.sha256(repr(shapes).encode()).hexdigest()[:12],
    }
