"""Modules as plain data, so that a saved run can be opened without its code and without unpickling anything.

What can be described: the layers of `torch.nn` that are listed here, `nn.Sequential` of such, registered families of
augmentations, and lila's own modules, which return their arguments by a method `arguments`. Any other module has no
description, and whoever loads its run must bring it. A description comes from a file, so `build` makes no other class,
passes nothing but plain values, and `build_like` compares the parameters with those of the checkpoint before it
allocates any.
"""

import inspect
import json
from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any

import torch
from torch import Tensor, nn

from lila import networks
from lila._util.allocation import Allocation
from lila._util.memory import readable_bytes
from lila.augment import Augmentation, Compose
from lila.augment.registry import build_augmentation, describe_augmentation
from lila.errors import CheckpointError, LilaError
from lila.model import fixup, likelihood
from lila.training.schema import at

Description = dict[str, Any]

_LAYERS = (
    "Linear", "Bilinear", "Identity", "Flatten", "Unflatten", "PixelShuffle", "PixelUnshuffle", "ChannelShuffle",
    "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d",
    "MaxPool1d", "MaxPool2d", "MaxPool3d", "AvgPool1d", "AvgPool2d", "AvgPool3d", "LPPool1d", "LPPool2d",
    "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d", "AdaptiveMaxPool1d", "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d", "LayerNorm", "GroupNorm", "RMSNorm", "LocalResponseNorm",
    "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d", "BatchNorm1d", "BatchNorm2d", "BatchNorm3d",
    "ReLU", "ReLU6", "LeakyReLU", "PReLU", "ELU", "SELU", "CELU", "GELU", "SiLU", "Mish", "Tanh", "Tanhshrink",
    "Sigmoid", "LogSigmoid", "Softplus", "Softsign", "Softmax", "LogSoftmax", "Softmin", "Softshrink", "Hardshrink",
    "Hardtanh", "Hardsigmoid", "Hardswish", "Threshold", "GLU",
    "ZeroPad1d", "ZeroPad2d", "ZeroPad3d", "ConstantPad1d", "ConstantPad2d", "ReflectionPad1d", "ReflectionPad2d",
    "ReplicationPad1d", "ReplicationPad2d", "CircularPad1d", "CircularPad2d", "Upsample",
    "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "AlphaDropout",
)  # fmt: skip
_OWN = (
    Compose,
    fixup.Bias,
    fixup.Scale,
    likelihood.Bernoulli,
    likelihood.Categorical,
    likelihood.Gaussian,
    networks.FixupResNet,
    networks.ViT,
    networks.WideFixupResNet,
)
_CLASSES: dict[str, type[nn.Module]] = {
    **{f"torch.nn.{name}": getattr(nn, name) for name in ("Sequential", *_LAYERS)},
    **{f"lila.{cls.__name__}": cls for cls in _OWN},
}
"""The only classes that a description can name."""
_CONTAINERS = (nn.Sequential, Compose)
_NOT_ARGUMENTS = ("device", "dtype", "self", "args", "kwargs")

_MOST_WHOLE = 2**31  # of a whole number among the arguments
_MOST_OF_OWN = 2**16  # of one among the arguments of lila's own modules
_MOST_DEPTH = 2**10  # layers of lila's own networks
_MOST_TEXT = 100  # characters
_MOST_OF_MESSAGE = 300  # characters of an error that says what was wrong
_MOST_BUFFERS = 2**28  # bytes of what a network holds beside the tensors of its checkpoint
_MOST_OF_EXAMPLE = 2**32  # bytes that a forward pass of one example may take


@dataclass(frozen=True)
class Architecture:
    """The modules of a run as plain data, each None if it cannot be described.

    Attributes:
        net: the network.
        augmentation: the distribution of transformations.
        likelihood: the likelihood of the targets.
        samples: the number of transformations that the network is averaged over.
    """

    net: Description | None
    augmentation: Description | None
    likelihood: Description | None
    samples: int


