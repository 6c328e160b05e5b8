"""The kinds of passes of a hyper-step, and that they are told apart only by what they should be."""

from dataclasses import asdict
from typing import Any

import pytest
import torch
from test_fit import QUICK, data, network

import lila
from lila.laplace.evidence import Evidence
from lila.networks.plain import mlp


def test_the_number_of_probes_follows_from_the_passes_and_the_number_of_examples() -> None:
    counts = {name: lila.Settings(passes=name).probe_counts(1250) for name in ("exact", "probed", "sampled")}
    assert counts == {"exact": (None, None), "probed": (1, 1), "sampled": (3, 1)}
    assert lila.Settings(passes="probed").probe_counts(60_000) == (1, 1)
    assert lila.Settings(passes="probed", probes=3, gradient_probes=2).probe_counts(1250) == (3, 2)
    assert lila.Settings(passes="exact", probes=3).probe_counts(1250) == (3, None)
    with pytest.raises(lila.ArgumentError, match="no kind of passes named 'fast'"):
        lila.Settings.from_dict(asdict(lila.Settings()) | {"passes": "fast"})


def subsets(monkeypatch: pytest.MonkeyPatch, passes: str) -> list[tuple[str, int | None]]:
    """Which passes a run makes, and over how many examples."""
    made: list[tuple[str, int | None]] = []
    for name, position in (("estimate", 2), ("gradient", 2)):
        method = getattr(Evidence, name)

        def counted(*args: Any, name: str = name, method: Any = method, position: int = position, **more: Any) -> Any:
            made.append((name, args[position + 1] if len(args) > position + 1 else None))
            return method(*args, **more)

        monkeypatch.setattr(Evidence, name, counted)
    lila.fit(network(), data(), lila.Affine2d(), **(QUICK | {"progress": "silent", "passes": passes}))
    return made


@pytest.mark.parametrize("passes", ["exact", "probed"])
def test_exact_and_probed_passes_see_all_examples(monkeypatch: pytest.MonkeyPatch, passes: str) -> None:
    assert subsets(monkeypatch, passes) == [("estimate", None), ("gradient", None)] * 3 + [("estimate", None)]


def test_sampled_passes_see_a_third_of_them_but_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    third = -(-len(data()[0]) // 3)
    assert subsets(monkeypatch, "sampled") == [("estimate", third), ("gradient", third)] * 3 + [("estimate", None)]


def test_the_evidence_of_a_finished_run_is_exact_for_few_classes() -> None:
    """However few probes the passes before it took."""
    run = lila.fit(
        network(), data(), lila.Affine2d(), **(QUICK | {"progress": "silent", "passes": "probed", "probes": 1})
    )
    draw = lila.Draw(0, 2 * QUICK["epochs"])
    exact, rough = (
        Evidence(run.model, run.likelihood, run.prior, probes=probes).estimate(data(), draw) for probes in (None, 1)
    )
    assert run.evidence.terms() == pytest.approx(exact.terms())
    assert rough.occam_factor != pytest.approx(exact.occam_factor)


@pytest.mark.slow
def test_probes_are_off_by_less_than_the_noise_of_the_augmentations_own_samples() -> None:
    """In each generator, by the default's probes; the noise is that of redrawing the S samples."""
    task = lila.load_data(lila.Recipe("digits", transform="partially-rotated", subset=300), in_memory=True)
    assert isinstance(task.train, tuple)
    data = task.train
    torch.manual_seed(0)
    run = lila.fit(
        mlp(task.shape, len(task.classes), width=50),
        data,
        lila.Affine2d(),
        progress="silent",
        epochs=20,
        batch_size=50,
        samples=15,
        eta_lr=0.1,
        burn_in=3,
        passes="probed",
        noise="independent",
    )

    def gradients(passes: str) -> torch.Tensor:
        probes, gradient_probes = lila.Settings(passes=passes).probe_counts(len(data[0]))
        evidence = Evidence(run.model, run.likelihood, run.prior, probes=probes, gradient_probes=gradient_probes)
        draws = [lila.Draw(1, epoch) for epoch in range(10)]
        found = [evidence.gradient(data, evidence.estimate(data, draw)) for draw in draws]
        return torch.stack([gradient["augmentation.eta"] for gradient in found])

    exact, probed = gradients("exact"), gradients("probed")
    noise, error = exact.std(0), (probed - exact).square().mean(0).sqrt()
    assert (error > 0).all()
    assert (error < noise).all()
    assert error.norm() < 0.5 * noise.norm()


def test_precisions_can_move_to_their_fixed_point_after_an_epoch_too() -> None:
    def trained(**changes: Any) -> lila.Run:
        settings = QUICK | {"passes": "exact", "epochs": 4, "burn_in": 1, "hyper_lr": 0.01} | changes
        return lila.fit(network(), data(), lila.Affine2d(), progress="silent", **settings)

    moved, stepped = trained(precision_steps="fixed-point"), trained()

    evidence = lila.Evidence(moved.model, moved.likelihood, moved.prior)
    estimate = evidence.estimate(data())
    before = {name: float(delta.detach()) for name, delta in moved.prior.by_group().items()}
    evidence.move_prior_to_fixed_point_(estimate.curvature)
    for name, delta in moved.prior.by_group().items():
        assert before[name] == pytest.approx(float(delta.detach()), rel=0.5)  # the weights have moved for an epoch
        small_step = abs(float(stepped.prior.by_group()[name].log().detach()))
        assert 0 < small_step < 0.1


def test_running_passes_have_no_gradient_steps_of_precisions() -> None:
    with pytest.raises(lila.ArgumentError, match="fixed point"):
        lila.Settings(passes="running", precision_steps="gradient")
