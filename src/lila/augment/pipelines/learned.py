"""A learned augmentation that draws its own noise, for pipelines that load data."""

from collections.abc import Sequence
from copy import deepcopy
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from lila._util.arguments import suggests_arguments
from lila.augment.base import Augmentation, InputFormat
from lila.augment.pipelines.boxes import Size, move_boxes, move_corners, move_pixels
from lila.augment.pipelines.pixels import transformed_picture, transformed_pixels
from lila.augment.pipelines.samples import Kind, is_tv_tensor, leaf_kinds
from lila.errors import ArgumentError, DataError

_MASK_DTYPE = torch.float64  # holds every label exactly


@suggests_arguments
class LearnedTransform(nn.Module):
    """Transforms inputs by a learned augmentation, with noise that it draws itself from PyTorch's global generator.

    DataLoaders seed that generator differently in each worker. Masks, boxes and key points of a sample move with its
    image: masks take the value of the nearest pixel, a box becomes the smallest upright box around its moved corners.

    Args:
        augmentation: what was learned; it is copied.
        inputs: the inputs that are transformed. Their mean and standard deviation are those by which pixels were scaled
            before training: the transform scales pixels by them, transforms, and scales back. So it is given images
            that are not scaled yet, and pixels outside of an image get the value that they had in training.

    Attributes:
        augmentation: the copy, which is not trained any more.
        inputs: as above.
    """

    def __init__(self, augmentation: Augmentation, inputs: InputFormat) -> None:
        super().__init__()
        if not augmentation.noise_dim:
            raise ArgumentError(
                "There is no learned transformation: the network is not averaged over transformations of its input."
            )
        if len(inputs.mean) != len(inputs.std) or not all(inputs.std):
            raise ArgumentError(
                f"Scaling needs as many means as standard deviations, none of them zero, but they are {inputs.mean} "
                f"and {inputs.std}."
            )
        self.augmentation = deepcopy(augmentation).requires_grad_(False)
        self.inputs = inputs

    def draw(self, count: int | None = None) -> Tensor:
        """Draw the noise of one transformation, shape (k,), or of several, shape (count, k), uniform on [-1, 1]."""
        shape = (self.augmentation.noise_dim,) if count is None else (count, self.augmentation.noise_dim)
        return torch.rand(shape) * 2 - 1

    def forward(self, *sample: Any, noise: Tensor | None = None) -> Any:
        """Transform an input, or all inputs of a sample with their masks, boxes and key points, and return the same.

        Args:
            *sample: a tensor of one input or of a batch, whose inputs are transformed independently; a PIL image; a
                tensor of `torchvision.tv_tensors`; or any nesting of these with other values, which are passed
                through. Masks and key points of a batch have a first dimension of the same size.
            noise: the noise to use in place of a draw, shape (k,), or (b, k) for a batch.
        """
        leaves, structure = pytree.tree_flatten(sample if len(sample) != 1 else sample[0])
        kinds = leaf_kinds(leaves)
        batch = self.batch_size(leaves, kinds)
        if noise is None:
            noise = self.draw(batch)
        self._check_noise(noise, batch)
        moved = [self.transform(leaf, kind, noise) for leaf, kind in zip(leaves, kinds, strict=True)]
        return pytree.tree_unflatten(moved, structure)

    def batch_size(self, leaves: Sequence[Any], kinds: Sequence[Kind]) -> int | None:
        """Return the number of inputs in the batch of a sample; None if it is a single input.

        Args:
            leaves: the parts of the sample.
            kinds: what each of them is.

        Raises:
            DataError: there is nothing to transform, or parts of the sample disagree.
        """
        if all(kind is Kind.OTHER for kind in kinds):
            raise DataError("The sample holds nothing to transform: no tensor and no PIL image.")
        found: set[int | None] = set()
        for leaf, kind in zip(leaves, kinds, strict=True):
            if kind is Kind.INPUT:
                single = len(self.inputs.shape)
                if leaf.dim() not in (single, single + 1):
                    raise DataError(
                        f"The run has inputs of {single} dimensions, as {self.inputs.shape}, so that a tensor of shape "
                        f"{tuple(leaf.shape)} is neither an input nor a batch of them."
                    )
                found.add(len(leaf) if leaf.dim() > single else None)
            elif kind in (Kind.PICTURE, Kind.VIDEO, Kind.BOXES):
                found.add(None)
        if len(found) > 1:
            raise DataError(
                "The sample mixes batches with single images, boxes, or batches of another size. Transform samples "
                "before they are gathered in batches."
            )
        return next(iter(found), None)

    def transform(self, leaf: Any, kind: Kind, noise: Tensor) -> Any:
        """Transform one part of a sample.

        Args:
            leaf: the part.
            kind: what it is.
            noise: the noise of the sample, shape (k,), or (b, k) for a batch.
        """
        if kind is Kind.OTHER:
            return leaf
        if kind is Kind.PICTURE:
            return transformed_picture(leaf, partial(self.transform_inputs, noise=noise))
        values = leaf.as_subclass(Tensor)
        if kind is Kind.POINTS:
            size = self.view_size(leaf.canvas_size)
            return _wrapped(self.transform_points(values, noise, leaf.canvas_size), leaf, canvas_size=size)
        if kind is Kind.BOXES:
            corners = partial(self.transform_boxes, noise=noise, size=leaf.canvas_size)
            return move_boxes(leaf, corners, self.view_size(leaf.canvas_size))
        if kind is Kind.MASKS:
            return _wrapped(self.transform_masks(values, noise), leaf)
        if kind is Kind.VIDEO:  # all frames alike
            frames = values.flatten(end_dim=-4)
            moved = self.transform_inputs(frames, noise.expand(len(frames), -1))
            return _wrapped(moved.unflatten(0, values.shape[:-3]), leaf)
        return _wrapped(self.transform_inputs(values, noise), leaf)

    def transform_inputs(self, x: Tensor, noise: Tensor) -> Tensor:
        """Transform one input, or a batch of inputs, by given noise: shape (k,), or (b, k) for a batch."""
        return transformed_pixels(x, partial(self._transform_floats, noise=noise))

    def transform_masks(self, masks: Tensor, noise: Tensor) -> Tensor:
        """Transform masks (..., h, w), or (b, ..., h, w) for noise (b, k), by nearest neighbours."""
        if not masks.numel():  # an image without objects
            return masks.new_zeros(*masks.shape[:-2], *self.view_size((masks.shape[-2], masks.shape[-1])))
        single = noise.dim() == 1
        batch = 1 if single else len(noise)
        stacked = (masks[None] if single else masks).reshape(batch, -1, *masks.shape[-2:]).to(_MASK_DTYPE)
        moved = self.augmentation.transform_masks(stacked, noise.reshape(batch, 1, -1).to(stacked))
        if moved is None:
            raise self._no_geometry("masks", "transform_masks")
        return moved[:, 0].reshape(*masks.shape[:-2], *moved.shape[-2:]).to(masks.dtype)

    def transform_points(self, points: Tensor, noise: Tensor, size: Size) -> Tensor:
        """Transform pixels, given by column and row, of an image of this size: (..., 2), or (b, ..., 2) for a batch."""
        if noise.dim() == 2:
            each = [self.transform_points(p, e, size) for p, e in zip(points, noise, strict=True)]
            return torch.stack(each) if each else points
        return move_pixels(points, size, self.view_size(size), partial(self._move, noise=noise, size=size))

    def transform_boxes(self, xyxy: Tensor, noise: Tensor, size: Size) -> Tensor:
        """Transform boxes (n, 4) of edges left, top, right and bottom in an image of this size, by noise (k,)."""
        return move_corners(xyxy, size, self.view_size(size), partial(self._move, noise=noise, size=size))

    def view_size(self, size: Size) -> Size:
        """Return the height and width of a transformed image."""
        height, width = self.augmentation.view_shape((self.inputs.shape[0], *size))[-2:]
        return height, width

    def _move(self, points: Tensor, noise: Tensor, size: Size) -> Tensor:
        """Move points (n, 2), in pixels from the centre of an image of this size."""
        moved = self.augmentation.move_points(points, noise, (self.inputs.shape[0], *size))
        if moved is None:
            raise self._no_geometry("boxes and key points", "move_points")
        return moved

    def _transform_floats(self, x: Tensor, noise: Tensor) -> Tensor:
        single = noise.dim() == 1
        batch = x[None] if single else x
        mean, std = (self._per_channel(batch, values) for values in (self.inputs.mean, self.inputs.std))
        views = self.augmentation((batch - mean) / std, noise.reshape(-1, 1, noise.shape[-1]).to(batch))
        moved = views[:, 0] * std + mean
        return moved[0] if single else moved

    def _per_channel(self, x: Tensor, values: tuple[float, ...]) -> Tensor:
        """Return one value per channel such that it is broadcast against inputs (b, c, ...)."""
        if len(values) not in (1, x.shape[1]):
            raise DataError(
                f"The run has inputs of {len(values)} channels, but these have {x.shape[1]}. Convert the images: "
                "image.convert('RGB') or 'L' for PIL images."
            )
        return x.new_tensor(values).reshape(-1, *(1 for _ in x.shape[2:]))

    def _check_noise(self, noise: Tensor, batch: int | None) -> None:
        shape = (self.augmentation.noise_dim,) if batch is None else (batch, self.augmentation.noise_dim)
        if noise.shape != shape:
            raise ArgumentError(f"The noise of this sample has shape {shape}, but {tuple(noise.shape)} was given.")

    def _no_geometry(self, parts: str, method: str) -> ArgumentError:
        return ArgumentError(
            f"{type(self.augmentation).__name__} does not say what becomes of {parts}. Override `{method}` in its "
            "class, or leave them out of the sample."
        )

    def extra_repr(self) -> str:
        return f"mean={self.inputs.mean}, std={self.inputs.std}"


def _wrapped(values: Tensor, like: Any, **changes: Any) -> Any:
    """Return values as the class of tensor that they came from."""
    if not is_tv_tensor(like):
        return values
    from torchvision.tv_tensors import wrap

    return wrap(values, like=like, **changes)
