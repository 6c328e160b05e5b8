"""LilaClassifier with the real scikit-learn: its own checks, clones, cross-validation, pipelines and searches."""

import pickle
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from torch import nn

import lila
from lila.data.toy import arcs
from lila.integrations.scikit_learn import LilaClassifier

SETTINGS: dict[str, Any] = {"samples": 4, "batch_size": 20}


@dataclass(frozen=True)
class SmallNetwork:
    """A function of which the names of tests tell no address in memory, so that they are the same in each process."""

    def __call__(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        return nn.Sequential(nn.Flatten(), nn.Linear(int(np.prod(shape)), 10), nn.Tanh(), nn.Linear(10, classes))


small_network = SmallNetwork()


def expected_failures(estimator: Any) -> dict[str, str]:
    """The checks that are known to fail, each with the reason: there are none, as docs/own-loop.md says."""
    return {}


@parametrize_with_checks(  # type: ignore[untyped-decorator]
    [LilaClassifier(small_network, epochs=6, settings={"lr": 0.05, "batch_size": 30, "microbatch": 32})],
    expected_failed_checks=expected_failures,
)
def test_the_checks_of_scikit_learn(estimator: Any, check: Any) -> None:
    check(estimator)


def digits(count: int = 45) -> tuple[Any, Any]:
    x, y = load_digits(return_X_y=True)
    chosen = np.flatnonzero(y < 3)[:count]
    return x[chosen], np.array(["zero", "one", "two"])[y[chosen]]


def test_colour_images_are_continued_by_their_mirror_image_wherever_their_channels_are() -> None:
    x, y = np.random.default_rng(0).random((12, 3, 8, 8)), np.arange(12) % 3
    options: dict[str, Any] = {"epochs": 1, "settings": SETTINGS, "random_state": 0}
    first, last = LilaClassifier(small_network, **options), LilaClassifier(small_network, "affine", **options)
    first.fit(x, y)
    last.fit(x.transpose(0, 2, 3, 1), y)
    for one in (first, last):
        assert one.run_.model.augmentation.padding == "reflection"
    np.testing.assert_array_equal(first.predict_proba(x), last.predict_proba(x.transpose(0, 2, 3, 1)))


def classifier(**changes: Any) -> LilaClassifier:
    options: dict[str, Any] = {"image_shape": (1, 8, 8), "epochs": 4, "settings": SETTINGS}
    return LilaClassifier(small_network, **(options | changes))


def test_images_as_rows_or_as_images_are_the_same_and_ranges_are_learned() -> None:
    x, y = digits()
    rows, images = classifier().fit(x, y), classifier(image_shape=None).fit(x.reshape(-1, 8, 8), y)
    assert rows.ranges_.keys() == lila.Affine2d().ranges.keys()
    assert rows.ranges_ == images.ranges_
    assert rows.readable_ranges_["rotation"].endswith("°")
    assert rows.evidence_ == rows.run_.evidence.value < 0
    assert list(rows.classes_) == ["one", "two", "zero"]
    probabilities = rows.predict_proba(x)
    assert probabilities.shape == (45, 3)
    np.testing.assert_allclose(probabilities.sum(1), 1)
    np.testing.assert_allclose(probabilities, images.predict_proba(x.reshape(-1, 8, 8)))
    assert set(rows.predict(x)) <= {"zero", "one", "two"}
    assert rows.score(x, y) == np.mean(rows.predict(x) == y)


def test_vectors_have_no_invariance_unless_it_is_asked_for() -> None:
    x, y = (part.numpy() for part in arcs(40))
    assert LilaClassifier(small_network, epochs=2).fit(x, y).ranges_ == {}
    turned = LilaClassifier(small_network, lila.Rotation2d(), epochs=4, settings=SETTINGS | {"burn_in": 0}).fit(x, y)
    assert turned.ranges_["rotation"] > 0


def test_clones_pipelines_cross_validation_and_searches_work() -> None:
    x, y = digits()
    made = make_pipeline(MinMaxScaler(), classifier())
    assert len(cross_val_score(made, x, y, cv=3)) == 3
    search = GridSearchCV(made, {"lilaclassifier__epochs": [1, 4]}, cv=2).fit(x, y)
    assert search.best_params_["lilaclassifier__epochs"] in (1, 4)
    fitted = classifier().fit(x, y)
    other = clone(fitted)
    assert not hasattr(other, "run_")
    np.testing.assert_array_equal(other.fit(x, y).predict_proba(x), fitted.predict_proba(x))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(fitted)).predict_proba(x), fitted.predict_proba(x))


def test_what_is_given_is_not_changed() -> None:
    x, y = digits()
    torch.manual_seed(0)
    net, augmentation = small_network((64,), 3), lila.Affine2d()
    before = [p.clone() for p in net.parameters()]
    made = LilaClassifier(net, augmentation, image_shape=(1, 8, 8), epochs=4, settings=SETTINGS)
    state = torch.get_rng_state()
    made.fit(x, y)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(a, b) for a, b in zip(before, net.parameters(), strict=True))
    assert not any(augmentation.ranges.values())
    assert any(made.ranges_.values())
    assert made.set_params(augmentation="rotation").get_params()["augmentation"] == "rotation"


def test_seeds_names_of_networks_and_float64_reach_the_run() -> None:
    x, y = digits(30)
    one, other = (classifier(random_state=seed).fit(x, y).predict_proba(x) for seed in (1, 2))
    assert not np.array_equal(one, other)
    with pytest.raises(ValueError, match="lenet needs images of at least 28 x 28"):
        LilaClassifier("lenet", image_shape=(1, 8, 8)).fit(x, y)
    double = LilaClassifier(small_network((64,), 3).double(), image_shape=(1, 8, 8), epochs=1, settings=SETTINGS)
    assert double.fit(x, y).predict_proba(x).dtype == np.float64


@pytest.mark.parametrize(
    ("x", "y", "error", "message"),
    [
        (np.zeros((4, 5)), [0, 1, 0, 1], ValueError, "64 pixels, not 5"),
        (np.zeros((4, 64)), [0, 0, 0, 0], ValueError, "only one class"),
        (np.zeros((4, 64)), [0.5, 0.1, 0.2, 0.3], ValueError, "Unknown label type"),
    ],
)
def test_bad_data_is_refused(x: Any, y: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        classifier().fit(x, y)


def test_predictions_need_a_fit_and_inputs_of_its_shape() -> None:
    x, y = digits(30)
    with pytest.raises(NotFittedError):
        classifier().predict(x)
    fitted = classifier(image_shape=None).fit(x.reshape(-1, 8, 8), y)
    with pytest.raises(ValueError, match="trained on"):
        fitted.predict(x.reshape(-1, 8, 4, 2))