def describe(module: nn.Module) -> Description | None:
    """Return a module's class and arguments, or None if it cannot be made again from them."""
    if isinstance(module, Augmentation) and not isinstance(module, Compose):
        return describe_augmentation(module)
    name = next((name for name, cls in _CLASSES.items() if cls is type(module)), None)
    if name is None:
        return None
    if isinstance(module, _CONTAINERS):
        parts = module.parts if isinstance(module, Compose) else module
        children = {key: describe(child) for key, child in parts.named_children()}
        return None if None in children.values() else {"class": name, "children": children}
    if isinstance(module, _OWN):
        own: dict[str, Any] | None = getattr(module, "arguments", dict)()
        return None if own is None else {"class": name, "arguments": own}
    description = {"class": name, "arguments": _arguments(module)}
    return description if _makes(description, module) else None


def build(description: Any, place: str = "The description", kind: type[nn.Module] = nn.Module) -> nn.Module:
    """Make the module of a description, freshly initialised.

    Args:
        description: as `describe` returns it; nothing is taken for granted of it.
        place: the file and the field that it comes from, for messages.
        kind: the class that the module must be of; checked before it is made, and of its children too.
    """
    if isinstance(description, dict) and "family" in description and issubclass(Augmentation, kind):
        return _build_family(description, place)
    if not isinstance(description, dict) or not isinstance(description.get("class"), str):
        raise CheckpointError(f"{place} does not describe a module: it must be an object with a field `class`.")
    cls = _CLASSES.get(description["class"])
    if cls is None:
        raise CheckpointError(
            f"{place} names a module {description['class'][:40]!r} that is neither of torch.nn nor of lila, or is none "
            "of the layers that are made from a description."
        )
    if not issubclass(cls, kind):
        raise CheckpointError(f"{place} must describe a module of the kind {kind.__name__}, not a {cls.__name__}.")
    if cls in _CONTAINERS:
        children = description.get("children")
        if not isinstance(children, dict):
            raise CheckpointError(f"{place}.children must be a JSON object.")
        return _container(cls, {key: build(child, at(place, key), kind) for key, child in children.items()}, place)
    arguments = _checked_arguments(cls, description.get("arguments"), place)
    try:
        return cls(**arguments)
    except (LilaError, TypeError, ValueError, RuntimeError, ArithmeticError, AssertionError) as error:
        raise CheckpointError(f"{place} cannot be made: {_first_line(error)}") from error


def build_like(description: Any, tensors: Mapping[str, Tensor], place: str) -> nn.Module:
    """Make the network of a description, after checking that its parameters have the shapes of these tensors.

    Args:
        description: as `describe` returns it.
        tensors: the parameters and buffers of the network by name, as a checkpoint holds them.
        place: the file and the field that the description comes from, for messages.
    """
    with torch.device("meta"):  # where parameters have shapes but no memory
        planned = build(description, place)
    shapes = {name: tuple(tensor.shape) for name, tensor in planned.state_dict().items()}
    for name in sorted(shapes.keys() | tensors.keys()):
        found = tuple(tensors[name].shape) if name in tensors else None
        if shapes.get(name) != found:
            raise CheckpointError(
                f"{place} describes a network whose {name!r} has shape {shapes.get(name)}, but in the checkpoint it is "
                f"{found}: they do not belong together."
            )
    extra = sum(buffer.nbytes for buffer in planned.buffers())
    if extra > _MOST_BUFFERS:
        raise CheckpointError(f"{place} describes a network with {readable_bytes(extra)} of buffers, which is refused.")
    return build(description, place)


def count_outputs(description: Any, shape: tuple[int, ...], place: str) -> int:
    """Return the number of outputs of a described network, without memory for it.

    Raises:
        CheckpointError: it takes no inputs of that shape, or the memory of one input is out of all proportion.
    """
    with torch.device("meta"), torch.no_grad(), Allocation() as allocation:
        planned = build(description, place).eval()
        try:
            outputs = planned(torch.empty(1, *shape))
        except (LilaError, TypeError, ValueError, RuntimeError, IndexError, ArithmeticError) as error:
            raise CheckpointError(
                f"{place} describes a network that does not take inputs of shape {shape}: {_first_line(error)}"
            ) from error
    if allocation.peak > _MOST_OF_EXAMPLE:
        raise CheckpointError(
            f"{place} describes a network that takes {readable_bytes(allocation.peak)} for a single input, which is "
            "refused."
        )
    if not isinstance(outputs, Tensor) or outputs.dim() != 2:
        raise CheckpointError(f"{place} describes a network that does not return a row of outputs for each input.")
    return int(outputs.shape[1])


