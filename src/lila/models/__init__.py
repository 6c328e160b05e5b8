"""The paper's networks, and a few more, each adapted to the shape of the images and the number of classes."""

from lila.models.registry import MODELS, ModelName, make_model
from lila.models.resnet import FixupResNet, WideFixupResNet
from lila.models.vit import ViT

__all__ = ["MODELS", "FixupResNet", "ModelName", "ViT", "WideFixupResNet", "make_model"]
