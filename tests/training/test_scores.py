from math import log

import pytest
import torch
from torch import nn

import lila
from lila.model.metrics import CalibrationBin, calibration_bins, calibration_error, class_scores
from lila.training.scores import check_confusion, count_calibration, count_confusions, evaluate


def test_class_scores_by_hand() -> None:
    probabilities = torch.tensor([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8], [0.7, 0.3]], dtype=torch.float64)
    y = torch.tensor([0, 1, 1, 0])
    scores = class_scores(probabilities, y)
    assert scores["accuracy"] == 0.75
    assert scores["log_likelihood"] == pytest.approx((log(0.9) + log(0.4) + log(0.8) + log(0.7)) / 4)
    assert scores["brier"] == pytest.approx((2 * 0.01 + 2 * 0.36 + 2 * 0.04 + 2 * 0.09) / 4)
    # Each confidence has a bin of its own: gaps 0.1, 0.6, 0.2 and 0.3.
    assert scores["calibration_error"] == pytest.approx((0.1 + 0.6 + 0.2 + 0.3) / 4)


def test_a_calibrated_predictor_has_no_calibration_error() -> None:
    confidence = torch.full((10,), 0.7, dtype=torch.float64)
    correct = torch.tensor([1.0] * 7 + [0.0] * 3, dtype=torch.float64)
    assert calibration_error(confidence, correct) == pytest.approx(0, abs=1e-12)
    assert calibration_error(torch.ones(4), torch.zeros(4)) == pytest.approx(1.0)


def test_bins_of_confidence_tell_how_often_predictions_are_right() -> None:
    confidence = torch.tensor([1.0, 0.97, 0.99, 0.51, 0.52], dtype=torch.float64)
    correct = torch.tensor([True, True, False, False, True])
    unsure, sure = calibration_bins(confidence, correct)
    assert (unsure.count, sure.count) == (2, 3)
    assert (unsure.confidence, unsure.accuracy) == pytest.approx((0.515, 0.5))
    assert (sure.confidence, sure.accuracy) == pytest.approx((2.96 / 3, 2 / 3))
    error = sum(one.count * abs(one.accuracy - one.confidence) for one in (unsure, sure)) / 5
    assert calibration_error(confidence, correct.double()) == pytest.approx(error)
    for wrong in ({"count": 0}, {"confidence": 1.1}, {"accuracy": -0.1}):
        with pytest.raises(lila.ArgumentError, match="lie between 0 and 1"):
            CalibrationBin(**{"count": 1, "confidence": 0.5, "accuracy": 0.5} | wrong)
    logits = torch.tensor([[2.0, 0.0], [0.0, 2.0]])
    found = count_calibration(lila.Categorical(), logits, torch.tensor([0, 0]))
    assert found is not None
    assert [one.accuracy for one in found] == [0.5]
    assert count_calibration(lila.Gaussian(), logits, logits) is None


def test_evaluation_does_not_depend_on_the_batch_and_leaves_the_mode() -> None:
    model = lila.InvariantModel(nn.Linear(2, 3), lila.Rotation2d(init=0.5), samples=4).train()
    data = torch.rand(7, 2), torch.tensor([0, 1, 2, 0, 1, 2, 0])
    one, all_ = (evaluate(model, lila.Categorical(), data, batch) for batch in (1, 7))
    assert one == pytest.approx(all_)
    assert model.training
    assert set(one) == {"log_likelihood", "accuracy", "calibration_error", "brier"}
    real = data[0], torch.rand(7, 3)
    assert set(evaluate(model, lila.Gaussian(), real, 3)) == {"log_likelihood"}


def test_confusions_are_counted_by_true_and_predicted_class() -> None:
    f = torch.tensor([[2.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 2.0]])
    y = torch.tensor([0, 0, 1, 2])
    assert count_confusions(lila.Categorical(), f, y) == [[1, 1, 0], [0, 1, 0], [0, 0, 1]]
    assert count_confusions(lila.Gaussian(), f, f) is None
    for wrong in ([[1]], [[1, 2], [3]], [[1, -2], [3, 4]]):
        with pytest.raises(lila.ArgumentError, match="as many columns as rows"):
            check_confusion(wrong)
