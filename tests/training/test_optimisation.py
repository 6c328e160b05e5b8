"""`fit` with any optimiser and schedule of PyTorch, by name or by function, and callbacks that stop it."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from test_fit import QUICK, assert_same, data, network
from torch import Tensor, nn

import lila
from commands import QUICK as COMMAND_QUICK
from commands import run_lila
from damage import change, put
from lila.results.report.commands import command
from lila.training.choices import OPTIMISERS, SCHEDULES, ScheduleName
from lila.training.description import read_description
from lila.training.weights_optimiser import _OPTIMISERS, _SCHEDULES

QUICKER: dict[str, Any] = {"method": "non-invariant"}
SETTINGS: dict[str, Any] = QUICK | {"epochs": 4, "checkpoint_every": 1, "progress": "silent"}


def fit(**changes: Any) -> lila.Run:
    return lila.fit(network(), data(), lila.Affine2d(), **(SETTINGS | changes))


def resume(folder: Path, **changes: Any) -> lila.Run:
    return lila.resume(folder, network(), data(), lila.Affine2d(), progress="silent", **changes)


class InterruptionError(Exception):
    """Raised to interrupt a run."""


def interrupted(folder: Path, after: int = 2, **changes: Any) -> None:
    def stop(record: lila.EpochRecord) -> None:
        if record.epoch == after:
            raise InterruptionError

    with pytest.raises(InterruptionError):
        fit(folder=folder, callbacks=[stop], **changes)


OPTIONS: dict[str, dict[str, Any]] = {
    "adam": {"betas": [0.8, 0.99], "amsgrad": True},
    "sgd": {"nesterov": True},
    "rmsprop": {"momentum": 0.5, "centered": True},
}


def test_every_name_has_its_class() -> None:
    assert set(_OPTIMISERS) == set(OPTIMISERS)
    assert set(_SCHEDULES) == set(SCHEDULES) - {ScheduleName.COSINE}
    for name, cls in (_OPTIMISERS | _SCHEDULES).items():
        assert cls.__name__.lower() == name


@pytest.mark.parametrize("name", OPTIMISERS)
def test_every_optimiser_by_name_trains_and_goes_on_bit_for_bit(name: str, tmp_path: Path) -> None:
    changes = QUICKER | {"optimiser": name, "optimiser_options": OPTIONS.get(name), "lr": 0.01}
    whole = fit(**changes)
    interrupted(tmp_path, **changes)
    assert_same(resume(tmp_path), whole)
    assert not torch.equal(whole.model.net[1].weight, network()[1].weight)  # type: ignore[index]


def test_steps_that_are_not_fused_can_be_asked_for() -> None:
    usual = fit(**QUICKER)
    other = fit(**QUICKER, optimiser_options={"foreach": True})
    for name, weight in usual.model.net.state_dict().items():
        torch.testing.assert_close(other.model.net.state_dict()[name], weight, atol=1e-5, rtol=1e-4)


def test_mixed_arithmetic_is_for_steps_of_the_weights_alone() -> None:
    seen: dict[bool, set[torch.dtype]] = {False: set(), True: set()}

    class Watched(nn.Linear):
        def forward(self, input: Tensor) -> Tensor:
            output = super().forward(input)
            seen[torch.is_autocast_enabled("cpu")].add(output.dtype)
            return output

    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), Watched(36, 8), nn.Tanh(), Watched(8, 3))
    mixed = lila.fit(net, data(), lila.Affine2d(), **SETTINGS, arithmetic="mixed")
    assert seen[True] == {torch.bfloat16}
    assert seen[False] == {torch.float32, torch.float64}  # hyper-steps, and the audit before the first
    assert {weight.dtype for weight in mixed.model.net.parameters()} == {torch.float32}


def test_mixed_arithmetic_learns_nearly_the_same_and_goes_on_bit_for_bit(tmp_path: Path) -> None:
    full, mixed = fit(), fit(arithmetic="mixed")
    assert mixed.history[-1].loss == pytest.approx(full.history[-1].loss, rel=0.02)
    assert mixed.history[-1].loss != full.history[-1].loss
    interrupted(tmp_path, arithmetic="mixed")
    assert_same(resume(tmp_path), mixed)


@pytest.mark.parametrize(("gains", "settled"), [(True, "mixed"), (False, "full")])
def test_automatic_arithmetic_is_settled_when_a_run_begins(
    gains: bool, settled: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lila.training.setup.multiplies_bfloat16", lambda device: gains)
    whole = fit(arithmetic=settled)
    interrupted(tmp_path, arithmetic="auto")
    assert read_description(tmp_path).settings.arithmetic == settled
    monkeypatch.setattr("lila.training.setup.multiplies_bfloat16", lambda device: not gains)
    assert_same(resume(tmp_path), whole)  # on another machine too


SCHEDULE_OPTIONS: dict[str, dict[str, Any] | None] = {
    "constantlr": {"factor": 0.5, "total_iters": 2},
    "cosineannealinglr": None,
    "cosineannealingwarmrestarts": {"T_0": 3},
    "cycliclr": {"base_lr": 0.001, "max_lr": 0.01, "step_size_up": 4, "cycle_momentum": False},
    "exponentiallr": {"gamma": 0.9},
    "linearlr": None,
    "multisteplr": {"milestones": [1, 3]},
    "onecyclelr": None,
    "polynomiallr": None,
    "reducelronplateau": {"patience": 0, "threshold": 10.0},
    "steplr": {"step_size": 2},
}


@pytest.mark.parametrize("name", list(_SCHEDULES))
def test_every_schedule_by_name_goes_on_bit_for_bit(name: str, tmp_path: Path) -> None:
    changes = QUICKER | {"optimiser": "AdamW", "schedule": name, "schedule_options": SCHEDULE_OPTIONS[name], "lr": 0.01}
    whole = fit(**changes)
    interrupted(tmp_path, **changes)
    assert_same(resume(tmp_path), whole)
    other = fit(**QUICKER, optimiser="AdamW", lr=0.01)
    assert not torch.equal(whole.model.net[1].weight, other.model.net[1].weight)  # type: ignore[index]


def rates(optimisers: list[torch.optim.Optimizer], **changes: Any) -> list[float]:
    """The learning rate after each epoch of a run whose optimiser is caught."""

    def caught(weights: list[nn.Parameter]) -> torch.optim.Optimizer:
        optimisers.append(torch.optim.SGD(weights, lr=0.1))
        return optimisers[-1]

    found: list[float] = []
    fit(optimiser=caught, callbacks=[lambda _: found.append(optimisers[0].param_groups[0]["lr"])], **changes)
    return found


def test_a_schedule_takes_a_step_after_each_epoch_or_each_batch() -> None:
    halved = {"schedule": "StepLR", "schedule_options": {"step_size": 1, "gamma": 0.5}}
    assert rates([], **halved) == pytest.approx([0.05, 0.025, 0.0125, 0.00625])
    assert rates([], **halved, schedule_every="batch") == pytest.approx([0.1 * 0.5 ** (3 * e) for e in (1, 2, 3, 4)])
    by_function = rates([], schedule=lambda optimiser: torch.optim.lr_scheduler.ExponentialLR(optimiser, 0.5))
    assert by_function == pytest.approx([0.05, 0.025, 0.0125, 0.00625])
    cosine = rates([])  # a share of the rate that the function chose
    assert cosine[0] < 0.1
    assert cosine == sorted(cosine, reverse=True)
    assert rates([], passes="probed", **halved) == pytest.approx([0.05, 0.025, 0.0125, 0.00625])


def test_a_named_optimiser_does_not_decay_weights_beside_the_prior() -> None:
    plain = fit(optimiser="adamw", lr=0.01)
    assert_same(plain, fit(optimiser="adam", lr=0.01))
    decayed = fit(optimiser="adamw", lr=0.01, optimiser_options={"weight_decay": 0.5})
    assert not torch.equal(plain.model.net[1].weight, decayed.model.net[1].weight)  # type: ignore[index]


class Slowing(torch.optim.Optimizer):
    """Gradient descent that keeps plain numbers, for each weight and for each group, as some optimisers do."""

    def __init__(self, weights: Any) -> None:
        super().__init__(weights, {"lr": 0.1, "taken": 0})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            group["taken"] += 1
            for weight in group["params"]:
                seen = self.state[weight]["seen"] = self.state[weight].get("seen", 0.0) + 0.1
                weight -= group["lr"] / (group["taken"] + seen) * weight.grad


def two_rates(weights: list[nn.Parameter]) -> torch.optim.Optimizer:
    matrices, others = [p for p in weights if p.dim() > 1], [p for p in weights if p.dim() < 2]
    groups: list[dict[str, Any]] = [{"params": matrices, "lr": 0.02}, {"params": others}]
    return torch.optim.AdamW(groups, lr=0.01, weight_decay=0.0)


@pytest.mark.parametrize("optimiser", [Slowing, two_rates])
def test_an_optimiser_of_ones_own_goes_on_bit_for_bit(optimiser: Any, tmp_path: Path) -> None:
    own: dict[str, Any] = {
        "optimiser": optimiser,
        "schedule": lambda o: torch.optim.lr_scheduler.LambdaLR(o, lambda epoch: 0.9**epoch),
    }
    whole = fit(**own)
    interrupted(tmp_path, **own)
    assert json.loads((tmp_path / "run.json").read_text())["settings"]["optimiser"] == "own"
    assert_same(resume(tmp_path, **own), whole)
    assert_same(lila.load(tmp_path), whole)


def test_code_is_not_in_the_folder_and_must_be_given_again(tmp_path: Path) -> None:
    interrupted(tmp_path, optimiser=two_rates)
    with pytest.raises(lila.ArgumentError, match=r"a run does not hold code. Give the function again: optimiser="):
        resume(tmp_path)
    with pytest.raises(lila.ArgumentError, match="has the schedule 'cosine', so that it takes no function"):
        resume(tmp_path, optimiser=two_rates, schedule=two_rates)
    change(tmp_path / "run.json", put("settings", "optimiser", value="os.system"))
    with pytest.raises(lila.CheckpointError, match="no optimiser named 'os"):
        resume(tmp_path, optimiser=two_rates)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"optimiser": "lion"}, "no optimiser named 'lion'; choose one of 'adadelta'"),
        ({"schedule": "magic"}, "no schedule named 'magic'; choose one of 'cosine'"),
        ({"optimiser": "own"}, "a run does not hold code"),
        ({"optimiser_options": {"beta": 3}}, "'adam' does not take its options: .*beta"),
        ({"optimiser_options": {"betas": [2, 3]}}, "'adam' does not take its options: Invalid beta"),
        ({"optimiser_options": {"hook": print}}, r"optimiser_options\['hook'\] must be a number"),
        ({"optimiser_options": [1]}, "optimiser_options must be a dictionary"),
        ({"schedule": "StepLR"}, "'steplr' does not take its options: .*step_size"),
        (
            {"schedule": "cosineannealinglr", "schedule_options": {"T_max": 0}},
            "CosineAnnealingLR fails: integer",
        ),
        ({"schedule": "OneCycleLR", "schedule_options": {"total_steps": 5}}, "OneCycleLR fails: Tried to step"),
        ({"schedule_every": "batch"}, "are for the schedules of PyTorch"),
        ({"schedule": "steplr", "schedule_every": "hour"}, "'batch', 'epoch'"),
        ({"optimiser": torch.optim.SGD(network().parameters(), lr=1.0)}, "a name or a function that makes one"),
        ({"optimiser": 3}, "a name or a function that makes one"),
        ({"optimiser": lambda weights: 3}, "must make a torch.optim.Optimizer, not a int"),
        ({"optimiser": lambda weights: torch.optim.LBFGS(weights)}, "LBFGS does not take a step"),
        ({"optimiser": lambda weights: torch.optim.SGD(weights[:1])}, "must step all weights"),
        ({"optimiser": lambda weights: torch.optim.SGD(network().parameters())}, "must step all weights"),
        ({"schedule": lambda optimiser: 3}, "must make a torch.optim.lr_scheduler.LRScheduler"),
    ],
)
def test_what_is_no_optimiser_or_no_schedule_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(lila.ArgumentError, match=message):
        fit(**changes)


class Lists(torch.optim.SGD):
    """An optimiser whose state no checkpoint can hold."""

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        super().step()
        for weight in self.param_groups[0]["params"]:
            self.state[weight]["history"] = [Tensor()]


def test_state_that_a_checkpoint_cannot_hold_is_refused_and_without_a_folder_trains(tmp_path: Path) -> None:
    with pytest.raises(lila.ArgumentError, match="Lists keeps a list 'history' for its weights"):
        fit(optimiser=Lists, folder=tmp_path)
    assert len(fit(optimiser=Lists).history) == 4


def test_the_forecast_tries_the_optimiser_on_copies(capsys: pytest.CaptureFixture[str]) -> None:
    silent = fit(optimiser=two_rates)
    told = fit(optimiser=two_rates, progress="lines")
    assert "Expected:" in capsys.readouterr().err
    assert_same(silent, told)


@pytest.mark.parametrize("every", [1, 3])
def test_a_callback_stops_a_run_which_is_whole_and_goes_on_if_asked_to(every: int, tmp_path: Path) -> None:
    seen: list[int] = []
    callbacks: list[Any] = [
        lambda record: lila.STOP if record.epoch == 2 else None,
        lambda record: seen.append(record.epoch),
    ]
    stopped = fit(folder=tmp_path, callbacks=callbacks, checkpoint_every=every)
    assert seen == [1, 2]  # the others are asked too
    assert [record.epoch for record in stopped.history] == [1, 2]
    loaded = lila.load(tmp_path)
    assert_same(loaded, stopped)
    assert loaded.evidence.terms() == stopped.evidence.terms()
    stopped.save_posterior(tmp_path)
    whole = resume(tmp_path)
    assert_same(whole, fit())
    assert lila.load(tmp_path).evidence.terms() == whole.evidence.terms()
    assert not (tmp_path / "posterior.safetensors").exists()


def test_what_else_a_callback_returns_does_not_stop_a_run() -> None:
    assert len(fit(callbacks=[lambda record: True, lambda record: "stop"]).history) == 4


def test_the_command_line_names_optimisers_and_schedules_and_tells_them_again(photos: Path, tmp_path: Path) -> None:
    options = ["--optimiser", "nadam", "--optimiser-options", '{"betas": [0.8, 0.9]}', "--schedule", "steplr"]
    options += [
        "--schedule-options",
        '{"step_size": 1}',
        "--schedule-every",
        "batch",
        "--model",
        "lenet",
        "--size",
        "28",
    ]
    done = run_lila("train", photos, "--out", tmp_path / "run", *options, *COMMAND_QUICK)
    assert done.returncode == 0, done.stderr
    description = read_description(tmp_path / "run")
    assert description.settings.optimiser_options == {"betas": [0.8, 0.9]}
    assert description.task is not None
    again = shlex.split(command(description.task, description.settings))[1:]
    done = run_lila(*again, "--out", tmp_path / "again", "--no-baseline")
    assert done.returncode == 0, done.stderr
    first, second = (load_file(tmp_path / name / "checkpoint.safetensors") for name in ("run", "again"))
    assert all(torch.equal(first[name], second[name]) for name in first if name.startswith("net."))
    assert read_description(tmp_path / "again").settings == description.settings
    wrong = run_lila("train", photos, "--out", tmp_path / "other", "--optimiser-options", "betas=3")
    assert wrong.returncode == 2
    assert "is no JSON object" in wrong.stderr
    assert run_lila("train", photos, "--optimiser", "own").returncode == 2
