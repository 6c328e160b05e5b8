"""The paper's affine transformations of images."""

from collections.abc import Mapping, Sequence
from functools import partial
from math import log, pi
from typing import Any

from lila.augment.base import Exporter, InputFormat
from lila.augment.export.code import LIBRARIES, affine_code, affine_json
from lila.augment.export.parameters import AffineParameters, affine_parameters
from lila.augment.images import LieImages
from lila.augment.lie import Generator, degrees, pixels, scale_factor
from lila.augment.parameterisation import Parameterisation
from lila.augment.warp import Padding
from lila.errors import ArgumentError

_PLAUSIBLE_SHIFT = 0.75  # half sides: more than a third of the image is then outside
_PLAUSIBLE_SCALE = log(4)  # the logarithm of the factor

AFFINE_2D: tuple[Generator, ...] = (
    Generator("x-translation", [[0, 0, 1], [0, 0, 0], [0, 0, 0]], unit=pixels, plausible=_PLAUSIBLE_SHIFT),
    Generator("y-translation", [[0, 0, 0], [0, 0, 1], [0, 0, 0]], unit=pixels, plausible=_PLAUSIBLE_SHIFT),
    Generator("rotation", [[0, -1, 0], [1, 0, 0], [0, 0, 0]], limit=pi, unit=degrees),
    Generator("x-scale", [[1, 0, 0], [0, 0, 0], [0, 0, 0]], unit=scale_factor, plausible=_PLAUSIBLE_SCALE),
    Generator("y-scale", [[0, 0, 0], [0, 1, 0], [0, 0, 0]], unit=scale_factor, plausible=_PLAUSIBLE_SCALE),
    Generator("shear", [[0, 1, 0], [1, 0, 0], [0, 0, 0]], unit=scale_factor, plausible=_PLAUSIBLE_SCALE),
)
"""The paper's six generators, in its order. A shear is symmetric: it stretches along one diagonal by the factor
exp(range) and shrinks along the other. A positive angle turns x towards y, which is clockwise where y points down."""


class Affine2d(LieImages):
    """The paper's distribution over affine maps of an image, with a learned range for each of six generators.

    Args:
        generators: the names of the generators to use, in any order; all six of `AFFINE_2D` if None.
        padding: what lies outside the image: "zeros", "border" or "reflection".
        init: the range from which each generator starts; 0, as in the paper, if None.
        parameterisation: how a range is written as eta: "identity", "softplus", "inverse", or one of your own.
    """

    unit = "radians, half sides, log-scale"

    def __init__(
        self,
        generators: Sequence[str] | None = None,
        padding: str | Padding = "zeros",
        init: float | Sequence[float] | None = None,
        parameterisation: str | Parameterisation = "identity",
    ) -> None:
        known = {generator.name: generator for generator in AFFINE_2D}
        names = list(known) if generators is None else list(generators)
        unknown = [name for name in names if name not in known]
        if unknown:
            raise ArgumentError(f"Affine2d has no generator {unknown[0]!r}; choose from {', '.join(known)}.")
        super().__init__([known[name] for name in names], padding, init, parameterisation)

    def arguments(self) -> dict[str, Any] | None:
        name = self.parameterisation_name
        if name is None:
            return None
        return {"generators": list(self.names), "padding": self.padding.value, "parameterisation": name}

    def exporters(self) -> Mapping[str, Exporter]:
        by_library = {library: partial(self._code, library) for library in LIBRARIES}
        return {**super().exporters(), **by_library}

    def export_json(self, inputs: InputFormat) -> dict[str, Any]:
        return super().export_json(inputs) | affine_json(self._affine(inputs))

    def _code(self, library: str, inputs: InputFormat) -> str:
        return affine_code(library, self._affine(inputs))

    def _affine(self, inputs: InputFormat) -> AffineParameters:
        return affine_parameters(self.ranges, inputs, self.padding)
