"""What a package index and a reader of the repository see: versions, extras, citation, workflow, and scripts of CI."""

import importlib.util
import re
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import lila
from commands import Lila

ROOT = Path(__file__).parent.parent
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def script(name: str) -> ModuleType:
    """A script of CI as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / ".ci" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def test_the_version_is_the_same_everywhere() -> None:
    assert f"\nversion: {lila.__version__}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"\n## {lila.__version__} - " in (ROOT / "CHANGELOG.md").read_text()


def test_the_authors_of_the_paper_are_credited() -> None:
    for name in ("CITATION.cff", "CITATION.bib"):
        text = (ROOT / name).read_text()
        for author in ("Immer", "van der Ouderaa", "Fortuin", "van der Wilk", "tsch"):
            assert author in text


def test_every_extra_is_named_by_those_that_ask_for_it() -> None:
    """Each `lila-torch[NAME]` in a message or a page is an extra."""
    files = [*ROOT.glob("src/lila/**/*.py"), *ROOT.glob("docs/*.md"), ROOT / "README.md"]
    named = {
        extra.strip()
        for path in files
        for found in re.findall(r"lila-torch\[([a-z, ]+)\]", path.read_text())
        for extra in found.split(",")
    }
    assert {"digits", "plots", "kornia", "lightning", "onnx", "sklearn"} <= named
    assert named <= set(PROJECT["optional-dependencies"])


def test_the_workflow_runs_what_is_there() -> None:
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    commands = re.findall(r"run: (.+)", workflow)
    assert ".ci/run" in commands
    assert {"make test-lowest", "make test-dist"} < set(commands)
    assert {command.split()[1] for command in commands if command.startswith("make ")} <= set(targets)


def test_the_lowest_versions_are_those_of_the_project(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = script("lowest_versions")
    assert made.lowest_versions(["a>=1.9", "B_c>=2", "a>=1.10"]) == {"a": "1.10", "b-c": "2"}
    with pytest.raises(SystemExit, match=r"'a<3' in pyproject\.toml has no lower bound"):
        made.lowest_versions(["a<3"])
    monkeypatch.setattr(sys, "argv", ["lowest_versions.py", "--keep", "torch"])
    made.main()
    lines = capsys.readouterr().out.splitlines()
    pinned = re.findall(r"^torch==.+$", (ROOT / "constraints.txt").read_text(), flags=re.MULTILINE)
    assert [line for line in lines if line.startswith("torch=")] == pinned
    for dependency in PROJECT["dependencies"][1:]:
        assert dependency.replace(">=", "==") in lines
    assert not [line for line in lines if line.startswith(("pytest", "mypy"))]


def test_the_first_block_of_the_readme_is_tried_with_the_wheel() -> None:
    made = script("try_wheel")
    commands = [made.adapted(line, Path("/w.whl")) for line in made.first_block((ROOT / "README.md").read_text())]
    assert commands[0][:2] == ["pip", "install"]
    assert commands[0][2].startswith("/w.whl[")
    assert any(words[:3] == ["lila", "train", "digits"] and "--epochs" in words for words in commands)
    with pytest.raises(SystemExit, match="cannot be tried: rm"):
        made.adapted("rm -r /", Path("w.whl"))


@pytest.mark.parametrize(
    ("package", "modules", "words", "extra"),
    [
        ("jinja2", "lila.results.report", ("report", "{run}"), "plots"),
        ("matplotlib", "lila.results.plots.style", ("show", "{run}", "--picture", "{out}"), "plots"),
        ("sklearn", "lila.data.digits", ("train", "digits"), "digits"),
    ],
)
def test_a_command_without_its_extra_names_it(
    package: str,
    modules: str,
    words: tuple[str, ...],
    extra: str,
    lila: Lila,
    trained: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in [*sys.modules]:
        if name.startswith(modules) or name.partition(".")[0] == package:
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)  # importing it fails
    done = lila(*(word.format(run=trained, out=tmp_path / "a.png") for word in words))
    assert done.returncode in (1, 3)
    assert f"pip install 'lila-torch[{extra}]'" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
