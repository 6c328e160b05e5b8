"""One pass in place of two: the estimate and its gradient with an earlier curvature."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch
from test_fit import QUICK, InterruptionError, assert_same, data, network

import lila
from cases import make_case
from lila.evidence import Evidence


@pytest.mark.parametrize("structure", ["kron", "diag", "full"])
def test_with_the_present_curvature_one_pass_gives_what_two_give(structure: str) -> None:
    case = make_case("cnn")
    evidence = case.evidence(structure, microbatch=2)
    expected = evidence.estimate(case.data, case.draw)
    gradients = evidence.gradient(case.data, expected)
    found, found_gradients = evidence.advance(case.data, expected.curvature, case.draw)
    assert found.terms() == pytest.approx(expected.terms(), rel=1e-12)
    for name, gradient in gradients.items():
        torch.testing.assert_close(found_gradients[name], gradient)


def test_the_earlier_curvature_is_used_for_the_gradient_and_the_present_one_returned() -> None:
    """The gradient is that of  log-likelihood - 1/2 <cotangent of the earlier curvature, present curvature>."""
    case = make_case("mlp")
    evidence = case.evidence("kron")
    earlier = evidence.estimate(case.data, lila.Draw(7, 7)).curvature.scaled(3.0)
    estimate, gradients = evidence.advance(case.data, earlier, case.draw)
    assert estimate.value == pytest.approx(evidence.estimate(case.data, case.draw).value)
    cotangent = earlier.cotangent(evidence.prior.precisions())
    batch = next(evidence.examples(case.data).batches(10))
    log_likelihood, curvature = evidence.gradient_pass(case.draw).batch(batch, differentiable=True)
    eta = evidence.model.augmentation.eta
    (expected,) = torch.autograd.grad(log_likelihood - 0.5 * cotangent.inner(curvature), [eta])  # type: ignore[arg-type]
    torch.testing.assert_close(gradients["augmentation.eta"], expected)


def test_without_anything_to_pull_back_it_is_the_estimate_and_the_priors_gradient() -> None:
    case = make_case("mlp")
    case.model.augmentation.requires_grad_(False)
    evidence = case.evidence("kron")
    expected = evidence.estimate(case.data, case.draw)
    estimate, gradients = evidence.advance(case.data, expected.curvature, case.draw)
    assert estimate.value == expected.value
    assert set(gradients) == {name for name in evidence.hyperparameters() if name.startswith("prior.")}


@pytest.mark.parametrize("structure", ["kron", "diag", "full"])
def test_a_curvature_is_saved_and_filled_again(structure: str) -> None:
    case = make_case("residual")
    evidence = case.evidence(structure)
    curvature = evidence.estimate(case.data, case.draw).curvature
    again = evidence.no_curvature().filled({name: tensor.clone() for name, tensor in curvature.saved().items()})
    assert torch.equal(again.log_det(evidence.prior.precisions()), curvature.log_det(evidence.prior.precisions()))


def calls(monkeypatch: pytest.MonkeyPatch, **settings: Any) -> list[str]:
    made: list[str] = []
    for name in ("estimate", "gradient", "advance"):
        method = getattr(Evidence, name)

        def counted(*args: Any, name: str = name, method: Any = method, **kwargs: Any) -> Any:
            made.append(name)
            return method(*args, **kwargs)

        monkeypatch.setattr(Evidence, name, counted)
    lila.fit(network(), data(), lila.Affine2d(), **(QUICK | {"progress": "silent"} | settings))
    return made


def test_lagged_passes_are_one_per_hyper_step_after_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    assert calls(monkeypatch, passes="lagged") == ["estimate", "gradient", "advance", "advance", "estimate"]


def test_exact_and_probed_passes_are_two_per_hyper_step(monkeypatch: pytest.MonkeyPatch) -> None:
    assert calls(monkeypatch, passes="probed") == ["estimate", "gradient"] * 3 + ["estimate"]


@pytest.mark.parametrize("structure", ["kron", "diag"])
def test_a_lagged_run_is_resumed_bit_for_bit(tmp_path: Path, structure: str) -> None:
    settings = QUICK | {"passes": "lagged", "structure": structure, "checkpoint_every": 1, "progress": "silent"}
    whole = lila.fit(network(), data(), lila.Affine2d(), **settings)

    def stop(record: dict[str, Any]) -> None:
        if record["epoch"] == 3:
            raise InterruptionError

    with pytest.raises(InterruptionError):
        lila.fit(network(), data(), lila.Affine2d(), folder=tmp_path, callbacks=[stop], **settings)
    assert_same(whole, lila.resume(tmp_path, network(), data(), lila.Affine2d(), progress="silent"))


def test_the_number_of_probes_follows_from_the_passes_and_the_number_of_examples() -> None:
    counts = {name: lila.Settings(passes=name).probe_counts(1250) for name in ("exact", "probed", "lagged")}
    assert counts == {"exact": (None, None), "probed": (2, 1), "lagged": (2, 1)}
    assert lila.Settings(passes="probed").probe_counts(60_000) == (1, 1)
    assert lila.Settings(passes="probed", probes=3, gradient_probes=2).probe_counts(1250) == (3, 2)
    assert lila.Settings(probes=3).probe_counts(1250) == (3, None)
    with pytest.raises(lila.ArgumentError, match="no kind of passes named 'fast'"):
        lila.Settings.from_dict(asdict(lila.Settings()) | {"passes": "fast"})
