"""Print constraints that hold each package to the lowest version that pyproject.toml allows.

    python .ci/lowest_versions.py [--keep NAME ...] > lowest.txt

The dependencies of lila and of the extras that users install get their lowest versions; a package that several of them
ask for gets the highest of these. Packages that are to be kept get the version of constraints.txt. What remains is
left to pip.
"""

import argparse
import re
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
NOT_FOR_USERS = {"bench", "dev", "dist", "docs", "gallery", "networks", "test"}


def main() -> None:
    """Read the two files and print the constraints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", nargs="*", default=[], metavar="NAME", help="keep these as in constraints.txt")
    keep = {canonical(name) for name in parser.parse_args().keep}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    pinned = dict(pins((ROOT / "constraints.txt").read_text()))
    extras = [lines for name, lines in project["optional-dependencies"].items() if name not in NOT_FOR_USERS]
    asked = [
        line for lines in extras for line in lines if not line.startswith(f"{project['name']}[")
    ]  # no extras again
    versions = lowest_versions([*project["dependencies"], *asked])
    unknown = keep - set(pinned)
    if unknown:
        raise SystemExit(f"constraints.txt has no version of {', '.join(sorted(unknown))} to keep.")
    for name, version in sorted((versions | {name: pinned[name] for name in keep}).items()):
        print(f"{name}=={version}")


def lowest_versions(requirements: Iterable[str]) -> dict[str, str]:
    """Return the lowest version of each package that satisfies all requirements "name>=version"."""
    found: dict[str, str] = {}
    for line in requirements:
        match = re.fullmatch(r"([\w.-]+)>=([\d.]+)", line)
        if match is None:
            raise SystemExit(f"{line!r} in pyproject.toml has no lower bound of the form name>=version.")
        name, version = canonical(match[1]), match[2]
        found[name] = max(found.get(name, version), version, key=numbers)
    return found


def pins(text: str) -> Iterator[tuple[str, str]]:
    """Return name and version of each line "name==version"."""
    for name, version in re.findall(r"^([\w.-]+)==(\S+)$", text, flags=re.MULTILINE):
        yield canonical(name), version


def canonical(name: str) -> str:
    """Return the name of a package in the spelling that package indexes compare."""
    return re.sub(r"[-_.]+", "-", name).lower()


def numbers(version: str) -> tuple[int, ...]:
    """Return the parts of a version as numbers."""
    return tuple(int(part) for part in version.split("."))


if __name__ == "__main__":
    main()
