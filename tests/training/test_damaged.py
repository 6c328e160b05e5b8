"""Folders of runs that are damaged, mixed up or made to do harm: each is refused by a sentence with file and field."""

import json
import os
import shutil
import stat
from pathlib import Path
from typing import Any

import pytest
import torch
from test_fit import QUICK, assert_same, data, network, run
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import lila
from damage import COMPLEX, Change, change, checkpoint, put, put_checkpoint, without
from lila.training.architecture import build
from lila.training.lock import LOCK, FolderInUseError, locked


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved") / "run"
    run().save(folder)
    return folder


@pytest.fixture
def folder(saved: Path, tmp_path: Path) -> Path:
    shutil.copytree(saved, tmp_path / "run")
    return tmp_path / "run"


RELU = {"class": "torch.nn.ReLU", "arguments": {}}
LAYER = {"class": "torch.nn.Linear", "arguments": {"in_features": 2**20, "out_features": 2**20}}
DAMAGES: list[tuple[str, Change, str]] = [
    ("run.json", lambda _: 7, r"run\.json must be a JSON object, but is 7"),
    ("run.json", lambda _: [], r"run\.json must be a JSON object"),
    ("run.json", put("version", value=2), "reads the format lila-run 1"),
    ("run.json", put("format", value="other"), "reads the format lila-run 1"),
    ("run.json", put("run", value="me"), "32 hexadecimal digits"),
    ("run.json", without("architecture"), r"run\.json: architecture is missing"),
    ("run.json", put("settings", "epochs", value="many"), r"settings\.epochs must be a whole number, but is \"many\""),
    ("run.json", put("settings", "epochs", value=True), r"settings\.epochs must be a whole number"),
    ("run.json", put("settings", "epochs", value=0), "epochs must be a whole number of at least 1"),
    ("run.json", put("settings", "seed", value=10**400), r"settings\.seed must be a whole number"),
    ("run.json", put("settings", "lr", value=10**400), r"settings\.lr must be a finite number"),
    ("run.json", put("settings", "method", value="magic"), "no method named 'magic'"),
    ("run.json", put("settings", "microbatch", value=None), r"microbatch is missing"),
    ("run.json", put("architecture", "samples", value=10**9), "samples must lie between"),
    ("run.json", put("architecture", "samples", value=2.5), r"architecture\.samples must be a whole number"),
    ("run.json", put("architecture", "net", value=3), r"architecture\.net must be a JSON object"),
    ("run.json", put("architecture", "net", "children", "1", value=LAYER), "do not belong together"),
    ("run.json", put("architecture", "net", "children", "1", value={"class": "torch.nn.ModuleList"}), "neither of"),
    ("run.json", put("architecture", "net", "children", "1", "arguments", value=[1]), "arguments must be a JSON obj"),
    ("run.json", put("architecture", "net", "children", "1", "arguments", "device", value="cuda"), "is no argument of"),
    ("run.json", put("architecture", "net", "children", "1", "arguments", "bias", value={}), "a short text or a list"),
    ("run.json", put("architecture", "net", "children", "a.b", value=RELU), r"a\.b"),
    ("run.json", put("architecture", "net", "children", "\n" * 300, value=3), r"net\.'\\n.* does not describe a"),
    ("run.json", put("architecture", "net", "children", "1", "arguments", "\n" * 300, value=3), "is no argument of"),
    ("run.json", put("settings", "method", value="magic\t" * 10**5), "no method named 'magic"),
    ("run.json", put("architecture", "augmentation", value=LAYER), "kind Augmentation, not a Linear"),
    ("run.json", put("architecture", "augmentation", "arguments", "generators", value=["flip"]), "no generator 'flip'"),
    ("run.json", put("architecture", "likelihood", value={"class": "os.system"}), "names a module 'os.system'"),
    ("result.json", lambda _: None, r"result\.json must be a JSON object, but is null"),
    ("result.json", put("shape", value=[]), "at least one side"),
    ("result.json", put("shape", value=[1, 6, 7]), r"does not take inputs of shape \(1, 6, 7\)"),
    ("result.json", put("shape", value="166"), r"shape must be a list"),
    ("result.json", put("shape", value=[2**40]), "each between 1 and"),
    ("result.json", put("evidence", "weight_penalty", value="large"), r"evidence\.weight_penalty must be a number"),
    ("result.json", put("test", value={"accuracy": "good"}), r"test\.accuracy must be a number, but is \"good\""),
    ("result.json", put("run", value="0" * 32), r"result\.json belongs to another run"),
    ("history.jsonl", without("ranges"), r"line 1: ranges is missing"),
    ("history.jsonl", without("run"), r"line 1 belongs to another run"),
    ("history.jsonl", put("epoch", value=3), r"line 1: epoch must be 1, but is 3"),
    ("history.jsonl", put("accuracy", value=7), r"An accuracy lies between 0 and 1"),
    ("history.jsonl", put("ranges", value=[1]), r"ranges must be a JSON object"),
    ("history.jsonl", put("seconds", "hyper", value="long"), r"seconds\.hyper must be a number"),
    ("history.jsonl", put("ranges", value={"rotation": 1.0}), r"line 2: ranges must have the names of line 1"),
    ("history.jsonl", lambda _: 3, r"line 1 must be a JSON object, but is 3"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "how", "message"), DAMAGES)
