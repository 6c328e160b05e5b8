import argparse
import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from unittest import mock

import pytest
from safetensors.torch import load_file

from commands import QUICK, Lila
from lila.cli import train
from small_lila import COMMAND, environment


def test_a_folder_of_images_gives_a_run_that_other_commands_open(lila: Lila, trained: Path, photos: Path) -> None:
    described = json.loads((trained / "run.json").read_text())
    task = described["task"]
    assert task["recipe"]["source"] == str(photos)
    assert task["classes"] == ["blue", "green", "red"]
    assert task["examples"] == [24, 6]
    assert described["settings"]["epochs"] == 2
    again = lila("train", photos, "--out", trained)
    assert again.returncode == 2
    assert "lila resume" in again.stderr


@pytest.mark.parametrize(
    ("options", "padding"),
    [
        ([], "reflection"),
        (["--augment", "correlated-affine,colour"], "reflection"),
        (["--padding", "border"], "border"),
        (["--transform", "scaled"], None),
        (["--preset", "paper"], None),
        (["--augment", "horizontal-flip"], None),
    ],
)
def test_photographs_are_continued_by_their_mirror_image_unless_they_were_moved(
    photos: Path, options: list[str], padding: str | None
) -> None:
    parser = argparse.ArgumentParser()
    train.add_arguments(parser)
    arguments = parser.parse_args([str(photos), *options])
    described = train.describe_task(arguments, *train.make_data(arguments)).augmentation
    assert described.arguments.get("padding") == padding
    described.make()


def test_json_is_all_that_is_printed_and_settings_reach_the_run(lila: Lila, photos: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    arguments = ["--generators", "rotation,shear", "--padding", "border", "--init", "0.1", "--method", "augerino"]
    arguments += [
        "--model",
        "mlp",
        "--seed",
        "3",
        "--subset",
        "12",
        "--gradient-examples",
        "5",
        "--transform",
        "scaled",
    ]
    arguments += ["--passes", "probed"]
    done = lila("train", photos, "--json", "--out", out, *arguments, *QUICK)
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    assert list(record["ranges"]) == ["rotation", "shear"]
    assert set(record["test"]) == {"accuracy", "log_likelihood", "calibration_error", "brier"}
    described = json.loads((out / "run.json").read_text())
    settings, task = described["settings"], described["task"]
    assert (settings["method"], settings["seed"], settings["gradient_examples"]) == ("augerino", 3, 5)
    assert (task["recipe"]["subset"], task["recipe"]["seed"], task["recipe"]["transform"]) == (12, 3, "scaled")


def test_digits_and_a_network_of_ones_own(lila: Lila, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.py").write_text(
        "from torch import nn\n\n\ndef small(shape, classes):\n"
        "    return nn.Sequential(nn.Flatten(), nn.Linear(shape[1] * shape[2], classes))\n"
    )
    out = tmp_path / "run"
    arguments = ["--transform", "partially-rotated", "--model", "mine:small", "--subset", "20"]
    with monkeypatch.context() as patched:
        patched.syspath_prepend(tmp_path)
        done = lila("train", "digits", *arguments, "--out", out, *QUICK)
    assert done.returncode == 0, done.stderr
    assert "rotation" in done.stdout
    del sys.modules["mine"]
    assert lila("show", out).returncode == 0  # from the description in the run, without the module
    lost = lila("resume", out)
    assert lost.returncode == 4
    assert "mine:small" in lost.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["nowhere"], 3, "neither a path nor one of digits, mnist"),
        (["digits", "--subset", "5000"], 2, "there are 1000"),
        (["digits", "--model", "gpt"], 2, "no network named 'gpt'"),
        (["digits", "--model", "no.such:thing"], 4, "could not be made"),
        (["digits", "--generators", "flip"], 2, "no generator 'flip'"),
        (["digits", "--device", "abacus"], 2, "There is no device 'abacus': give cpu, cuda"),
        (["digits", "--epochs", "0"], 2, "epochs must be a whole number"),
        (["digits", "--epochs", "3", "--burn-in", "5"], 2, "burn-in of 5"),
        (["digits", "--method", "fixed"], 2, "all of them are zero"),
        (["digits", "--size", "8"], 2, "Only images in folders are resized"),
        (["digits", "--init", "a,b"], 2, "'a,b' is not a number"),
        (["digits", "--workers", "-1"], 2, "not a whole number"),
        (["digits", "--memory", "1KiB", "--subset", "20"], 5, "the budget is 1 KiB"),
    ],
)
def test_what_cannot_be_done_is_said_and_leaves_nothing_behind(
    lila: Lila, tmp_path: Path, arguments: list[str], code: int, words: str
) -> None:
    out = tmp_path / "run"
    done = lila("train", *arguments, "--out", out)
    assert done.returncode == code, done.stderr
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert not out.exists()


