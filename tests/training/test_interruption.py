"""A real process that is interrupted, terminated or killed, and a run that goes on as if nothing had happened."""

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from test_fit import QUICK, assert_same, data, network

import lila

SETTINGS = QUICK | {"epochs": 40, "checkpoint_every": 1}

SCRIPT = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell lets what it runs in the background ignore it
sys.path[:0] = {paths!r}
import torch
torch.set_num_threads(1)
import lila
from pathlib import Path
from test_fit import data, network
from test_interruption import SETTINGS
folder = Path(sys.argv[1])
tell = [lambda record: print(record.epoch, flush=True)]
if (folder / "run.json").exists():
    lila.resume(folder, network(), data(), lila.Affine2d(), callbacks=tell, progress="silent")
else:
    lila.fit(network(), data(), lila.Affine2d(), folder=folder, callbacks=tell, progress="silent", **SETTINGS)
print("done", flush=True)
"""


def start(folder: Path) -> subprocess.Popen[str]:
    here = Path(__file__).parent
    script = SCRIPT.format(paths=[str(here), str(here.parent)])
    return subprocess.Popen([sys.executable, "-c", script, str(folder)], stdout=subprocess.PIPE, text=True)


def wait_for_epoch(process: subprocess.Popen[str]) -> int:
    assert process.stdout is not None
    return int(process.stdout.readline())


SIGNALS = {signal.SIGTERM: 143, signal.SIGINT: -signal.SIGINT, signal.SIGKILL: -signal.SIGKILL}
"""What may end a process, and the code it ends with."""


def test_a_run_interrupted_again_and_again_ends_as_if_it_had_not_been(tmp_path: Path) -> None:
    for number, code in SIGNALS.items():
        with start(tmp_path) as process:
            epoch = wait_for_epoch(process)
            if number == signal.SIGKILL:
                time.sleep(random.Random(5).uniform(0, 0.15))
            process.send_signal(number)
            assert process.wait(60) == code
        if number != signal.SIGKILL:  # it leaves a checkpoint of the last epoch
            assert len((tmp_path / "history.jsonl").read_text().splitlines()) >= epoch
    finished = lila.resume(tmp_path, network(), data(), lila.Affine2d(), progress="silent")
    assert_same(finished, lila.fit(network(), data(), lila.Affine2d(), progress="silent", **SETTINGS))
