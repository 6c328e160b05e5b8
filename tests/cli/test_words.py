"""What the command line says to a newcomer: first steps, help in groups, and answers to misspelt words."""

import argparse
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

from commands import Lila
from lila.cli import GROUPS, make_parser
from lila.cli.first_steps import first_screen
from lila.data.task import Recipe
from lila.training.settings import Settings


def test_lila_alone_says_what_to_do_first(lila: Lila) -> None:
    done = lila()
    assert done.returncode == 0
    for words in ("lila train digits", "lila report", "lila train photos/", "lila doctor", "lila --help"):
        assert words in done.stdout
    assert "pip install" not in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 100


def test_the_first_step_is_an_installation_where_something_is_missing(
    lila: Lila, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lila.cli.first_steps.find_spec", lambda name: None)
    text = lila().stdout
    assert text.index("pip install 'lila-torch[digits,plots]'") < text.index("lila train digits")
    assert text == first_screen() + "\n"


def test_help_lists_commands_in_groups(lila: Lila) -> None:
    text = lila("--help").stdout
    for title, group in GROUPS.items():
        section = text.partition(f"\n{title}:\n")[2].partition("\n\n")[0]
        assert [line.split()[0] for line in section.splitlines()] == list(group)


def test_the_help_of_train_begins_with_five_options(lila: Lila) -> None:
    text = lila("train", "--help").stdout
    assert text.startswith("usage: lila train DATA [options]\n")
    first = re.findall(r"\n\w.*:\n", text)[0]
    section = text.partition(first)[2].partition("\n\n")[0]
    assert re.findall(r"^  (--[\w-]+)", section, flags=re.MULTILINE) == [
        "--out",
        "--size",
        "--model",
        "--augment",
        "--epochs",
    ]
    assert text.rstrip().splitlines()[-1].startswith("  lila train")


def test_every_setting_has_an_option() -> None:
    commands = next(action for action in make_parser("train")._actions if action.dest == "command")
    assert isinstance(commands.choices, dict)
    options = set(commands.choices["train"]._option_string_actions)
    names = [field.name for settings in (Settings, Recipe) for field in fields(settings) if field.name != "source"]
    assert {f"--{name.replace('_', '-')}" for name in names} <= options


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        ("train digits --optimizer adam", "There is no option --optimizer. Did you mean --optimiser?"),
        ("train --learning-rate=0.1", "There is no option --learning-rate. Did you mean --lr?"),
        ("train digits --optimiser admw", "Did you mean 'adamw'?"),
        ("train digits --elephant", "There is no option --elephant. (`lila train --help` tells more.)"),
        (
            "train digits stray",
            "lila train: There is no place for 'stray' in `lila train DATA [options]`. (`lila train -",
        ),
        (
            "train digits epochs 5",
            "There is no place for 'epochs' in `lila train DATA [options]`. Did you mean --epochs?",
        ),
        ("data list stray", "(`lila data list --help` tells more.)"),
        ("train digits -x", "lila train: There is no option -x."),
        ("compare digits --transform scald", "Did you mean 'scaled'?"),
        ("train digits --device gpu", "There is no device 'gpu': give cpu, cuda, or cuda:1 for the second GPU"),
        ("trian digits", "There is no command 'trian'. Did you mean 'train'?"),
        ("dance", "The commands are train, resume"),
        ("data lst", "Did you mean 'list'?"),
        ("--verison", "Did you mean --version?"),
        ("train", "DATA is missing. For example: `lila train digits"),
        ("train digitz", "Did you mean 'digits'?"),
        ("train digits --augment afine", "Did you mean 'affine'?"),
        ("train digits --model resnet8-8", "Did you mean 'resnet-8-8'?"),
        ("data get mnst", "Did you mean 'mnist'?"),
        ("reproduce acuracy", "Did you mean 'accuracy'?"),
        ("reproduce accuracy toy --network mnist:mlp", "toy at the scale 'small' has no jobs of mnist:mlp"),
        ("reproduce --network mnist:mlp", "so name one"),
    ],
)
def test_a_misspelt_word_is_answered_with_the_right_one(lila: Lila, words: str, answer: str) -> None:
    done = lila(*words.split())
    assert done.returncode in (2, 3)
    assert answer in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


def test_what_follows_two_dashes_or_is_a_value_is_no_option(lila: Lila, tmp_path: Path) -> None:
    assert "There is no data set '--optimizer'" in lila("train", "--", "--optimizer").stderr
    assert "no option" not in lila("train", str(tmp_path / "none"), "--lr", "-1").stderr


@pytest.fixture(scope="module")
def scripts(lila: Lila, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The completion scripts of all shells, named by the shell."""
    folder = tmp_path_factory.mktemp("completion")
    for shell in ("bash", "zsh", "fish", "powershell"):
        (folder / shell).write_text(lila("completion", shell).stdout)
    return folder


def completions(shell: str, code: str) -> list[str]:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    done = subprocess.run(
        [shell, "-c", code], capture_output=True, text=True, check=True, env=os.environ | {"HOME": "/"}
    )
    return [line.partition("\t")[0] for line in done.stdout.splitlines()]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("lila do", {"doctor"}),
        ("lila data ", {"get", "list"}),
        ("lila train digits --sched", {"--schedule", "--schedule-every", "--schedule-options"}),
        ("lila train digits --transform fully", {"fully-rotated"}),
        ("lila compare digits --transform fully", {"fully-rotated"}),
        ("lila data get fash", {"fashion-mnist"}),
    ],
)
@pytest.mark.parametrize("shell", ["bash", "fish"])
def test_shells_complete_commands_options_and_values(scripts: Path, shell: str, line: str, found: set[str]) -> None:
    bash = f"""source {scripts / "bash"}
        COMP_LINE='{line}'; COMP_POINT=${{#COMP_LINE}}; COMP_WORDS=({line.rstrip()}{" ''" * line.endswith(" ")})
        COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 )); _shtab_lila lila; printf '%s\\n' "${{COMPREPLY[@]}}\""""
    fish = f"source {scripts / 'fish'}; complete -C '{line}'"
    assert set(map(str.strip, completions(shell, {"bash": bash, "fish": fish}[shell]))) == found


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "powershell"])
def test_the_scripts_know_all_values_that_the_parser_knows(scripts: Path, shell: str) -> None:
    script, separator = (scripts / shell).read_text(), "', '" if shell == "powershell" else " "
    for parser in parsers(make_parser(None, whole=True)):
        for action in parser._actions:
            if action.choices is not None and not isinstance(action, argparse._SubParsersAction):
                assert separator.join(map(str, action.choices)) in script, (parser.prog, action.dest)


def parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """A parser, and those of its commands."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from parsers(command)


def test_zsh_can_read_its_script(scripts: Path) -> None:
    completions("zsh", f"zsh -n {scripts / 'zsh'}")


def test_the_script_for_powershell_knows_options_and_values_and_quotes_texts(scripts: Path) -> None:
    script = (scripts / "powershell").read_text()
    assert "Register-ArgumentCompleter" in script
    for word in ("'doctor'", "'--gradient-probes'", "'partially-rotated'", "run''s network"):
        assert word in script
    entries = [line for line in script.splitlines() if line.startswith("    '")]
    text = r"'(?:[^']|'')*'"  # with an apostrophe doubled
    assert len(entries) > 100
    assert all(re.fullmatch(rf"    {text} = (?:{text}|@\((?:{text}(?:, )?)*\))", line) for line in entries)