def test_known_data_that_is_not_here_says_how_to_get_it(lila: Lila, tmp_path: Path) -> None:
    done = lila("train", "mnist", "--data-dir", tmp_path, "--out", tmp_path / "run")
    assert done.returncode == 3
    assert "lila data get mnist" in done.stderr


def test_an_interrupted_run_is_resumed_as_if_it_had_not_been(lila: Lila, photos: Path, tmp_path: Path) -> None:
    settings = ("--model", "mlp", "--epochs", "20", "--samples", "2", "--burn-in", "0", "--batch-size", "8")
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    assert lila("train", photos, "--out", whole, *settings).returncode == 0
    command = [sys.executable, *COMMAND, "train", str(photos), "--out", str(cut), *settings, "--progress", "lines"]
    unbuffered = environment(PYTHONUNBUFFERED="1")
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=unbuffered)
    assert process.stdout is not None
    while not process.stdout.readline().lstrip().startswith("3/"):
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    process.communicate()
    assert process.returncode == 143
    unfinished = lila("show", cut)
    assert unfinished.returncode == 7
    assert "of 20 epochs are done. Go on with `lila resume" in unfinished.stderr
    done = lila("resume", cut, "--json")
    assert done.returncode == 0, done.stderr
    one, two = load_file(whole / "checkpoint.safetensors"), load_file(cut / "checkpoint.safetensors")
    assert one.keys() == two.keys()
    assert all(bool((one[name] == two[name]).all()) for name in one)


@pytest.mark.parametrize("command", [("show",), ("report",), ("predict", "photos"), ("export",)])
def test_a_run_that_was_killed_after_its_last_epoch_names_the_command_that_finishes_it(
    lila: Lila, photos: Path, trained: Path, tmp_path: Path, command: tuple[str, ...]
) -> None:
    cut = tmp_path / "cut off"
    shutil.copytree(trained, cut)
    whole = json.loads((cut / "result.json").read_text())
    (cut / "result.json").unlink()
    done = lila(command[0], cut, *(photos for _ in command[1:]))
    assert done.returncode == 7
    assert "all 2 epochs are done, but it ended before its evidence" in done.stderr
    assert f"without training again, with `lila resume '{cut}'`, or lila.resume" in done.stderr
    if command == ("show",):
        assert lila("resume", cut, "--json").returncode == 0
        assert json.loads((cut / "result.json").read_text())["evidence"] == whole["evidence"]


def test_resume_refuses_changed_data_and_runs_of_python(
    lila: Lila, photos: Path, trained: Path, tmp_path: Path
) -> None:
    copy, run = tmp_path / "photos", tmp_path / "run"
    shutil.copytree(photos, copy)
    assert lila("train", copy, "--model", "mlp", "--out", run, *QUICK).returncode == 0
    (copy / "red" / "0.png").unlink()
    (copy / "red" / "1.png").unlink()
    (copy / "red" / "2.png").unlink()
    done = lila("resume", run)
    assert done.returncode == 7
    assert "not that of the run any more" in done.stderr
    described = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps(described | {"task": None}))
    assert "not made by `lila train`" in lila("resume", run).stderr


