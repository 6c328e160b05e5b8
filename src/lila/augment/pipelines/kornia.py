"""A learned transform as one of kornia's (`kornia.augmentation`)."""

from typing import Any

import torch
from kornia.augmentation import GeometricAugmentationBase2D
from torch import Tensor

from lila.augment.pipelines.learned import LearnedTransform
from lila.errors import ArgumentError

_AFFINE_TOLERANCE = 1e-4  # of the longer side


class Learned(GeometricAugmentationBase2D):
    """A learned transform for `kornia.augmentation` pipelines.

    Args:
        transform: the learned transform.
        p: the probability that an image is transformed.
        same_on_batch: whether all images of a batch are transformed alike.
        keepdim: whether a single image (c, h, w) stays one; kornia makes a batch of it otherwise.
    """

    _compute_matrix_lazily = True  # only boxes and key points need the matrix

    def __init__(
        self, transform: LearnedTransform, p: float = 1.0, same_on_batch: bool = False, keepdim: bool = False
    ) -> None:
        super().__init__(p=p, same_on_batch=same_on_batch, keepdim=keepdim)
        self.learned = transform

    def generate_parameters(self, batch_shape: tuple[int, ...]) -> dict[str, Tensor]:
        """Draw the noise of a batch."""
        count = int(batch_shape[0])
        noise = self.learned.draw().expand(count, -1) if self.same_on_batch else self.learned.draw(count)
        return {"noise": noise}

    def compute_transformation(self, input: Tensor, params: dict[str, Tensor], flags: dict[str, Any]) -> Tensor:
        """Return the maps from pixels of the images to pixels of the transformed images, shape (b, 3, 3)."""
        height, width = input.shape[-2:]
        frame = input.new_tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [width - 1.0, height - 1.0]])
        moved = self.learned.transform_points(
            frame.expand(len(input), -1, -1), params["noise"], (int(height), int(width))
        )
        origin = moved[:, 0]
        matrix = torch.eye(3, dtype=input.dtype, device=input.device).repeat(len(input), 1, 1)
        matrix[:, :2, 0], matrix[:, :2, 1], matrix[:, :2, 2] = moved[:, 1] - origin, moved[:, 2] - origin, origin
        corner = (matrix[:, :2, :2] @ frame[3]) + origin
        if ((corner - moved[:, 3]).abs() > _AFFINE_TOLERANCE * max(height, width)).any():
            raise ArgumentError(
                f"{type(self.learned.augmentation).__name__} is not affine, and kornia moves boxes and key points by "
                "affine maps only."
            )
        return matrix

    def apply_transform(
        self, input: Tensor, params: dict[str, Tensor], flags: dict[str, Any], transform: Tensor | None = None
    ) -> Tensor:
        """Transform images."""
        return self.learned.transform_inputs(input, params["noise"])

    def apply_transform_mask(
        self, input: Tensor, params: dict[str, Tensor], flags: dict[str, Any], transform: Tensor | None = None
    ) -> Tensor:
        """Transform masks by nearest neighbours."""
        return self.learned.transform_masks(input, params["noise"])
