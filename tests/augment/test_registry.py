"""Families and parameterisations are made by name, and described so that they can be made again."""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any
from unittest import mock

import pytest
import torch
from torch import Tensor, nn

import lila
from cases import Gamma
from lila.augment.parameterisation import PARAMETERISATIONS
from lila.augment.registry import (
    FAMILIES,
    augmentation_titles,
    build_augmentation,
    check_fits,
    describe_augmentation,
    fitting_families,
)

FLIPS = ["horizontal-flip", "vertical-flip", "quarter-turns"]
NAMES = [
    "affine",
    "correlated-affine",
    "off-centre-affine",
    *FLIPS,
    "rotation-of-points",
    "colour",
    "series",
    "point-cloud",
]


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    with mock.patch.dict(FAMILIES), mock.patch.dict(PARAMETERISATIONS):
        yield


def test_families_are_made_by_name() -> None:
    assert lila.augmentation_names() == NAMES
    made = lila.make_augmentation("affine", generators=["rotation"], padding="border", init=0.5)
    assert isinstance(made, lila.Affine2d)
    assert made.ranges == {"rotation": 0.5}
    assert deepcopy(made).arguments() == made.arguments()
    assert isinstance(lila.make_augmentation("rotation-of-points"), lila.Rotation2d)
    assert augmentation_titles()["rotation-of-points"].startswith("Rotations of points in the plane")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("affin", {}), "There is no augmentation named 'affin'; choose one of 'affine', 'correlated-affine'"),
        (
            ("affine", {"angle": 1}),
            "The augmentation 'affine' has no argument 'angle'. It takes: generators, padding, init, param",
        ),
        (("nothing.here:Family", {}), "'nothing.here:Family' could not be imported: ModuleNotFoundError"),
        (("torch.nn:Linear", {}), "must be a subclass of lila.Augmentation, but is <class 'torch.nn"),
        (("lila:Augmentation", {}), "Augmentation cannot be used as the family"),
    ],
)
def test_what_cannot_be_made_is_refused(arguments: tuple[str, dict[str, Any]], message: str) -> None:
    with pytest.raises(lila.ArgumentError, match=message):
        lila.make_augmentation(arguments[0], **arguments[1])


def test_a_name_may_fix_arguments_and_several_names_make_a_composition() -> None:
    correlated = lila.make_augmentation("correlated-affine", padding="border")
    assert isinstance(correlated, lila.Affine2d)
    assert correlated.correlated
    description = describe_augmentation(correlated)
    assert description is not None
    assert description["family"] == "affine"
    assert build_augmentation(description).state_dict().keys() == correlated.state_dict().keys()
    assert augmentation_titles()["correlated-affine"].endswith("(correlated=True)")
    lila.register_augmentation("gamma", Gamma)
    divided = lila.make_augmentation("affine,horizontal-flip,colour", generators=["hue", "rotation", "gamma"])
    assert list(divided.ranges) == ["rotation", "horizontal flip", "hue", "gamma"]
    whole = lila.make_augmentation("affine,colour", generators=["rotation"])
    assert list(whole.ranges) == ["rotation", *lila.Colour().ranges]
    with pytest.raises(lila.ArgumentError, match="None of the augmentations affine, colour has the generator 'twist'"):
        lila.make_augmentation("affine,colour", generators=["rotation", "twist"])
    both = lila.make_augmentation("affine, gamma", padding="border")
    assert isinstance(both, lila.Compose)
    assert [type(part) for part in both.parts] == [lila.Affine2d, Gamma]
    assert both.parts[0].padding == "border"
    with pytest.raises(lila.ArgumentError, match="None of the augmentations affine, gamma takes the argument 'angle'"):
        lila.make_augmentation("affine,gamma", angle=1)


def test_a_family_that_does_not_fit_is_refused_with_those_that_do() -> None:
    with pytest.raises(lila.DataError, match=r"inputs have shape \(2,\).* fit inputs .* rotation-of-points\.$"):
        check_fits(lila.Affine2d(), (2,))
    check_fits(lila.Affine2d(), (1, 8, 8))
    assert fitting_families((1, 8, 8)) == [*NAMES[:3], *FLIPS]
    with pytest.raises(lila.DataError, match="none of the registered ones"):
        check_fits(lila.Affine2d(), (2, 2, 2, 2))