def test_the_papers_preset_takes_fewer_examples_than_it_asks_for(lila: Lila, photos: Path, tmp_path: Path) -> None:
    arguments = ["--preset", "paper", "--model", "mlp", "--generators", "rotation, shear", "--init", "0.1,0.2"]
    done = lila("train", photos, *arguments, "--out", tmp_path / "run", *QUICK)
    assert done.returncode == 0, done.stderr
    described = json.loads((tmp_path / "run" / "run.json").read_text())
    assert described["settings"]["gradient_examples"] is None
    arguments = described["task"]["augmentation"]["arguments"]
    assert arguments["generators"] == ["rotation", "shear"]
    assert arguments["init"] == [0.1, 0.2]


def test_a_path_that_lies_in_a_file_is_refused(lila: Lila, trained: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for arguments in (["export", trained, "--out"], ["show", trained, "--picture"]):
        done = lila(*arguments, tmp_path / "file" / "out.png")
        assert done.returncode == 2
        assert f"{tmp_path / 'file'} is needed as a folder" in done.stderr


def test_what_the_operating_system_refuses_is_exit_code_8(lila: Lila, trained: Path, tmp_path: Path) -> None:
    with mock.patch("os.replace", side_effect=PermissionError(13, "Permission denied", str(tmp_path))):
        done = lila("export", trained, "--out", tmp_path / "out.py")
    assert done.returncode == 8
    assert str(tmp_path) in done.stderr
    assert "Traceback" not in done.stderr


def test_a_run_whose_data_was_moved_is_resumed_from_there_and_drawn_without_it(
    lila: Lila, photos: Path, tmp_path: Path
) -> None:
    before, after, run = tmp_path / "before", tmp_path / "after", tmp_path / "run"
    shutil.copytree(photos, before)
    assert lila("train", before, "--model", "mlp", "--out", run, *QUICK).returncode == 0
    before.rename(after)
    drawn = lila("show", run, "--picture", tmp_path / "ranges.png")
    assert drawn.returncode == 0
    assert "drawn without images" in drawn.stderr
    assert lila("resume", run).returncode == 3
    assert lila("resume", run, "--data", after).returncode == 0


def test_a_run_stands_beside_simpler_models_and_says_if_nothing_was_learned(
    lila: Lila, photos: Path, tmp_path: Path
) -> None:
    out, quick = tmp_path / "run", [option for option in QUICK if option != "--no-baseline"]
    done = lila("train", photos, "--model", "mlp", "--out", out, "--json", "--lr", "1e-9", "--lr-end", "1e-9", *quick)
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    assert set(record["baselines"]) == {"constant", "non_invariant"}
    assert record["baselines"]["constant"]["test"]["accuracy"] == pytest.approx(1 / 3)
    assert record["baselines"]["non_invariant"]["test"].keys() == record["test"].keys()
    assert record["verdict"]["text"]
    shown = lila("show", out)
    assert shown.stdout.split()[-10:] == record["verdict"]["text"].split()[-10:]
    assert json.loads(lila("resume", out, "--json").stdout)["baselines"] == record["baselines"]


def test_nothing_is_kept_for_test_if_the_share_is_zero(lila: Lila, photos: Path, tmp_path: Path) -> None:
    folder = tmp_path / "whole"
    done = lila("train", photos, "--model", "mlp", "--test-share", 0, "--out", folder, *QUICK)
    assert done.returncode == 0, done.stderr
    assert "30 images for training and no test data" in done.stderr
    assert "\n  test " not in done.stdout
    shown = json.loads(lila("show", folder, "--json").stdout)
    assert shown["test"] is None
    assert lila("report", folder, "--out", tmp_path / "report.html").returncode == 0
    assert "On the test data" not in (tmp_path / "report.html").read_text()
    assert lila("predict", folder, photos / "red" / "0.png").returncode == 0
    assert lila("resume", folder, "--progress", "silent").returncode == 0
