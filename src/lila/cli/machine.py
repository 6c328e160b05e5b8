"""What a person may want to know of a machine: versions, device, threads, memory, and which data sets are here."""

import os
import platform
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import psutil
import torch

from lila._util.cgroups import limit_of_cgroup, processors_of_cgroup
from lila._util.memory import available_bytes, readable_bytes
from lila._util.versions import versions
from lila.data import digits
from lila.data.formats import recognise
from lila.data.sources import KNOWN, find

_ANY_FOLDER = "folder"  # the format of a folder that no other format recognises


@dataclass(frozen=True)
class Machine:
    """What lila runs on.

    Attributes:
        versions: of lila, PyTorch and Python.
        system: the operating system and the kind of processor.
        device: on which a training would run.
        device_name: the name of that device.
        threads: of PyTorch.
        processors: that this process may use.
        processor_limit: the processors' time that a container allows; None if it sets no limit.
        memory_free: bytes that this process can still allocate, on the processor's side.
        memory_total: bytes of the machine.
        memory_limit: bytes that a container allows; None if it sets no limit.
    """

    versions: dict[str, str]
    system: str
    device: str
    device_name: str
    threads: int
    processors: int
    processor_limit: float | None
    memory_free: int
    memory_total: int
    memory_limit: int | None

    def lines(self) -> Iterator[str]:
        """Return this as lines of text."""
        yield f"{'versions':<10}{', '.join(f'{name} {version}' for name, version in self.versions.items())}"
        yield f"{'system':<10}{self.system}"
        yield f"{'device':<10}{self.device} ({self.device_name})"
        limit = "" if self.processor_limit is None else f"; the container allows the time of {self.processor_limit:g}"
        yield f"{'threads':<10}{self.threads} on {self.processors} processors{limit}"
        if self.threads > (self.processor_limit or self.processors):
            yield f"{'':<10}More threads than processors are slow: set OMP_NUM_THREADS={self._fitting_threads()}."
        limit = "" if self.memory_limit is None else f"; the container allows {readable_bytes(self.memory_limit)}"
        total = readable_bytes(self.memory_total)
        yield f"{'memory':<10}{readable_bytes(self.memory_free)} free of {total}{limit}"

    def _fitting_threads(self) -> int:
        return max(int(self.processor_limit or self.processors), 1)


@dataclass(frozen=True)
class DataSet:
    """A data set known by name, and whether it is here.

    Attributes:
        name: of the data set.
        where: the folder, or the package, that holds it; None if it is not here.
        problem: why its folder cannot be read, if it cannot.
    """

    name: str
    where: str | None
    problem: str | None = None

    def line(self) -> str:
        """Return this as a line of text."""
        get = f"lila data get {self.name}" if self.name in KNOWN else "pip install 'lila-torch[digits]'"
        state = f"not here: {get}" if self.where is None else self.where
        return f"{self.name:<15}{state}{', which cannot be read' if self.problem else ''}"


def machine(device: str) -> Machine:
    """Return what is known of this machine.

    Args:
        device: on which a training would run.
    """
    on_gpu = device.startswith("cuda")
    return Machine(
        versions=versions(),
        system=f"{platform.system()} {platform.release()}, {platform.machine()}",
        device=device,
        device_name=torch.cuda.get_device_name(device) if on_gpu else _processor_name(),
        threads=torch.get_num_threads(),
        processors=_processors(),
        processor_limit=processors_of_cgroup(),
        memory_free=available_bytes(torch.device("cpu")),
        memory_total=int(psutil.virtual_memory().total),
        memory_limit=limit_of_cgroup(),
    )


def data_sets(data_dir: Path | None) -> list[DataSet]:
    """Return the data sets known by name, and which of them are here.

    Args:
        data_dir: the folder with the data sets; that of LILA_DATA or the user's own if None.
    """
    found = [DataSet(digits.NAME, "with scikit-learn" if find_spec("sklearn") else None)]
    for known in KNOWN.values():
        folder = find(known, data_dir)
        wrong = folder is not None and recognise(folder).name == _ANY_FOLDER
        problem = f"{folder} holds none of its files." if wrong else None
        found.append(DataSet(known.name, None if folder is None else str(folder), problem))
    return found


def _processor_name() -> str:
    return "there is a GPU too" if torch.cuda.is_available() else "PyTorch finds no GPU here"


def _processors() -> int:
    """Return the number of processors that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