@pytest.mark.parametrize(
    ("name", "family", "message"),
    [
        ("affine", Gamma, "The name 'affine' belongs to lila.augment.affine.Affine2d already"),
        ("my family", Gamma, "letters, digits and hyphens, but 'my family' does not"),
        ("own:family", Gamma, "letters, digits and hyphens"),
        ("linear", nn.Linear, "must be a subclass of lila.Augmentation"),
        ("base", lila.Augmentation, "does not define `forward`"),
    ],
)
def test_what_cannot_be_registered_is_refused(name: str, family: Any, message: str) -> None:
    with pytest.raises(lila.ArgumentError, match=message):
        lila.register_augmentation(name, family)
    assert lila.augmentation_names() == NAMES


def define() -> type[lila.Augmentation]:
    class Same(Gamma):
        pass

    return Same


def test_a_family_that_is_defined_again_replaces_the_one_before() -> None:
    first, second = define(), define()
    lila.register_augmentation("same", first)
    lila.register_augmentation("same", second)
    assert type(lila.make_augmentation("same")) is second


class Blur(lila.Augmentation):
    noise_dim = 1

    def __init__(self, ranges: int = 1, told: object = None) -> None:
        super().__init__()
        self.eta = nn.Parameter(torch.zeros(ranges))
        self.told = told

    def forward(self, x: Tensor, noise: Tensor) -> Tensor:
        return x.unsqueeze(1) * (1 + self.eta.sum() * noise[..., :1])

    def arguments(self) -> Any:
        return self.told


def test_a_description_makes_the_same_augmentation() -> None:
    assert describe_augmentation(Blur()) is None  # as it is not registered
    lila.register_augmentation("blur", Blur)
    assert describe_augmentation(Blur()) is None  # as it tells no arguments
    description = describe_augmentation(Blur(3, {"ranges": 3}))
    assert description == {"family": "blur", "arguments": {"ranges": 3}}
    assert build_augmentation(description).get_parameter("eta").shape == (3,)


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({"ranges": 2}, r"make one whose parameters have the shapes {'eta': \(2,\)} instead of {'eta': \(3,\)}"),
        ({"range": 3}, "they make none: .* has no argument 'range'. Did you mean 'ranges'"),
        ({"ranges": torch.tensor(3)}, "they make none: .*not JSON serializable"),
    ],
)
def test_arguments_that_do_not_make_it_again_are_refused(told: Any, message: str) -> None:
    lila.register_augmentation("blur", Blur)
    with pytest.raises(lila.ArgumentError, match=r"Blur\.arguments\(\) returned .*" + message):
        describe_augmentation(Blur(3, told))


def test_a_description_imports_nothing() -> None:
    with pytest.raises(lila.DataError, match="not registered here"):
        build_augmentation({"family": "os:system", "arguments": {}})


class Square(lila.Parameterisation):
    """range = eta^2."""

    start = 0.25

    def to_range(self, eta: Tensor) -> Tensor:
        return eta.square()

    def to_eta(self, range_: float) -> float:
        return float(range_**0.5)


def test_a_parameterisation_of_ones_own_has_a_name() -> None:
    assert lila.Affine2d(parameterisation=Square()).arguments() is None
    lila.register_parameterisation("square", Square())
    made = lila.Affine2d(["shear"], parameterisation="square")
    assert made.ranges == {"shear": 0.25}
    description = describe_augmentation(made)
    assert description is not None
    assert description["arguments"]["parameterisation"] == "square"
    assert build_augmentation(description).ranges == {"shear": 0.25}
    with pytest.raises(lila.ArgumentError, match="parameterisation named 'inverse' already"):
        lila.register_parameterisation("inverse", Square())
    with pytest.raises(lila.ArgumentError, match=r"must be an instance of lila.Parameterisation.* parentheses"):
        lila.register_parameterisation("cube", Square)  # type: ignore[arg-type]
    with pytest.raises(lila.ArgumentError, match="name of a family consists of letters, digits and hyphens, but 3"):
        lila.register_augmentation(3, lila.Affine2d)  # type: ignore[arg-type]
