import pytest
import torch
from torch import nn

import lila
from lila._util.suggestions import did_you_mean, nearest


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("optimizer", "optimiser"),
        ("--optimizer-options", "optimiser-options"),
        ("Optimiser", "optimiser"),
        ("batch_size", "batch-size"),
        ("learning_rate", "lr"),
        ("epoch", "epochs"),
        ("colors", "colours"),
        ("elephant", None),
    ],
)
def test_the_name_that_was_meant_is_found(name: str, meant: str | None) -> None:
    known = ["optimiser", "optimiser-options", "batch-size", "lr", "epochs", "colours", "size"]
    assert nearest(name, known) == meant


def test_there_is_no_question_where_nothing_is_near() -> None:
    assert did_you_mean("rotatoin", ["rotation", "shear"]) == " Did you mean 'rotation'?"
    assert did_you_mean("elephant", ["rotation", "shear"]) == ""
    assert did_you_mean(3, ["rotation"]) == ""


def test_misspelt_names_in_python_are_answered_with_the_right_one() -> None:
    net, data = nn.Linear(2, 2), (torch.rand(4, 2), torch.tensor([0, 1, 0, 1]))
    for changes, meant in (({"optimizer": "adam"}, "optimiser"), ({"callback": print}, "callbacks")):
        with pytest.raises(lila.ArgumentError, match=f"Did you mean '{meant}'"):
            lila.fit(net, data, **changes)
    with pytest.raises(lila.ArgumentError, match="Did you mean 'adamw'"):
        lila.Settings(optimiser="admw")
    with pytest.raises(lila.ArgumentError, match=r"'sgd'\.$"):  # not 'own', which is for functions
        lila.Settings(optimiser="elephant")
    with pytest.raises(lila.ArgumentError, match="Did you mean 'rotation'"):
        lila.Affine2d(["rotaton"])
