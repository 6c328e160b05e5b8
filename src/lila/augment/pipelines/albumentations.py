"""A learned transform as one of albumentations'."""

from typing import Any

import numpy as np
import torch
from albumentations.core.transforms_interface import DualTransform
from albumentations.core.type_definitions import Targets

from lila.augment.pipelines.learned import LearnedTransform

Array = np.ndarray[Any, Any]


class Learned(DualTransform):  # type: ignore[misc]
    """A learned transform for albumentations' pipelines.

    Its noise comes from PyTorch's generator; albumentations' own decides whether it is applied, if p < 1. In a pipeline
    that albumentations writes as a dictionary it is only named: `albumentations.from_dict(written,
    nonserializable={"lila": transform})` puts it back.

    Args:
        transform: the learned transform.
        p: the probability that an image is transformed.
    """

    _targets = (Targets.IMAGE, Targets.MASK, Targets.BBOXES, Targets.KEYPOINTS)

    def __init__(self, transform: LearnedTransform, p: float = 1.0) -> None:
        super().__init__(p=p)
        self.learned = transform

    @classmethod
    def is_serializable(cls) -> bool:
        """Return that albumentations cannot make it again from plain data."""
        return False

    def to_dict_private(self) -> dict[str, Any]:
        """Return the name under which `albumentations.from_dict` asks for the transform."""
        return {"__class_fullname__": self.get_class_fullname(), "__name__": "lila"}

    def get_params(self) -> dict[str, Any]:
        """Draw the noise of one sample."""
        return {"noise": self.learned.draw()}

    def apply(self, img: Array, *args: Any, noise: torch.Tensor, **params: Any) -> Array:
        """Transform an image (h, w) or (h, w, c)."""
        moved = self.learned.transform_inputs(_channels_first(img), noise)
        return _like(moved, img)

    def apply_to_mask(self, mask: Array, *args: Any, noise: torch.Tensor, **params: Any) -> Array:
        """Transform a mask (h, w) or (h, w, c) by nearest neighbours."""
        return _like(self.learned.transform_masks(_channels_first(mask), noise), mask)

    def apply_to_bboxes(self, bboxes: Array, *args: Any, noise: torch.Tensor, **params: Any) -> Array:
        """Move boxes, rows of (left, top, right, bottom, ...) as shares of the image's sides."""
        if not bboxes.size:
            return bboxes
        size = params["shape"][:2]
        sides, new_sides = (
            np.array([width, height, width, height]) for height, width in (size, self.learned.view_size(size))
        )
        moved = self.learned.transform_boxes(torch.from_numpy(bboxes[:, :4] * sides), noise, size)
        shares = (moved.numpy() / new_sides).astype(bboxes.dtype)
        return np.concatenate([shares, bboxes[:, 4:]], axis=1)

    def apply_to_keypoints(self, keypoints: Array, *args: Any, noise: torch.Tensor, **params: Any) -> Array:
        """Move key points, rows of (column, row, depth, angle, scale, ...), with their directions and sizes.

        With J the derivative of the map at a key point, a direction d becomes J d, and a size is multiplied by the
        largest singular value of J. As in albumentations, angles are in radians and turn columns towards rows.
        """
        if not keypoints.size:
            return keypoints
        steps = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
        around = torch.from_numpy(keypoints[:, None, :2] + steps)  # (n, 3, 2)
        moved = self.learned.transform_points(around, noise, params["shape"][:2]).numpy()
        J = (moved[:, 1:] - moved[:, :1]).swapaxes(1, 2)
        angle = keypoints[:, 3]
        x, y = (J @ np.stack([np.cos(angle), np.sin(angle)], 1)[..., None])[..., 0].T
        found = keypoints.copy()
        found[:, :2] = moved[:, 0]
        found[:, 3] = np.arctan2(y, x) % (2 * np.pi)
        found[:, 4] *= np.linalg.norm(J, 2, axis=(1, 2))
        return found


def _channels_first(pixels: Array) -> torch.Tensor:
    """Return pixels (h, w) or (h, w, c) as a tensor (c, h, w)."""
    tensor = torch.from_numpy(pixels)
    return tensor[None] if tensor.dim() == 2 else tensor.permute(2, 0, 1)


def _like(moved: torch.Tensor, pixels: Array) -> Array:
    """Return a tensor (c, h, w) as pixels with the dimensions of other pixels."""
    found: Array = (moved[0] if pixels.ndim == 2 else moved.permute(1, 2, 0)).contiguous().numpy()
    return found
