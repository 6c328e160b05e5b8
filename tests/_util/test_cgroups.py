"""The memory limit of a container, read from files as the kernel shows them."""

from pathlib import Path

import pytest
import torch

from lila._util import memory
from lila._util.cgroups import free_in_cgroup

GIB = 2**30


def group(root: Path, folder: str, **files: object) -> None:
    """Write the files of a group; `memory_max` is the file memory.max."""
    for name, content in files.items():
        path = root / folder / name.replace("memory_", "memory.", 1)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{content}\n")


def belongs(root: Path, *lines: str) -> None:
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text("".join(f"{line}\n" for line in lines))


def test_version_2_in_a_container_is_seen_at_the_top(tmp_path: Path) -> None:
    belongs(tmp_path, "0::/")
    group(tmp_path, "sys/fs/cgroup", memory_max=2 * GIB, memory_current=GIB, memory_stat="anon 5\ninactive_file 1024")
    assert free_in_cgroup(tmp_path) == GIB + 1024


def test_version_2_counts_the_tightest_group_on_the_way_up(tmp_path: Path) -> None:
    belongs(tmp_path, "0::/user.slice/job.scope")
    group(tmp_path, "sys/fs/cgroup/user.slice/job.scope", memory_max="max", memory_current=GIB)
    group(tmp_path, "sys/fs/cgroup/user.slice", memory_max=4 * GIB, memory_current=3 * GIB)
    assert free_in_cgroup(tmp_path) == GIB


@pytest.mark.parametrize("where", ["sys/fs/cgroup/memory/docker/abc", "sys/fs/cgroup/memory"])
def test_version_1_is_found_under_its_own_path_or_at_the_top_of_a_container(tmp_path: Path, where: str) -> None:
    belongs(tmp_path, "5:cpu,cpuacct:/docker/abc", "4:memory:/docker/abc", "0::/")
    usage = {"memory_usage_in_bytes": 3 * GIB, "memory_stat": f"cache 7\ntotal_inactive_file {GIB}"}
    group(tmp_path, where, memory_limit_in_bytes=6 * GIB, **usage)
    assert free_in_cgroup(tmp_path) == 4 * GIB


@pytest.mark.parametrize("limit", ["max", "", "nonsense"])
def test_without_a_limit_there_is_none(tmp_path: Path, limit: str) -> None:
    assert free_in_cgroup(tmp_path) is None
    belongs(tmp_path, "0::/", "odd", "")
    group(tmp_path, "sys/fs/cgroup", memory_max=limit, memory_current=5)
    assert free_in_cgroup(tmp_path) is None


def test_a_group_that_is_full_leaves_nothing(tmp_path: Path) -> None:
    belongs(tmp_path, "0::/../outside")
    group(tmp_path, "sys/fs/cgroup", memory_max=GIB, memory_current=2 * GIB)
    assert free_in_cgroup(tmp_path) == 0


def test_the_limit_counts_where_memory_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "free_in_cgroup", lambda: 12345)
    assert memory.available_bytes(torch.device("cpu")) == 12345
    monkeypatch.setattr(memory, "free_in_cgroup", lambda: 2**63)
    assert memory.available_bytes(torch.device("cpu")) < 2**50
