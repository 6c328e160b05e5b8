"""Install a wheel into a clean environment, and do there what the first block of commands in the README says.

    python .ci/try_wheel.py dist/lila_torch-0.2.0-py3-none-any.whl FOLDER

FOLDER gets the environment and the results, and is emptied first. The block's `pip install` takes the wheel in place of
the published package, with the versions of constraints.txt. Trainings are cut short (`--epochs 3 --no-baseline`);
everything else is as it stands. At the end `lila doctor` must find nothing wrong.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SHORTER = ["--epochs", "3", "--no-baseline"]
RESULTS = ("ranges.png", "report.html")


def main() -> None:
    """Make the environment and run the commands."""
    wheel, folder = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    shutil.rmtree(folder, ignore_errors=True)
    venv.create(folder / "environment", with_pip=True)
    binaries = folder / "environment" / ("Scripts" if os.name == "nt" else "bin")
    work = folder / "work"
    work.mkdir()
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    environment["PATH"] = f"{binaries}{os.pathsep}{environment['PATH']}"
    commands = [adapted(line, wheel) for line in first_block((ROOT / "README.md").read_text(encoding="utf-8"))]
    for words in [*commands, ["lila", "doctor"]]:
        print(f"$ {shlex.join(words)}", flush=True)
        subprocess.run([str(binaries / words[0]), *words[1:]], cwd=work, env=environment, check=True)
    missing = [name for name in RESULTS if not (work / name).is_file()]
    if missing:
        raise SystemExit(f"The commands of the README have not written {', '.join(missing)}.")
    print("The wheel does what the README says.")


def first_block(readme: str) -> list[str]:
    """Return the commands of the first block of commands."""
    found = re.search(r"```console\n(.*?)```", readme, flags=re.DOTALL)
    if found is None:
        raise SystemExit("README.md has no block of commands (```console).")
    return [line for line in found[1].splitlines() if line.strip()]


def adapted(line: str, wheel: Path) -> list[str]:
    """Return the words of a command, with the wheel in place of the published package and shorter trainings."""
    words = shlex.split(line, comments=True)
    if words[0] not in ("pip", "lila"):
        raise SystemExit(f"The first block of the README has a command that cannot be tried: {line}")
    if words[:2] == ["pip", "install"]:
        words = [re.sub(r"^lila-torch", str(wheel).replace("\\", "/"), word) for word in words]
        return [*words, "--quiet", "--disable-pip-version-check", "-c", str(ROOT / "constraints.txt")]
    return [*words, *SHORTER] if words[:2] == ["lila", "train"] else words


if __name__ == "__main__":
    main()