def check_plain(value: Any, place: str, most: int = _MOST_WHOLE) -> None:
    """Raise unless a value is None, a truth value, a bounded number, a short text, or a short list of such."""
    if isinstance(value, list):
        if len(value) > 16:
            raise CheckpointError(f"{place} must have at most 16 entries, but has {len(value)}.")
        for i, part in enumerate(value):
            check_plain(part, f"{place}[{i}]", most)
        return
    right = value is None or isinstance(value, bool)
    right |= isinstance(value, int | float) and isfinite(value) and abs(value) <= most
    right |= isinstance(value, str) and len(value) <= _MOST_TEXT
    if not right:
        shown = json.dumps(value)[:40]
        raise CheckpointError(
            f"{place} must be a number of at most {most}, a short text or a list of such, not {shown}."
        )


def _checked_arguments(cls: type[nn.Module], arguments: Any, place: str) -> dict[str, Any]:
    """Return the arguments of a class as it takes them, if they are plain and it has arguments of these names."""
    if not isinstance(arguments, dict):
        raise CheckpointError(f"{place}.arguments must be a JSON object.")
    names = [name for name in inspect.signature(cls).parameters if name not in _NOT_ARGUMENTS]
    own = cls in _OWN
    for name, value in arguments.items():
        if name not in names:
            raise CheckpointError(f"{at(f'{place}.arguments', name)} is no argument of {cls.__name__}.")
        most = _MOST_DEPTH if name == "depth" else _MOST_OF_OWN if own else _MOST_WHOLE
        check_plain(value, f"{place}.arguments.{name}", most)
    return {name: tuple(v) if isinstance(v, list) and not own else v for name, v in arguments.items()}


def _build_family(description: dict[str, Any], place: str) -> Augmentation:
    """Make an augmentation of a registered family from plain arguments."""
    family, arguments = description["family"], description.get("arguments")
    if not isinstance(family, str) or not isinstance(arguments, dict):
        raise CheckpointError(f"{place} does not describe an augmentation by the name of a family and its arguments.")
    for name, value in arguments.items():
        check_plain(value, at(f"{place}.arguments", name), _MOST_OF_OWN)
    try:
        return build_augmentation(description)
    except (LilaError, TypeError, ValueError, RuntimeError, ArithmeticError) as error:
        raise CheckpointError(f"{place} cannot be made: {_first_line(error)}") from error


def _container(cls: type[nn.Module], children: dict[str, nn.Module], place: str) -> nn.Module:
    try:
        if cls is nn.Sequential:
            made = nn.Sequential()
            for key, child in children.items():
                made.add_module(key, child)
            return made
        return cls(*children.values())
    except (KeyError, TypeError, AttributeError) as error:  # a name with a dot, or a part that is no augmentation
        raise CheckpointError(f"{place} cannot be made: {_first_line(error)}") from error


def _arguments(module: nn.Module) -> dict[str, Any]:
    """Return the arguments that would make a layer of torch.nn again, read off its attributes."""
    arguments = {}
    for name, parameter in inspect.signature(type(module)).parameters.items():
        if name in _NOT_ARGUMENTS or not hasattr(module, name):
            continue
        value = getattr(module, name)
        if isinstance(value, Tensor) or (value is None and isinstance(parameter.default, bool)):
            value = value is not None  # `bias=True` leaves a parameter named bias, `bias=False` leaves None
        arguments[name] = list(value) if isinstance(value, tuple) else value
    return arguments


def _makes(description: Description, module: nn.Module) -> bool:
    """Whether a description makes a module of the same arguments and parameters."""
    try:
        with torch.device("meta"):
            made = build(json.loads(json.dumps(description)))
    except (CheckpointError, TypeError, ValueError):
        return False
    shapes = {name: p.shape for name, p in module.state_dict().items()}
    return repr(made) == repr(module) and {name: p.shape for name, p in made.state_dict().items()} == shapes


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:_MOST_OF_MESSAGE]
