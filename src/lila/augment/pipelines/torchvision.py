"""A learned transform as one of torchvision's (`torchvision.transforms.v2`)."""

from typing import Any

from torchvision.transforms import v2

from lila.augment.pipelines.learned import LearnedTransform
from lila.augment.pipelines.samples import leaf_kinds


class Learned(v2.Transform):  # type: ignore[misc]
    """A learned transform for `torchvision.transforms.v2` pipelines.

    Unlike torchvision's own transforms it transforms the images of a batch independently.

    Args:
        transform: the learned transform.
    """

    def __init__(self, transform: LearnedTransform) -> None:
        super().__init__()
        self.learned = transform

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        """Draw the noise of one sample."""
        return {"noise": self.learned.draw(self.learned.batch_size(flat_inputs, leaf_kinds(flat_inputs)))}

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Transform one part of a sample."""
        (kind,) = leaf_kinds([inpt])
        return self.learned.transform(inpt, kind, params["noise"])
