"""Files and folders that appear whole or not at all, and what killed processes leave behind."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import lila
from lila._util.files import make_folder, new_folder, replaced, temporary_folder, temporary_path

BLOCKED = """
import sys, time
from pathlib import Path
from lila._util.files import new_folder, replaced
with new_folder(Path(sys.argv[1]) / "folder") as folder, replaced(Path(sys.argv[1]) / "file") as file:
    (folder / "half").write_text("half")
    file.write_text("half")
    (file.parent / ".left-by-a-library").write_text("half")
    print("written", flush=True)
    time.sleep(600)
"""


def started(folder: Path) -> subprocess.Popen[str]:
    """A process that has written half of a folder and half of a file."""
    process = subprocess.Popen([sys.executable, "-c", BLOCKED, folder], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "written\n"
    return process


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_what_a_killed_process_left_is_removed_by_the_next_that_writes(tmp_path: Path) -> None:
    with started(tmp_path) as process:
        assert len(names(tmp_path)) == 2
        process.kill()
    assert len(names(tmp_path)) == 2
    with new_folder(tmp_path / "other"):
        pass
    assert names(tmp_path) == ["other"]


def test_what_a_living_process_writes_stays(tmp_path: Path) -> None:
    with started(tmp_path) as process:
        before = names(tmp_path)
        with replaced(tmp_path / "other") as temporary:
            temporary.write_text("whole")
        assert names(tmp_path) == sorted([*before, "other"])
        process.kill()


@pytest.mark.parametrize("name", [".data.0123abcd-{pid}-0123abcd", ".hidden", "data.12-{pid}-34", ".a.{pid}"])
def test_files_of_other_machines_and_other_programs_stay(tmp_path: Path, name: str) -> None:
    finished = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True)
    theirs = tmp_path / name.format(pid=finished.stdout.strip())
    theirs.write_text("theirs")
    with replaced(tmp_path / "ours") as temporary:
        temporary.write_text("whole")
    assert theirs.exists()


def test_temporary_names_are_hidden_beside_the_target_and_say_the_process(tmp_path: Path) -> None:
    one, other = temporary_path(tmp_path / "a"), temporary_path(tmp_path / "a")
    assert one != other
    assert one.parent == tmp_path
    assert one.name.startswith(".a.")
    assert f"-{os.getpid()}-" in one.name


def test_an_error_leaves_nothing_and_the_target_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("before")
    with pytest.raises(FileNotFoundError), replaced(tmp_path / "file"):
        pass  # nothing was written
    with pytest.raises(FileNotFoundError), new_folder(tmp_path / "folder") as folder:
        (folder / "missing" / "half").write_text("half")
    with temporary_folder(tmp_path / "folder") as folder:
        (folder / "a").write_text("a")
    assert names(tmp_path) == ["file"]
    assert (tmp_path / "file").read_text() == "before"


def test_a_new_folder_can_be_read_like_any_other(tmp_path: Path) -> None:
    (tmp_path / "usual").mkdir()
    with new_folder(tmp_path / "new"):
        pass
    assert (tmp_path / "new").stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_a_folder_in_place_of_a_file_and_a_file_in_place_of_a_folder_are_named(tmp_path: Path) -> None:
    with pytest.raises(lila.ArgumentError, match="is a folder; name a file to write"), replaced(tmp_path):
        pass
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "inside"):
        with pytest.raises(lila.ArgumentError, match="is needed as a folder, but it, or a part of the path, is a file"):
            make_folder(path)