def test_a_value_that_is_wrong_is_named(folder: Path, name: str, how: Change, message: str) -> None:
    change(folder / name, how)
    with pytest.raises(lila.CheckpointError, match=message) as caught:
        lila.load(folder)
    assert len(str(caught.value)) < 500
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["run.json", "result.json", "history.jsonl"])
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 100_000 + "]" * 100_000, "nested more than 32 levels"),
        ("[" * 100 + "]" * 100, "nested more than 32 levels"),
        ('{"a": NaN}', "NaN is no number"),
        ("{", "damaged and cannot be read"),
        (" " * 2**25 + "1", "characters, and at most"),
    ],
)
def test_a_file_that_is_no_sound_json_is_named(folder: Path, name: str, text: str, message: str) -> None:
    (folder / name).write_text(text)
    with pytest.raises(lila.CheckpointError, match=message):
        lila.load(folder)
    (folder / name).write_bytes(b"\xff\xfe\x00")
    with pytest.raises(lila.CheckpointError, match="damaged"):
        lila.load(folder)


@pytest.mark.parametrize("epoch", [None, "", "four", "-1", "5", "9" * 5000, "٣"])
def test_an_epoch_that_is_missing_or_wrong_is_named(folder: Path, epoch: str | None) -> None:
    tensors, metadata = checkpoint(folder)
    del metadata["epoch"]
    put_checkpoint(folder, tensors, metadata | ({} if epoch is None else {"epoch": epoch}))
    with pytest.raises(lila.CheckpointError, match=r"checkpoint\.safetensors: epoch must be a whole number"):
        lila.load(folder)


@pytest.mark.parametrize("name", ["net.1.weight", "augmentation.eta", "prior.log_precisions.0"])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_values_that_are_not_finite_are_named(folder: Path, name: str, value: float) -> None:
    tensors, metadata = checkpoint(folder)
    tensors[name].view(-1)[0] = value
    put_checkpoint(folder, tensors, metadata)
    with pytest.raises(lila.CheckpointError, match=rf"'{name}' holds NaN"):
        lila.load(folder)
    with pytest.raises(lila.CheckpointError, match=rf"'{name}' holds NaN"):
        lila.resume(folder, network(), data(), lila.Affine2d())


