"""The networks by name, and those of the user by the name of the function that makes them."""

from collections.abc import Callable
from enum import StrEnum

import torch
from torch import nn

from lila._util.choices import choose
from lila._util.imports import import_by_path
from lila.errors import ModelError
from lila.networks.plain import Shape, cnn, image_shape, lenet, mlp
from lila.networks.points import pointnet
from lila.networks.resnet import FixupResNet, WideFixupResNet
from lila.networks.series import cnn1d
from lila.networks.timm_networks import PREFIX, make_timm_network
from lila.networks.vit import ViT

Maker = Callable[[Shape, int], nn.Module]


class ModelName(StrEnum):
    """The networks by name."""

    MLP = "mlp"
    CNN = "cnn"
    LENET = "lenet"
    RESNET_8_8 = "resnet-8-8"
    RESNET_8_16 = "resnet-8-16"
    WRN_10_1 = "wrn-10-1"
    WRN_16_4 = "wrn-16-4"
    VIT = "vit"
    CNN1D = "cnn1d"
    POINTNET = "pointnet"


MODELS: dict[ModelName, tuple[str, Maker]] = {
    ModelName.MLP: ("one hidden layer of 1000 tanh units (paper)", mlp),
    ModelName.CNN: ("3x3 convolutions 16-32-64 with pooling, 256 hidden units, ReLU (paper)", cnn),
    ModelName.LENET: ("convolutions 6-16-120 with pooling, 84 hidden units, tanh (the published results' CNN)", lenet),
    ModelName.RESNET_8_8: (
        "Fixup ResNet of depth 8, 8 to 32 channels (paper)",
        lambda shape, outputs: FixupResNet(image_shape("resnet-8-8", shape)[0], outputs, depth=8, width=8),
    ),
    ModelName.RESNET_8_16: (
        "Fixup ResNet of depth 8, 16 to 64 channels (paper)",
        lambda shape, outputs: FixupResNet(image_shape("resnet-8-16", shape)[0], outputs, depth=8, width=16),
    ),
    ModelName.WRN_10_1: (
        "wide Fixup ResNet of depth 10, 16 to 64 channels",
        lambda shape, outputs: WideFixupResNet(image_shape("wrn-10-1", shape)[0], outputs, depth=10, widening=1),
    ),
    ModelName.WRN_16_4: (
        "wide Fixup ResNet of depth 16, 64 to 256 channels (paper)",
        lambda shape, outputs: WideFixupResNet(image_shape("wrn-16-4", shape)[0], outputs, depth=16, widening=4),
    ),
    ModelName.VIT: (
        "small vision transformer: patches of 4, width 64, 4 blocks of 4 heads",
        lambda shape, outputs: ViT(image_shape("vit", shape), outputs),
    ),
    ModelName.CNN1D: ("for time series: convolutions 16-32-32 of width 5 with pooling, 64 hidden units, ReLU", cnn1d),
    ModelName.POINTNET: ("for sets of points: 64-64 tanh units per point, their mean, 64 hidden units", pointnet),
}


def make_model(name: str, shape: Shape, outputs: int) -> nn.Module:
    """Make a network.

    Args:
        name: one of `MODELS`, "timm:NAME" for a network of timm, or "package.module:function" for your own, which is
            called with the shape of an input and the number of classes, and returns a module.
        shape: (channels, height, width) of the images, or (channels, time) of the series.
        outputs: number of classes.
    """
    if ":" not in name:
        return MODELS[choose(ModelName, name, "network")][1](shape, outputs)
    if name.startswith(PREFIX):
        made = make_timm_network(name.removeprefix(PREFIX), shape, outputs)
        _check_shapes(name, made, shape, outputs)
        return made
    try:
        made = import_by_path(name)(shape, outputs)
    except Exception as error:  # whatever the user's code raises
        raise ModelError(
            f"The network {name!r} could not be made: {type(error).__name__}: {error}. It must be a function in a "
            "module that Python finds, from the current folder or the installed packages; it is called with the shape "
            "of an input, as (channels, height, width) of an image, and the number of classes."
        ) from error
    if not isinstance(made, nn.Module):
        raise ModelError(f"{name} must return a torch.nn.Module, but returned a {type(made).__name__}.")
    _check_shapes(name, made, shape, outputs)
    return made


def _check_shapes(name: str, net: nn.Module, shape: Shape, outputs: int) -> None:
    try:
        with torch.no_grad():
            found = tuple(net(torch.zeros(2, *shape)).shape)
    except Exception as error:  # whatever the user's code raises
        raise ModelError(f"{name} does not take images of shape {shape}: {type(error).__name__}: {error}") from error
    if found != (2, outputs):
        raise ModelError(f"{name} maps two images to {found}, but for {outputs} classes it must be (2, {outputs}).")
