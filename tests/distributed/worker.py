"""What each process of a test does; started by torchrun. Arguments: a folder, and what to do by name, as JSON.

If there is more than one thing to do, an error of one is written down in place of what it finds, and does not keep the
processes from the next.
"""

import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn

import lila
from lila._util.ranks import Ranks, leave, process_group
from lila.training import loop, range_errors

N = 23  # which neither two nor three nor four processes share evenly


class Streamed(torch.utils.data.Dataset[tuple[Tensor, Tensor]]):
    """Examples that are read one by one; it keeps count of which."""

    def __init__(self, data: tuple[Tensor, Tensor]) -> None:
        self.data, self.read = data, set[int]()

    def __len__(self) -> int:
        return len(self.data[0])

    def __getitem__(self, i: int) -> tuple[Tensor, Tensor]:
        self.read.add(i)
        return self.data[0][i], self.data[1][i]


def examples(seed: int = 0, count: int = N) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(count, 2, generator=generator, dtype=torch.float64)
    return x, (x.norm(dim=1) > 1.2).long()


def network(seed: int) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(2, 6), nn.Tanh(), nn.Linear(6, 2)).double()


def main() -> None:
    folder, todos = Path(sys.argv[1]), json.loads(sys.argv[2])
    timeout = min(todo.get("timeout", 60) for todo in todos.values())
    with process_group("cpu", timedelta(seconds=timeout)) as ranks:
        torch.set_num_threads(1)
        for name, todo in todos.items():
            (folder / name).mkdir(exist_ok=True)
            try:
                result = found(folder / name, todo, ranks)
            except lila.LilaError as error:
                if len(todos) == 1:
                    raise
                result = {"error": f"{type(error).__name__}: {error}"}
            (folder / name / f"found-{ranks.rank}.json").write_text(json.dumps(result))


def found(folder: Path, todo: dict[str, Any], ranks: Ranks) -> dict[str, Any]:
    """What this process finds."""
    settings: dict[str, Any] = {"epochs": 4, "batch_size": 5, "burn_in": 1, "samples": 3, "microbatch": 2}
    settings |= {"lr": 0.05, "precision": 0.1, "checkpoint_every": 1, **todo.get("settings", {})}
    if todo.get("other_seed"):
        settings["seed"] = ranks.rank
    of_all = examples(todo.get("other_data", 0) * ranks.rank, todo.get("count", N))
    data: Any = Streamed(of_all) if todo.get("stream") else of_all
    spoil(todo, of_all, ranks)
    arguments: dict[str, Any] = {"test": examples(1), "progress": "silent"}
    run_folder = folder / "run" if todo.get("folder") else None
    net = network(ranks.rank)  # the first process's weights are everyone's
    augmentation = lila.Rotation2d(init=todo.get("start", 0.3))
    with watched_error_bars() as hessians:
        if todo.get("resume"):
            run = lila.resume(run_folder or folder, net, data, augmentation, **arguments)
        else:
            run = lila.fit(net, data, augmentation, folder=run_folder, **arguments, **settings)
    return {
        "evidence": run.evidence.value,
        "ranges": dict(run.ranges),
        "hessians": hessians,
        "weights": torch.cat([p.flatten() for p in run.model.net.parameters()]).tolist(),
        "loss": [record.loss for record in run.history],
        "test": run.test,
        "read": len(data.read) if isinstance(data, Streamed) else None,
    }


@contextmanager
def watched_error_bars() -> Iterator[list[list[float]]]:
    """Let error bars cost more than so few hyper-steps pay for, and give the second derivatives that they come from."""
    hessians, original = list[list[float]](), range_errors.errors_of

    def noted(augmentation: lila.Augmentation, hessian: Tensor) -> dict[str, float | None]:
        hessians.append(hessian.flatten().tolist())
        return original(augmentation, hessian)

    with mock.patch.multiple(range_errors, _SHARE=10.0, errors_of=noted):
        yield hessians


def spoil(todo: dict[str, Any], data: tuple[Tensor, Tensor], ranks: Ranks) -> None:
    """Give one process an example that is not a number, or let it die, hang or err in its n-th forward of training."""
    if ranks.rank == todo.get("nan_at"):
        data[0][-1, 0] = float("nan")
    if ranks.rank != todo.get("at"):
        return
    passes, in_training, train_epoch = [0], [False], vars(loop)["train_epoch"]

    def first_epoch(*arguments: Any, **options: Any) -> Any:
        in_training[0] = True
        return train_epoch(*arguments, **options)

    vars(loop)["train_epoch"] = first_epoch

    def fail(module: nn.Module, x: Any, output: Tensor) -> Tensor | None:
        passes[0] += in_training[0]
        if passes[0] == todo.get("after", 12):
            if todo["fault"] == "nan":
                return output * float("nan")
            os.kill(os.getpid(), signal.SIGKILL) if todo["fault"] == "die" else time.sleep(600)
        return None

    nn.modules.module.register_module_forward_hook(fail)  # type: ignore[arg-type]


if __name__ == "__main__":
    try:
        main()
    except Exception:
        traceback.print_exc()
        time.sleep(2)  # so that others speak too, before torchrun ends them
        leave(1)
    leave(0)