def test_the_state_of_an_optimiser_has_the_shape_of_its_parameter(tmp_path: Path) -> None:
    lila.fit(network(), data(), lila.Affine2d(), folder=tmp_path, progress="silent", **QUICK)
    tensors, metadata = checkpoint(tmp_path)
    put_checkpoint(tmp_path, tensors | {"optimiser.weights.0.exp_avg": torch.zeros(2)}, metadata)
    with pytest.raises(lila.CheckpointError, match=r"optimiser\.weights\.0\.exp_avg' has shape \(2,\)"):
        lila.resume(tmp_path, network(), data(), lila.Affine2d())


@pytest.mark.parametrize("dtype", [torch.int64, *COMPLEX])
@pytest.mark.parametrize("name", ["net.1.weight", "prior.log_precisions.0"])
def test_tensors_of_another_type_are_named(folder: Path, name: str, dtype: torch.dtype) -> None:
    tensors, metadata = checkpoint(folder)
    put_checkpoint(folder, tensors | {name: tensors[name].to(dtype)}, metadata)
    with pytest.raises(lila.CheckpointError, match=r"checkpoint\.safetensors"):
        lila.load(folder)


def test_every_flipped_bit_of_the_tensors_is_noticed(folder: Path) -> None:
    path = folder / "checkpoint.safetensors"
    content = path.read_bytes()
    begin = 8 + int.from_bytes(content[:8], "little")
    for position in range(begin, len(content), (len(content) - begin) // 40):
        for bit in (0, 7):
            damaged = bytearray(content)
            damaged[position] ^= 1 << bit
            path.write_bytes(damaged)
            with pytest.raises(lila.CheckpointError, match="do not have the checksum"):
                lila.load(folder)


@pytest.mark.parametrize("name", ["run.json", "result.json", "history.jsonl", "checkpoint.safetensors"])
def test_files_of_two_runs_are_not_mixed(folder: Path, tmp_path: Path, name: str) -> None:
    run(seed=1).save(tmp_path / "other")
    shutil.copy(tmp_path / "other" / name, folder / name)
    with pytest.raises(lila.CheckpointError, match="belongs to another run"):
        lila.load(folder)


def test_a_huge_layer_is_refused_before_there_is_memory_for_it(folder: Path) -> None:
    change(folder / "run.json", put("architecture", "net", "children", "1", value=LAYER))
    with pytest.raises(lila.CheckpointError, match="do not belong together"), Largest() as largest:
        lila.load(folder)
    assert largest.bytes < 2**20
    change(folder / "run.json", put("architecture", "augmentation", value=LAYER))
    with pytest.raises(lila.CheckpointError), Largest() as largest:
        lila.load(folder)
    assert largest.bytes < 2**20


class Largest(TorchDispatchMode):
    """The bytes of the largest tensor that is made, of those that have memory."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.bytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        made = [t for t in tree_leaves(result) if isinstance(t, torch.Tensor) and t.device.type != "meta"]
        self.bytes = max([self.bytes, *(tensor.nbytes for tensor in made)])
        return result


def test_a_layer_that_makes_huge_activations_is_refused(folder: Path) -> None:
    layers = json.loads((folder / "run.json").read_text())["architecture"]["net"]["children"]
    pad = {"class": "torch.nn.ZeroPad1d", "arguments": {"padding": [0, 2**31 - 1]}}
    pool = {"class": "torch.nn.AdaptiveAvgPool1d", "arguments": {"output_size": 36}}
    grown = {"0": layers.pop("0"), "pad": pad, "pool": pool, **layers}
    change(folder / "run.json", put("architecture", "net", "children", value=grown))
    with pytest.raises(lila.CheckpointError, match="takes 8 GiB for a single input"):
        lila.load(folder)


@pytest.mark.parametrize("name", ["Module", "ModuleList", "ParameterList", "Transformer", "LSTM", "init", "__dict__"])
def test_only_listed_layers_are_made(name: str) -> None:
    with pytest.raises(lila.CheckpointError, match=r"neither of torch\.nn"):
        build({"class": f"torch.nn.{name}", "arguments": {}})


def test_all_files_have_the_same_permissions(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        lila.fit(network(), data(), lila.Affine2d(), folder=tmp_path / "run", progress="silent", **QUICK)
    finally:
        os.umask(before)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "run").iterdir()}
    assert set(modes.values()) == {0o640}, modes


def test_a_folder_in_use_is_refused_and_its_process_named(tmp_path: Path) -> None:
    with locked(tmp_path / "run"):
        assert (tmp_path / "run" / LOCK).exists()
        with pytest.raises(FolderInUseError, match=rf"run is in use: process {os.getpid()} on "):
            lila.fit(network(), data(), lila.Affine2d(), folder=tmp_path / "run", **QUICK)
        with pytest.raises(FolderInUseError, match="in use"):
            run(epochs=1, burn_in=0).save(tmp_path / "run")
    assert not (tmp_path / "run").exists()  # as nothing came into it
    lila.fit(network(), data(), lila.Affine2d(), folder=tmp_path / "run", **QUICK)
    with locked(tmp_path / "run"), pytest.raises(FolderInUseError, match="in use"):
        lila.resume(tmp_path / "run", network(), data(), lila.Affine2d())


def test_a_history_is_appended_and_cut_back_to_the_checkpoint(tmp_path: Path) -> None:
    seen: list[int] = []

    def stop(record: lila.EpochRecord) -> None:
        history = tmp_path / "history.jsonl"
        if history.exists():
            seen.append(history.stat().st_ino)
        if record.epoch == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lila.fit(network(), data(), lila.Affine2d(), folder=tmp_path, callbacks=[stop], **QUICK)
    history = tmp_path / "history.jsonl"
    assert len(set(seen)) == 1  # the same file, longer
    text = history.read_text()
    assert len(text.splitlines()) == 3
    history.write_text(text + text.splitlines()[2] + "\n{half a li")
    resumed = lila.resume(tmp_path, network(), data(), lila.Affine2d())
    assert_same(resumed, run())
    assert history.read_text().startswith(text)
    assert [json.loads(line)["epoch"] for line in history.read_text().splitlines()] == [1, 2, 3, 4]


def test_weights_that_become_nan_are_not_written(tmp_path: Path) -> None:
    net = network()

    def spoil(record: lila.EpochRecord) -> None:  # the next gradient, of a loss that is finite
        net[1].weight.register_hook(lambda gradient: gradient * float("nan"))  # type: ignore[index]

    settings: dict[str, Any] = QUICK | {"checkpoint_every": 1, "batch_size": 20, "microbatch": 20}
    with pytest.raises(lila.NumericalError, match=r"Epoch 2: 'net\.1\.weight' is not finite"):
        lila.fit(net, data(), lila.Affine2d(), folder=tmp_path, callbacks=[spoil], method="augerino", **settings)
    tensors, metadata = checkpoint(tmp_path)
    assert metadata["epoch"] == "1"
    assert tensors["net.1.weight"].isfinite().all()


def test_scalars_are_the_numbers_of_a_record() -> None:
    made = run().history[-1]
    assert made.evidence is not None
    flat = lila.scalars(made)
    assert flat["evidence/value"] == made.evidence.value
    assert flat["ranges/rotation"] == made.ranges["rotation"]
    assert flat["seconds/hyper"] == made.seconds.hyper
    assert all(isinstance(number, int | float) for number in flat.values())
    with pytest.raises(lila.NumericalError, match="ranges/rotation"):
        lila.EpochRecord(epoch=1, loss=0.5, ranges={"rotation": float("inf")})


def test_a_network_that_cannot_be_described_is_still_brought_by_the_user(tmp_path: Path) -> None:
    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = network()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            out: torch.Tensor = self.body(x)
            return out

    made = lila.fit(Own(), data(), lila.Affine2d(), folder=tmp_path, progress="silent", **QUICK)
    assert json.loads((tmp_path / "run.json").read_text())["architecture"]["net"] is None
    assert_same(made, lila.load(tmp_path, net=Own()))
