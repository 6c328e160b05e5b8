"""Networks of timm, the library of PyTorch image models, by name."""

from difflib import get_close_matches
from types import ModuleType

from torch import nn

from lila.errors import ModelError
from lila.model.statistics import convert_batch_norm
from lila.networks.plain import Shape

PREFIX = "timm:"
"""What the name of such a network begins with."""


def make_timm_network(name: str, shape: Shape, outputs: int) -> nn.Module:
    """Make a network of timm with random weights, in which group norm takes the place of batch norm.

    Args:
        name: its name in timm, such as "resnet18".
        shape: (channels, height, width) of the images.
        outputs: number of classes.
    """
    timm = _imported_timm()
    if not timm.is_model(name):
        close = get_close_matches(name, timm.list_models(), n=5)
        raise ModelError(
            f"timm has no network named {name!r}."
            + (f" Similar names are {', '.join(close)}." if close else " timm.list_models() lists its networks.")
        )
    options = {"pretrained": False, "in_chans": shape[0], "num_classes": outputs}
    try:
        net: nn.Module = timm.create_model(name, img_size=shape[1:], **options)
    except TypeError:  # it takes images of any size, and has no such argument
        net = timm.create_model(name, **options)
    return convert_batch_norm(net)


def _imported_timm() -> ModuleType:
    try:
        import timm
    except (ImportError, RuntimeError) as error:  # the latter if torchvision, which timm imports, does not fit torch
        raise ModelError(
            f"Networks of timm need the timm library, which could not be imported ({type(error).__name__}: {error}). "
            "Install it with: pip install 'lila-torch[timm]'. If torchvision is the cause, install the version of it "
            "that was built for this version of torch."
        ) from error
    module: ModuleType = timm
    return module
