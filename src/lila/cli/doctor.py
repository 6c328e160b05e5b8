"""Say what lila finds on this machine, and check that it computes rightly here.

Shown are versions, the device, threads, memory within the limits of a container, data sets and extras. Then, in
about ten seconds, the gradient of the evidence is compared with central differences in float64, and float32 with
float64, on the processor and on the device. The exit code is 1, with a sentence for each cause, if something is wrong.
"""

import argparse
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lila.cli.options import takes_folder

if TYPE_CHECKING:
    from lila._util.extras import Package
    from lila.cli.machine import DataSet, Machine
    from lila.laplace.self_check import Agreement

EXAMPLES = """examples:
  lila doctor
  lila doctor --device cuda
  lila doctor --json > machine.json"""

_LITTLE = 2**30  # bytes of free memory that are too few


@dataclass(frozen=True)
class Findings:
    """What the doctor found.

    Attributes:
        machine: versions, device, threads and memory.
        packages: that lila and its extras ask for.
        data: the data sets known by name.
        check: the comparisons that were made; none if they could not be made.
        failure: why they could not be made, if so.
    """

    machine: "Machine"
    packages: "list[Package]"
    data: "list[DataSet]"
    check: "list[Agreement]"
    failure: str | None

    def problems(self) -> list[str]:
        """Return a sentence for each thing that is wrong."""
        return [*self._of_packages(), *self._of_machine(), *self._of_data(), *self._of_check()]

    def _of_packages(self) -> Iterator[str]:
        if not self.packages:
            yield "lila is not installed, only found in a folder: pip install lila-torch."
        for package in self.packages:
            wanted = "lila-torch" if package.extra is None else f"lila-torch[{package.extra}]"
            if package.too_old:
                yield (
                    f"{package.name} {package.version} is too old; lila needs {package.least} or newer: "
                    f"pip install --upgrade '{wanted}'."
                )
            elif package.version is None and package.extra is None:
                yield f"{package.name}, which lila needs, is not installed: pip install '{wanted}'."

    def _of_machine(self) -> Iterator[str]:
        from lila._util.memory import readable_bytes

        if self.machine.memory_free < _LITTLE:
            yield (
                f"Only {readable_bytes(self.machine.memory_free)} of memory are free, and even a small training takes "
                "about 1 GiB. Close other programs, or allow the container more."
            )

    def _of_data(self) -> Iterator[str]:
        for data in self.data:
            if data.problem is not None:
                yield f"{data.name}: {data.problem} Get it with `lila data get {data.name}`."

    def _of_check(self) -> Iterator[str]:
        if self.failure is not None:
            yield f"The check of the evidence could not be made: {self.failure}"
        for agreement in self.check:
            if not agreement.holds:
                yield (
                    f"The {agreement.what}: they differ by {agreement.difference:.1e}, and {agreement.allowed:.0e} is "
                    "allowed. Results on this machine cannot be trusted; install PyTorch anew, or in another version."
                )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `lila doctor`."""
    parser.add_argument("--device", help="to check beside the processor: cuda, cuda:1, ... [cuda if there is one]")
    takes_folder(
        parser.add_argument("--data-dir", type=Path, metavar="FOLDER", help="data sets known by name [LILA_DATA]")
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")


def run(arguments: argparse.Namespace) -> int:
    """Run `lila doctor`."""
    from lila.cli.processes import device

    where = device(arguments.device)
    findings = examine(where, arguments.data_dir)
    problems = findings.problems()
    if arguments.json:
        print(json.dumps(as_json(findings), indent=2))
    else:
        print("\n".join(as_text(findings)))
        print("\n" + "\n".join(problems or ["Everything is in order."]))
    return 1 if problems else 0


def examine(device: str, data_dir: Path | None) -> Findings:
    """Look at everything, and make the check."""
    from lila._util.extras import packages
    from lila.cli.machine import data_sets, machine
    from lila.laplace.self_check import check_evidence

    check, failure = list["Agreement"](), None
    try:
        check = check_evidence(device)
    except (ArithmeticError, RuntimeError, ValueError, MemoryError) as error:  # whatever is wrong with this machine
        failure = f"{type(error).__name__}: {error}"
    return Findings(machine(device), packages(), data_sets(data_dir), check, failure)


def as_json(findings: Findings) -> dict[str, Any]:
    """Return the findings as JSON."""
    problems = findings.problems()
    return asdict(findings) | {
        "check": [asdict(agreement) | {"holds": agreement.holds} for agreement in findings.check],
        "problems": problems,
        "well": not problems,
    }


def as_text(findings: Findings) -> Iterator[str]:
    """Return the findings as lines."""
    yield from findings.machine.lines()
    yield from _titled("data sets", (data.line() for data in findings.data))
    yield from _titled("extras", _extras(findings.packages))
    checked = (
        f"{a.what}: {a.difference:.1e}, at most {a.allowed:.0e} allowed{'' if a.holds else '   WRONG'}"
        for a in findings.check
    )
    yield from _titled("largest relative differences", checked)


def _extras(packages: "Iterable[Package]") -> Iterator[str]:
    """Return a line for each extra."""
    from lila._util.extras import EXTRAS

    by_extra: dict[str, list[Package]] = {}
    for package in packages:
        if package.extra is not None:
            by_extra.setdefault(package.extra, []).append(package)
    for extra in sorted(by_extra, key=list(EXTRAS).index):
        wanted = by_extra[extra]
        here = ", ".join(f"{package.name} {package.version}" for package in wanted)
        missing = any(package.version is None for package in wanted)
        state = f"not here: pip install 'lila-torch[{extra}]'" if missing else here
        yield f"{extra:<13}{EXTRAS[extra]}; {state}"


def _titled(title: str, lines: Iterable[str]) -> Iterator[str]:
    """Return lines under a title; nothing if there are none."""
    found = list(lines)
    if found:
        yield from ("", f"{title}:", *(f"  {line}" for line in found))
