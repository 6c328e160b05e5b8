"""What came from a file is quoted wherever it is shown, and no image is shown because a run names its path."""

import ast
import html
import json
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from commands import QUICK, Lila
from damage import change, put
from lila._util.shell import option, printable, quoted
from lila.augment.base import InputFormat
from lila.augment.images import LieImages
from lila.augment.lie import Generator
from lila.cli import make_parser
from lila.data.task import read_source
from lila.results.report.commands import command, next_steps
from lila.training.description import OwnCode, read_description, read_task

HOSTILE = [
    "$(touch {marker})",
    "`touch {marker}`",
    "x; touch {marker}",
    "x' ; touch {marker} ; '",
    'x" && touch {marker} && "',
    "x\ntouch {marker}\n",
    "x\x1b[201~\rtouch {marker}\r",
    "$'x' & touch {marker} #",
    "--out={marker}",
    "-x",
    "!! ~ * {{a,b}} \\ \\n",
    "</code><script>alert(1)</script>",
    "\N{RIGHT-TO-LEFT OVERRIDE}gnp.x",
    "x\udcffy",
]
MARKUP = '<img src=x onerror="alert(1)">'


@pytest.fixture
def copied(trained: Path, tmp_path: Path) -> Path:
    shutil.copytree(trained, tmp_path / "copied")
    return tmp_path / "copied"


def words(text: str, folder: Path) -> list[str]:
    """The words that bash makes of a command that begins with `lila`."""
    script = "lila() { printf '%s\\0' \"$@\"; }\n" + text
    done = subprocess.run(["bash", "-c", script], cwd=folder, capture_output=True, check=True)
    assert done.stderr == b""
    return [word.decode(errors="surrogateescape") for word in done.stdout.split(b"\0")[:-1]]


@pytest.mark.parametrize("text", HOSTILE)
def test_a_shell_takes_a_quoted_text_for_one_word(text: str, tmp_path: Path) -> None:
    text = text.format(marker="it-ran")
    assert words(f"lila {quoted(text)}", tmp_path) == [text]
    assert "".join(words(f"lila {option('name', text)}", tmp_path)).removeprefix("--name").lstrip("=") == text
    assert quoted(text).isprintable()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", HOSTILE)
def test_the_command_that_runs_it_again_is_the_command_and_no_other(text: str, trained: Path, tmp_path: Path) -> None:
    text, description = text.format(marker="it-ran"), read_description(trained)
    task = read_task(trained, description)
    hostile = replace(
        task,
        recipe=replace(task.recipe, source=text),
        data_dir=text,
        model=text,
        classes=(text,) * 3,
        augmentation=replace(task.augmentation, family=f"a:{text}", arguments={"generators": [text], "padding": text}),
    )
    again = words(command(hostile, description.settings), tmp_path)
    assert again[0] == "train"
    assert list(tmp_path.iterdir()) == []
    assert again[1] == (f"./{text}" if text.startswith("-") else text)
    assert again[again.index("--augment") + 1] == f"a:{text}"
    for name in ("--data-dir", "--model", "--generators", "--padding"):
        assert f"{name}={text}" in again if text.startswith("-") else again[again.index(name) + 1] == text
    names = {word.partition("=")[0] for word in again if word.startswith("--") and word != text}
    assert names <= options("train") - {"--out"}


@pytest.mark.parametrize("text", HOSTILE)
def test_what_to_do_next_names_the_folder_and_no_other_command(text: str, trained: Path, tmp_path: Path) -> None:
    text, task = text.format(marker="it-ran"), read_task(trained, read_description(trained))
    own = OwnCode(f"a:{text}", text)
    *commands, python = next_steps(text, task.augmentation.make(), task, own)
    assert [words(step.command, tmp_path)[0] for step in commands] == ["export", "predict", "export"]
    for step in commands:
        given = words(step.command, tmp_path)
        assert given[1] == (f"./{text}" if text.startswith("-") else text)
        assert given[given.index("--model") + 1] == f"a:{text}"
    assert list(tmp_path.iterdir()) == []
    lines = ast.parse(python.command).body
    assert len(lines) == 4
    assert ast.unparse(lines[1]) == f"run = lila.load({text!r})"


def options(name: str) -> set[str]:
    """The options of a command."""
    commands = next(a for a in make_parser(name)._actions if a.dest == "command")
    assert isinstance(commands.choices, dict)
    return set(commands.choices[name]._option_string_actions)


def test_arguments_of_an_augmentation_have_the_names_of_options(lila: Lila, copied: Path) -> None:
    change(copied / "run.json", put("task", "augmentation", "arguments", value={"x; touch y #": 1}))
    done = lila("report", copied, "--out", copied / "r.html")
    assert done.returncode == 7
    assert "has no option 'x; touch y #' for an augmentation" in done.stderr


def test_a_report_of_hostile_names_holds_no_markup_of_theirs(lila: Lila, copied: Path, tmp_path: Path) -> None:
    hostile = tmp_path / MARKUP
    shutil.copytree(copied, hostile)
    for names in (("task", "recipe", "source"), ("task", "data_dir"), ("task", "model")):
        change(hostile / "run.json", put(*names, value=MARKUP + "'\"\udcff\n</pre>"))
    change(hostile / "run.json", put("task", "classes", value=[MARKUP, "b", "c"]))
    change(hostile / "result.json", put("versions", value={MARKUP: MARKUP}))
    change(hostile / "result.json", put("test", value={"accuracy": 0.5, MARKUP: 0.5}))
    done = lila("report", hostile, copied, "--out", tmp_path / "r.html")
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "r.html").read_text()
    assert MARKUP not in text
    assert MARKUP in html.unescape(text)
    assert "\x1b" not in done.stderr


