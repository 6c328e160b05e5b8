"""The paper's networks, and a few more, each adapted to the shape of the images and the number of classes."""

from lila.networks.registry import MODELS, ModelName, make_model
from lila.networks.resnet import FixupResNet, WideFixupResNet
from lila.networks.vit import ViT

__all__ = ["MODELS", "FixupResNet", "ModelName", "ViT", "WideFixupResNet", "make_model"]
