"""Constructors answer an argument that they do not take with the one that was meant, and stay as they were."""

import inspect
import pickle
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

import pytest

import lila
from lila._util.arguments import suggests_arguments
from lila.training.schema import checked

_MADE_BY_LILA = {"Coupling", "EpochRecord", "Estimate", "Posterior", "Ranks", "Run", "Task"}
_WITHOUT_NAMES = {"Bernoulli", "Compose", "Sharing"}  # they take no argument by name


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: lila.Settings(optimizer="adam"), "Settings has no argument 'optimizer'. Did you mean 'optimiser'?"),  # type: ignore[call-arg]
        (lambda: lila.Recipe("digits", transfrom="scaled"), "Recipe has no .* Did you mean 'transform'?"),  # type: ignore[call-arg]
        (lambda: lila.Affine2d(generator=["rotation"]), "Did you mean 'generators'?"),  # type: ignore[call-arg]
        (lambda: lila.make_augmentation("affine", generator=["rotation"]), "Did you mean 'generators'?"),
        (lambda: lila.make_augmentation("affine,colour", generator=1), "takes .* Did you mean 'generators'?"),
        (lambda: lila.VerticalFlip(start=0.1), "VerticalFlip has no argument 'start'. It takes: init."),  # type: ignore[call-arg]
    ],
)
def test_an_unknown_argument_is_answered_with_the_one_that_was_meant(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(lila.ArgumentError, match=message):
        make()


def test_every_public_class_that_people_make_does_so() -> None:
    for name in set(lila.__all__) - _MADE_BY_LILA - _WITHOUT_NAMES:
        made = getattr(lila, name)
        if inspect.isclass(made) and not inspect.isabstract(made) and not issubclass(made, Exception):
            with pytest.raises(lila.ArgumentError, match=f"^{name} has no argument 'no_such'. It takes: "):
                getattr(lila, name)(no_such=1)


def test_the_class_stays_as_it_was() -> None:
    settings = lila.Settings(epochs=20)
    assert pickle.loads(pickle.dumps(settings)) == settings
    assert replace(settings, seed=3).seed == 3
    assert checked(lila.Settings, asdict(settings), "run.json: settings") == settings
    assert list(inspect.signature(lila.Settings).parameters) == list(asdict(settings))
    with pytest.raises(lila.ArgumentError, match="Did you mean 'seed'"):
        replace(settings, sede=3)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="positional argument"):
        lila.Settings("lila")  # type: ignore[call-arg]


@suggests_arguments
class Parent:
    def __init__(self, colour: str = "red") -> None:
        self.colour = colour


class Child(Parent):
    def __init__(self) -> None:
        super().__init__(color="blue")  # type: ignore[call-arg]


@suggests_arguments
class Open:
    def __init__(self, **options: int) -> None:
        self.options = options


def test_the_message_names_the_class_whose_constructor_was_called() -> None:
    with pytest.raises(lila.ArgumentError, match=r"Parent has no argument 'color'. Did you mean 'colour'"):
        Child()
    assert Open(anything=1).options == {"anything": 1}
