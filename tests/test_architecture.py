"""The rooms of the package, and that imports run one way through them: from each room only to those before it."""

import ast
from pathlib import Path

import pytest

import lila

PACKAGE = Path(str(lila.__file__)).parent
ROOMS = (
    "errors",
    "_util",
    "augment",
    "data",
    "model",
    "networks",
    "curvature",
    "laplace",
    "training",
    "integrations",
    "results",
    "reproduce",
    "benchmarks",
    "compare",
    "cli",
)
MODULES = sorted(PACKAGE.rglob("*.py"))


def room(path: Path) -> str:
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def imported_names(path: Path) -> list[str]:
    """The modules of lila that a module imports, or imports from, wherever the import stands."""
    names: list[str] = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module == "lila":
            names += [f"lila.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return [name for name in names if name.startswith("lila.")]


def imported_rooms(path: Path) -> set[str]:
    """The rooms that a module imports from."""
    return {name.split(".")[1] for name in imported_names(path)}


def test_every_module_is_in_a_room() -> None:
    outside = {path.name for path in MODULES if room(path) not in ROOMS}
    assert outside == {"__init__.py", "__main__.py"}


@pytest.mark.parametrize("name", ROOMS)
def test_imports_run_one_way(name: str) -> None:
    allowed = set(ROOMS[: ROOMS.index(name) + 1])
    wrong = {
        str(path.relative_to(PACKAGE)): sorted(imported_rooms(path) & set(ROOMS) - allowed)
        for path in MODULES
        if room(path) == name and imported_rooms(path) & set(ROOMS) - allowed
    }
    assert not wrong


def test_the_engine_of_experiments_knows_nothing_of_the_paper() -> None:
    """Not by an import, nor by the name of a module in a string."""
    engine = [path for path in MODULES if path.relative_to(PACKAGE).parts[:2] == ("reproduce", "engine")]
    assert len(engine) > 5
    for path in [*engine, PACKAGE / "reproduce" / "__init__.py"]:
        assert not [name for name in imported_names(path) if name.startswith("lila.reproduce.paper")], path
        assert "reproduce.paper" not in path.read_text(), path
