"""Whether the output for an input is the same whatever else is in the batch and whatever was run before.

Each input is run alone; then all of them are run together, repeated as often as fills a batch, and in small groups in
another order. Outputs must agree, and each layer must see as many positions of each input.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from lila.curvature.audit.positions import check_positions
from lila.curvature.audit.subject import Subject, differ, memory_error, mixing_error
from lila.curvature.layers import Layer
from lila.errors import ModelError

_GROUP = 3
_AGAIN = 12  # inputs of a batch in which many are run again


def check_together(subject: Subject, original: nn.Module, at_once: int = 0) -> None:
    """Raise ModelError if inputs influence each other, or later ones depend on earlier ones.

    Args:
        subject: the network under audit.
        original: the network that it is a copy of, which was not run.
        at_once: the number of inputs of the largest batch, if it is more than there are.
    """
    views = subject.views
    runs = [_counted(subject, view[None]) for view in views]
    alone = torch.cat([outputs for outputs, _ in runs])
    again, _ = _counted(subject, views[:1])
    if differ(again, alone[:1], subject):
        raise memory_error(_first_difference(subject, views[:1], views[:1], 0))
    with torch.no_grad():
        without, _ = _counted(subject, views[-1:])
    if differ(without, alone[-1:], subject):
        raise ModelError(
            "The output of the network is another one under torch.no_grad(): it asks whether gradients are computed. "
            "Predictions would be made by another network than the one whose evidence this is. Let it do the same in "
            "both cases."
        )
    _check_positions(subject.layers, [positions for _, positions in runs])
    for group in _groups(len(views), at_once, views.device):
        outputs, positions = _counted(subject, views[group])
        differing = differ(outputs, alone[group], subject)
        if differing:
            raise _explained(subject, original, group, outputs, alone)
        if not any(p % len(group) for p in positions):  # if so, the recording says which layer's rows do not match
            _check_positions(subject.layers, [[p // len(group) for p in positions], runs[0][1]])


@torch.no_grad()
def check_neighbours(subject: Subject, at_once: int) -> None:
    """Raise ModelError if the outputs for many inputs change with their neighbours in the batch.

    It takes four runs, so it can be made for many more inputs than `check_together`, among which may be some that the
    network treats otherwise.

    Args:
        subject: the network under audit, with its many inputs.
        at_once: the number of inputs of a batch.
    """
    count = len(subject.views)
    order = torch.randperm(count, generator=torch.Generator().manual_seed(0)).to(subject.views.device)
    outputs = torch.cat([subject.run(part) for part in subject.views.split(at_once)])
    for arranged in (order, order.flip(0), order.roll(count // 2)):
        others = torch.cat([subject.run(part) for part in subject.views[arranged].split(_AGAIN)])
        if differ(others, outputs[arranged], subject):
            raise mixing_error()


def _groups(count: int, at_once: int, device: torch.device) -> list[Tensor]:
    """Indices of inputs that are run together: all, repeated to fill a batch, and small groups in another order."""
    generator = torch.Generator().manual_seed(0)
    repeated = torch.randint(count, (max(at_once - count, 0),), generator=generator)
    backwards = torch.arange(count).flip(0)
    return [group.to(device) for group in (torch.cat([torch.arange(count), repeated]), *backwards.split(_GROUP))]


def _counted(subject: Subject, views: Tensor) -> tuple[Tensor, list[int]]:
    """Return the outputs for some inputs, and the number of positions at which each layer acted."""
    counts = [0] * len(subject.layers)

    def begin(*_: Any) -> None:  # again, if the network is run anew in another memory layout
        counts[:] = [0] * len(counts)

    def count(position: int, layer: Layer) -> Callable[..., None]:
        def hook(module: nn.Module, args: tuple[Any, ...], output: Tensor) -> None:
            rows, positions = layer.rule.outputs(module, output).shape[:2] if len(output) else (0, 0)
            counts[position] += rows * positions

        return hook

    hooks: list[Any] = [subject.net.register_forward_pre_hook(begin)]
    for position, layer in enumerate(subject.layers):
        hooks.append(layer.module.register_forward_hook(count(position, layer)))
    try:
        return subject.run(views.detach().requires_grad_()).detach(), counts  # as in a pass
    finally:
        for hook in hooks:
            hook.remove()


def _check_positions(layers: tuple[Layer, ...], positions: list[list[int]]) -> None:
    for layer, *counts in zip(layers, *positions, strict=True):
        check_positions(layer, min(counts), max(counts))


def _explained(subject: Subject, original: nn.Module, group: Tensor, outputs: Tensor, alone: Tensor) -> ModelError:
    """Return the error for outputs that differ: either the network remembers inputs, or it mixes those of a batch."""
    gaps = (outputs - alone[group]).abs().amax(1)
    row = int(gaps.argmax())
    index = int(group[row])
    weights = dict(subject.net.named_parameters())
    if subject.is_copy:
        fresh = Subject.of(original, subject.layers, subject.views)
        fresh.net.to(subject.views.dtype).load_state_dict(weights, strict=False)
        if differ(fresh.run(subject.views[index : index + 1]).detach(), alone[index : index + 1], subject):
            return memory_error()
    where = _first_difference(subject, subject.views[group], subject.views[index : index + 1], row)
    return mixing_error(where)


@dataclass
class _Trail:
    """What the modules of a network were given and returned, in the order in which they finished."""

    calls: list[tuple[str, Tensor | None, Tensor]] = field(default_factory=list)

    def attach(self, net: nn.Module) -> list[Any]:
        """Hooks that note every call, to be removed after the run."""
        hooks: list[Any] = [net.register_forward_pre_hook(lambda *_: self.calls.clear())]
        for name, module in net.named_modules():
            shown = f"{repr(name) if name else 'the network'} ({type(module).__name__})"
            hooks.append(module.register_forward_hook(self._note(shown)))
        return hooks

    def _note(self, name: str) -> Callable[..., None]:
        def hook(module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
            if isinstance(output, Tensor):
                given = args[0].detach().clone() if args and isinstance(args[0], Tensor) else None
                self.calls.append((name, given, output.detach().clone()))

        return hook


def _first_difference(subject: Subject, together: Tensor, one: Tensor, row: int) -> str | None:
    """Where the run of a batch begins to differ, at one of its rows, from the run of that input alone."""
    trails = []
    for views in (one, together):
        trail = _Trail()
        hooks = trail.attach(subject.net)
        try:
            subject.run(views)
        finally:
            for hook in hooks:
                hook.remove()
        trails.append(trail.calls)

    def deviates(alone: Tensor | None, batch: Tensor | None) -> bool:
        if alone is None or batch is None or not alone.is_floating_point():
            return False
        if not len(batch) or len(batch) % len(together) or batch.numel() != alone.numel() * len(together):
            return True
        rows = batch.reshape(len(together), -1)[row]
        return bool((rows - alone.reshape(-1)).abs().max() > subject.tolerance() * alone.abs().max())

    for (name, given, made), (other, given_batch, made_batch) in zip(*trails, strict=False):
        if name != other or deviates(made, made_batch):
            return f", before {name} runs" if name != other or deviates(given, given_batch) else f", inside {name}"
    return None
