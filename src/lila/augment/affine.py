"""The paper's affine transformations of images."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from math import log, pi
from typing import Any

from lila._util.arguments import suggests_arguments
from lila._util.suggestions import did_you_mean
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
    Generator("rotation", [[0, -1, 0], [1, 0, 0], [0, 0, 0]], limit=pi, closes=True, unit=degrees),
    Generator("x-scale", [[1, 0, 0], [0, 0, 0], [0, 0, 0]], unit=scale_factor, plausible=_PLAUSIBLE_SCALE),
    Generator("y-scale", [[0, 0, 0], [0, 1, 0], [0, 0, 0]], unit=scale_factor, plausible=_PLAUSIBLE_SCALE),
    Generator("shear", [[0, 1, 0], [1, 0, 0], [0, 0, 0]], unit=scale_factor, plausible=_PLAUSIBLE_SCALE),
)
"""The paper's six generators, in its order. A shear is symmetric: it stretches along one diagonal by the factor
exp(range) and shrinks along the other. A positive angle turns x towards y, which is clockwise where y points down."""


@suggests_arguments
class Affine2d(LieImages):
    """The paper's distribution over affine maps of an image, with a learned range for each of six generators.

    Args:
        generators: the names of the generators to use, in any order; all six of `AFFINE_2D` if None.
        padding: what lies outside the image: "zeros", as in the paper; "border"; or "reflection", its mirror image,
            which is the better choice for photographs.
        init: the range from which each generator starts; if None, 0 as in the paper, or 0.1 if they are correlated.
        parameterisation: how a range is written as eta: "identity", "softplus", "inverse", or one of your own.
        correlated: whether the coefficients of the generators may move together, as the two scales of an image do:
            they are R eps with a learned matrix R in place of a diagonal.
        rank: the number of columns of R; as many as generators if None.
        offset: whether the centre of each range is learned too, so that it need not be symmetric about 0.
    """

    unit = "radians, half sides, log-scale"

    def __init__(
        self,
        generators: Sequence[str] | None = None,
        padding: str | Padding = "zeros",
        init: float | Sequence[float] | None = None,
        parameterisation: str | Parameterisation = "identity",
        *,
        correlated: bool = False,
        rank: int | None = None,
        offset: bool = False,
    ) -> None:
        known = {generator.name: generator for generator in AFFINE_2D}
        if isinstance(generators, str) or not isinstance(generators, Iterable | None):
            raise ArgumentError(f"generators must be a list of names, such as ['rotation'], but is {generators!r}.")
        names = list(known) if generators is None else list(generators)
        unknown = [name for name in names if name not in known]
        if unknown:
            meant = did_you_mean(unknown[0], known)
            raise ArgumentError(f"Affine2d has no generator {unknown[0]!r}; choose from {', '.join(known)}.{meant}")
        chosen = [known[name] for name in names]
        super().__init__(chosen, padding, init, parameterisation, correlated=correlated, rank=rank, offset=offset)

    def arguments(self) -> dict[str, Any] | None:
        distribution = self.distribution_arguments()
        if distribution is None:
            return None
        return {"generators": list(self.names), "padding": self.padding.value, **distribution}

    def exporters(self) -> Mapping[str, Exporter]:
        # Other libraries have no off-centre ranges for all of the maps.
        by_library = {} if self.offset else {library: partial(self._code, library) for library in LIBRARIES}
        return {**super().exporters(), **by_library}

    def export_json(self, inputs: InputFormat) -> dict[str, Any]:
        others = {} if self.offset else affine_json(self._affine(inputs))
        return super().export_json(inputs) | others

    def _code(self, library: str, inputs: InputFormat) -> str:
        return affine_code(library, self._affine(inputs))

    def _affine(self, inputs: InputFormat) -> AffineParameters:
        return affine_parameters(self.ranges, inputs, self.padding, scale_correlation=self._scale_correlation())

    def _scale_correlation(self) -> float:
        if not {"x-scale", "y-scale"} <= set(self.names):
            return 0.0
        return float(self.correlations()[self.names.index("x-scale"), self.names.index("y-scale")])