@pytest.mark.parametrize("name", ["$\\frac{", MARKUP, "a\nb"])
def test_ranges_of_a_history_are_those_of_the_augmentation(lila: Lila, copied: Path, name: str) -> None:
    records = [json.loads(line) for line in (copied / "history.jsonl").read_text().splitlines()]
    for record in records:
        record["ranges"][name] = record["ranges"].pop("rotation")
    (copied / "history.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    done = lila("report", copied, "--out", copied / "r.html")
    assert done.returncode == 7, done.stderr
    assert "the ranges in history.jsonl are not those of the run's augmentation" in done.stderr


def test_half_a_character_is_refused(lila: Lila, copied: Path, photos: Path) -> None:
    change(copied / "run.json", put("task", "classes", value=["\ud800", "b", "c"]))
    done = lila("predict", copied, photos)
    assert done.returncode == 7
    assert "half of a character" in done.stderr


def test_a_terminal_gets_no_escape_sequence_of_a_file(lila: Lila, copied: Path) -> None:
    change(copied / "run.json", put("task", "model", value="a:b\x1b[2J; rm -r ~"))
    change(copied / "run.json", put("architecture", "net", value=None))
    done = lila("show", copied)
    assert done.returncode == 4
    assert "\x1b" not in done.stderr
    assert "--model $'a:b\\033[2J; rm -r ~'" in done.stderr
    assert printable("a\x1bb\r\N{RIGHT-TO-LEFT OVERRIDE}") == "a\\x1bb\\r\\u202e"


def test_a_terminal_gets_no_name_of_a_class_or_a_score_as_it_is(lila: Lila, copied: Path) -> None:
    change(copied / "run.json", put("task", "classes", value=["a\x1b[2J", "b", "c"]))
    change(copied / "result.json", put("test", value={"accuracy\x1b]0;title\x07": 0.5}))
    shown = lila("show", copied, "--classes")
    assert shown.returncode == 0, shown.stderr
    assert not set("\x1b\x07") & set(shown.stdout)
    assert "a\\x1b[2J" in shown.stdout


def test_a_terminal_gets_no_name_of_a_folder_as_it_is(lila: Lila, photos: Path, tmp_path: Path) -> None:
    shutil.copytree(photos, tmp_path / "photos")
    (tmp_path / "photos" / "red").rename(tmp_path / "photos" / "red\x1b[2J")
    done = lila("train", tmp_path / "photos", "--model", "mlp", "--out", tmp_path / "run", *QUICK)
    assert done.returncode == 0, done.stderr
    assert "red\\x1b[2J: 8" in done.stderr
    assert "\x1b" not in done.stdout + done.stderr


@pytest.mark.parametrize("name", ["x\nimport os; os.abort()", 'x"""\nraise SystemExit\n"""', "x\rraise SystemExit"])
def test_exported_code_is_the_same_whatever_a_generator_is_called(name: str) -> None:
    turned = Generator(name, [[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    code = LieImages([turned], init=0.5).export("torch", InputFormat((1, 8, 8), (0.0,), (1.0,)))
    made: dict[str, Any] = {}
    exec(compile(code, "exported", "exec"), made)
    assert made["RANGES"] == [0.5]
    assert made["GENERATORS"] == [turned.matrix]


COMMANDS = {"report": ["report", "{run}", "--out", "{out}"], "show": ["show", "{run}", "--picture", "{out}"]}
for_each_command = pytest.mark.parametrize("command_", list(COMMANDS))


def arguments(name: str, run: Path, out: Path) -> list[str]:
    return [word.format(run=run, out=out) for word in COMMANDS[name]]


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """What was read as images of a run."""
    seen: list[tuple[Any, ...]] = []
    before = read_source

    def spy(recipe: Any, data_dir: Any = None) -> Any:
        seen.append((recipe.source, data_dir))
        return before(recipe, data_dir)

    monkeypatch.setattr("lila.training.description.read_source", spy)
    return seen


@for_each_command
def test_images_in_a_path_that_only_the_run_names_are_shown_if_asked_for(
    lila: Lila, trained: Path, photos: Path, tmp_path: Path, read: list[Any], command_: str
) -> None:
    done = lila(*arguments(command_, trained, tmp_path / "out.svg"))
    assert done.returncode == 0, done.stderr
    assert read == []
    assert f"a path that only the run names, '{photos}'" in done.stderr
    assert "--with-images" in done.stderr
    assert not re.search("<image|data:image", (tmp_path / "out.svg").read_text())
    done = lila(*arguments(command_, trained, tmp_path / "out.svg"), "--with-images")
    assert (done.returncode, done.stderr) == (0, "")
    assert read == [(str(photos), None)]
    assert re.search("<image|data:image", (tmp_path / "out.svg").read_text())


@for_each_command
def test_a_data_set_that_is_known_by_name_comes_from_the_users_own_folder(
    lila: Lila, copied: Path, tmp_path: Path, read: list[Any], command_: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LILA_DATA", str(tmp_path / "mine"))
    change(copied / "run.json", put("task", "recipe", "source", value="mnist"))
    change(copied / "run.json", put("task", "data_dir", value=str(tmp_path / "theirs")))
    done = lila(*arguments(command_, copied, tmp_path / "out.svg"))
    assert done.returncode == 0
    assert read == [("mnist", None)]
    assert str(tmp_path / "mine") in done.stderr
    done = lila(*arguments(command_, copied, tmp_path / "out.svg"), "--with-images")
    assert read[1:] == [("mnist", tmp_path / "theirs")]
