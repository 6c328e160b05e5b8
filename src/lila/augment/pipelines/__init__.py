"""Learned augmentations as live objects for the pipelines of other libraries.

`LearnedTransform` is a module that needs PyTorch alone. The other modules of this package make it a transform of
torchvision, kornia or albumentations, and import that library.
"""

from importlib import import_module
from typing import Any

from lila.augment.pipelines.learned import LearnedTransform
from lila.errors import ArgumentError, LilaError

LIBRARIES = ("torchvision", "kornia", "albumentations")
"""The libraries that a learned transform can be a transform of."""
_EXTRAS = {"kornia": "lila-torch[kornia]"}


def native_transform(transform: LearnedTransform, library: str, **options: Any) -> Any:
    """Return a learned transform as a transform of another library.

    Args:
        transform: the learned transform.
        library: one of `LIBRARIES`.
        **options: arguments of the library's own base class, as `p=0.5` for kornia and albumentations.
    """
    if library not in LIBRARIES:
        raise ArgumentError(
            f"There is no transform for {library!r}; choose one of {', '.join(map(repr, LIBRARIES))}, or none for a "
            "module of PyTorch, which torchvision's pipelines take too."
        )
    try:
        adapter = import_module(f"lila.augment.pipelines.{library}")
    except (ImportError, RuntimeError) as error:  # the latter if it was built for another version of torch
        wanted = _EXTRAS.get(library, library)
        raise LilaError(
            f"{library} cannot be imported, so there is no transform for it ({error}). Install it with: "
            f"pip install '{wanted}'."
        ) from error
    return adapter.Learned(transform, **options)


__all__ = ["LIBRARIES", "LearnedTransform", "native_transform"]
