"""Learned augmentations as code to paste, and as plain data.

`torch` is the learned distribution itself. The other libraries use a product of maps, as `parameters` explains.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.resources import files
from math import sqrt
from string import Template
from typing import Any

from lila.augment.base import InputFormat
from lila.augment.export.parameters import AffineParameters
from lila.augment.warp import Padding

LIBRARIES = ("torchvision", "kornia", "albumentations")
"""The libraries whose affine augmentations can be written; each has a template in `templates/`."""

_DIGITS = 4
_CV2_BORDERS = {
    Padding.ZEROS: "BORDER_CONSTANT",
    Padding.BORDER: "BORDER_REPLICATE",
    Padding.REFLECTION: "BORDER_REFLECT",
}
_PAD_MODES = {Padding.ZEROS: "constant", Padding.BORDER: "edge", Padding.REFLECTION: "symmetric"}
_TILES = 3  # images along each side of one that torchvision has padded by as much as the image on all sides


def lie_code(
    generators: Mapping[str, Sequence[Sequence[float]]],
    distribution: "CoefficientDistribution",
    padding: Padding,
    inputs: InputFormat,
) -> str:
    """Write a Lie-group augmentation of images as Python source that uses PyTorch alone.

    Args:
        generators: 3 x 3 matrices by name.
        distribution: the distribution of the generators' coefficients.
        padding: what lies outside the image.
        inputs: the images that are transformed.
    """
    return filled(
        "torch",
        constants=distribution.constants(),
        noise_dim=distribution.noise_dim,
        coefficients=distribution.expression(),
        generators="".join(f"    {matrix},  # {_comment(name)}\n" for name, matrix in generators.items()),
        padding=padding.value,
        mean=rounded(inputs.mean),
        std=rounded(inputs.std),
    )


@dataclass(frozen=True)
class CoefficientDistribution:
    """The distribution of coefficients c = mu + R eps, as code writes it.

    Attributes:
        matrix: R, shape (k, m) as nested lists, or its diagonal if the coefficients are independent.
        centres: mu, or None if it is 0.
    """

    matrix: Sequence[Sequence[float]] | Sequence[float]
    centres: Sequence[float] | None = None

    @property
    def noise_dim(self) -> int:
        """The number of noise values that one transformation takes."""
        first = self.matrix[0]
        return len(self.matrix) if isinstance(first, float) else len(first)

    def constants(self) -> str:
        """Return the lines that define the constants of the distribution."""
        rows = [[row] if isinstance(row, float) else row for row in self.matrix]
        rounded = [[float(f"{value:.6g}") for value in row] for row in rows]
        if isinstance(self.matrix[0], float):
            lines = [f"RANGES = {[row[0] for row in rounded]}"]
        else:
            lines = ["MIXING = [", *(f"    {row}," for row in rounded), "]  # from noise to coefficients"]
        if self.centres is not None:
            lines.append(f"CENTRES = {[float(f'{value:.6g}') for value in self.centres]}")
        return "\n".join(lines)

    def expression(self) -> str:
        """Return the expression of the coefficients of images, given their noise."""
        independent = isinstance(self.matrix[0], float)
        moved = "noise * torch.tensor(RANGES).to(noise)" if independent else "noise @ torch.tensor(MIXING).to(noise).T"
        return moved if self.centres is None else f"torch.tensor(CENTRES).to(noise) + {moved}"


def affine_code(library: str, affine: AffineParameters) -> str:
    """Write an affine augmentation as Python source for one of `LIBRARIES`.

    torchvision's RandomAffine fills what lies outside with a constant. For another padding the image is padded first,
    by its own size on each side, and its middle is cut out afterwards. Shifts are then shares of the padded image.
    """
    is_padded = library == "torchvision" and affine.padding is not Padding.ZEROS
    return filled(
        "torchvision-padded" if is_padded else library,
        degrees=rounded(affine.degrees),
        translate=rounded(affine.translate),
        translate_x=rounded(affine.translate[0]),
        translate_y=rounded(affine.translate[1]),
        scale=_common_scale(affine),
        scales=_common_scale(affine) if affine.same_scale else rounded(affine.scale_x + affine.scale_y),
        scale_x=rounded(affine.scale_x),
        scale_y=rounded(affine.scale_y),
        keep_ratio=affine.same_scale,
        shear=rounded(affine.shear),
        padding=affine.padding.value,
        border=_CV2_BORDERS[affine.padding],
        pad_mode=_PAD_MODES[affine.padding],
        padded_translate=rounded(tuple(share / _TILES for share in affine.translate)),
        mean=rounded(affine.mean),
        std=rounded(affine.std),
    )


def affine_json(affine: AffineParameters) -> dict[str, Any]:
    """Return the parameters of an affine augmentation as plain data, also by library in its own terms."""
    common = {
        "degrees": rounded(affine.degrees),
        "translate": rounded(affine.translate),
        "shear": rounded(affine.shear),
    }
    return {
        "affine": asdict(affine),
        "torchvision": common | {"scale": _common_scale(affine), "padding_mode": _PAD_MODES[affine.padding]},
        "kornia": common
        | {
            "scale": _common_scale(affine) if affine.same_scale else rounded(affine.scale_x + affine.scale_y),
            "padding_mode": affine.padding.value,
        },
        "albumentations": {
            "rotate": _interval(affine.degrees),
            "translate_percent": {"x": _interval(affine.translate[0]), "y": _interval(affine.translate[1])},
            "scale": {"x": rounded(affine.scale_x), "y": rounded(affine.scale_y)},
            "keep_ratio": affine.same_scale,
            "shear": {"x": _interval(affine.shear), "y": (0.0, 0.0)},
            "border_mode": _CV2_BORDERS[affine.padding],
        },
    }


def filled(template: str, **values: Any) -> str:
    """Return a template with its values filled in."""
    text = files("lila.augment.export").joinpath("templates", f"{template}.txt").read_text(encoding="utf-8")
    return Template(text).substitute(values)


def _comment(name: str) -> str:
    """Return a name that ends no comment: as it is, or as a string of Python if not all of it is printed."""
    return name if name.isprintable() else ascii(name)


def _common_scale(affine: AffineParameters) -> float | tuple[float, ...]:
    """Return one interval of scale factors for both axes: the mean of their logarithms."""
    return rounded(tuple(sqrt(x * y) for x, y in zip(affine.scale_x, affine.scale_y, strict=True)))


def rounded(value: float | tuple[float, ...]) -> float | tuple[float, ...]:
    """Return a number, or each of several, with as many digits as exported code shows."""
    return tuple(round(part, _DIGITS) for part in value) if isinstance(value, tuple) else round(value, _DIGITS)


def _interval(value: float) -> tuple[float, float]:
    return -round(value, _DIGITS), round(value, _DIGITS)
