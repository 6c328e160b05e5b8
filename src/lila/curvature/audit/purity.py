"""Whether a network is a function of its input and its weights: no random numbers, no memory, no half precision."""

import random
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from lila.curvature.audit.subject import Subject
from lila.errors import ModelError


def check_pure(subject: Subject) -> Tensor:
    """Raise ModelError if the network draws random numbers, changes its buffers or computes in half precision.

    Returns:
        The outputs of the network.
    """
    if torch.is_autocast_enabled(subject.views.device.type):
        raise ModelError(
            "torch.autocast is on, so the network computes in "
            f"{torch.get_autocast_dtype(subject.views.device.type)}, which is too coarse for the curvature. Ask for "
            "the evidence outside of the autocast region."
        )
    before = {name: tensor.detach().clone() for name, tensor in _state(subject.net)}
    with _generators_put_back(subject.views.device), _Watch(subject.net) as watch:
        states = _foreign_states(subject.net)
        outputs = subject.run(subject.views.detach().requires_grad_())
        drawn = [
            *watch.random,
            *(name for name, state in _foreign_states(subject.net).items() if state != states.get(name)),
        ]
    changed = _put_back(subject.net, before)
    if drawn:
        raise ModelError(
            f"The network draws random numbers ({', '.join(dict.fromkeys(drawn))}), so two runs on the same inputs "
            "give different outputs, and the likelihood is not a function of the weights. Switch that off for the "
            "evidence (dropout, stochastic depth, noise); the prior regularises in its place."
        )
    if changed:
        raise ModelError(
            f"Running the network changed its {changed[0]}, so its outputs depend on what it was given before. Keep "
            "running statistics and the like constant: switch them off, or use eval() if the module then leaves them "
            "as they are."
        )
    if watch.narrow:
        raise ModelError(
            f"The network computes in {watch.narrow[0]}, in which gradients are too coarse for the curvature. Leave "
            "out torch.autocast and casts to half precision for the evidence."
        )
    return outputs.detach()


def _state(net: nn.Module) -> Iterator[tuple[str, Tensor]]:
    yield from ((f"buffer {name!r}", buffer) for name, buffer in net.named_buffers())
    yield from ((f"parameter {name!r}", parameter) for name, parameter in net.named_parameters())


@torch.no_grad()
def _put_back(net: nn.Module, before: dict[str, Tensor]) -> list[str]:
    """Names of the tensors whose values changed; a buffer of another shape than before is a cache."""
    after = dict(_state(net))
    changed = [
        name
        for name, tensor in before.items()
        if name in after and after[name].shape == tensor.shape and not _same(after[name], tensor)
    ]
    for name in changed:
        after[name].copy_(before[name])
    return changed


def _same(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors are equal; a NaN is equal to itself here."""
    return bool(((one == other) | (one.isnan() & other.isnan())).all())


def _foreign_states(net: nn.Module) -> dict[str, Any]:
    """Return the states of the generators that are not PyTorch's, global ones and those that modules keep, by name."""
    states: dict[str, Any] = {"by Python's random module": random.getstate()}
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        kind, keys, *rest = numpy.random.get_state()
        states["by numpy.random"] = (kind, keys.tobytes(), *rest)
    for prefix, module in net.named_modules():
        for name, value in vars(module).items():
            where = f"by the generator {'.'.join(filter(None, (prefix, name)))!r}"
            if isinstance(value, random.Random):
                states[where] = value.getstate()
            elif numpy is not None and isinstance(value, numpy.random.Generator):
                states[where] = repr(value.bit_generator.state)
    return states


@contextmanager
def _generators_put_back(device: torch.device) -> Iterator[None]:
    """Leave every global generator as it was."""
    numpy = sys.modules.get("numpy")
    python_state, numpy_state = random.getstate(), None if numpy is None else numpy.random.get_state()
    with ExitStack() as stack:
        stack.callback(random.setstate, python_state)
        if numpy is not None:
            stack.callback(numpy.random.set_state, numpy_state)
        stack.enter_context(torch.random.fork_rng([device] if device.type == "cuda" else []))
        yield


@dataclass(eq=False)
class _Watch(TorchDispatchMode):
    """Watches every operation of a network.

    Attributes:
        net: the network.
        random: operations that drew random numbers, with the module they ran in.
        narrow: types narrower than float32 that a result was rounded to, with the module.
    """

    net: nn.Module
    random: list[str] = field(default_factory=list)
    narrow: list[str] = field(default_factory=list)
    _inside: list[str] = field(default_factory=list)
    _hooks: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    def __enter__(self) -> "_Watch":
        for name, module in self.net.named_modules():
            where = f"{name!r} ({type(module).__name__})" if name else f"the network ({type(module).__name__})"
            self._hooks.append(module.register_forward_pre_hook(lambda *_, where=where: self._inside.append(where)))
            self._hooks.append(module.register_forward_hook(lambda *_: self._inside.pop() and None))
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *error: Any) -> None:
        for hook in self._hooks:
            hook.remove()
        super().__exit__(*error)  # type: ignore[no-untyped-call]

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        seeded = torch.Tag.nondeterministic_seeded in func.tags
        generators = _generators(args, kwargs) if seeded else []
        states = [generator.get_state() for generator in generators]
        result = func(*args, **kwargs)
        where = f" in {self._inside[-1]}" if self._inside else ""
        if any(not torch.equal(g.get_state(), state) for g, state in zip(generators, states, strict=True)):
            self.random.append(f"by {func.overloadpacket.__name__.rstrip('_')}{where}")
        wide = any(_floats(x) and x.requires_grad and x.element_size() >= 4 for x in tree_leaves((args, kwargs)))
        if wide:
            narrow = [x.dtype for x in tree_leaves(result) if _floats(x) and x.element_size() < 4]
            self.narrow += [f"{dtype}{where}" for dtype in narrow]
        return result


def _floats(x: Any) -> bool:
    return isinstance(x, Tensor) and x.is_floating_point()


def _generators(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[torch.Generator]:
    """Return the generators that an operation may draw from: the one it is given, or the global ones."""
    given = [x for x in tree_leaves((args, kwargs)) if isinstance(x, torch.Generator)]
    if given:
        return given
    on_gpu = torch.cuda.is_available() and torch.cuda.is_initialized()
    return [torch.default_generator, *(torch.cuda.default_generators if on_gpu else ())]
