"""What an epoch with denormal numbers costs, in epochs in which they are flushed to zero.

A network is trained twice from the same start in a loop with hyper-steps: within `lila.flush_denormals`, as `fit` does
it, and without. Such numbers come with time, as the network fits its data, so there is a ratio for each tenth of the
epochs.

    LILA_DATA=... python -m lila.benchmarks.denormals --data mnist --network mlp
"""

from collections.abc import Sequence
from contextlib import nullcontext
from time import perf_counter

import torch
from torch.utils.data import DataLoader, TensorDataset

import lila
from lila.benchmarks.script import new_parser, print_result, start
from lila.data.task import Task
from lila.training.optimisers import cosine

_LR, _LR_END = 0.005, 0.0001
_PARTS = 10


def main(given: Sequence[str] | None = None) -> None:
    """Measure and print JSON."""
    parser = new_parser(__doc__, threads=1)
    parser.add_argument("--data", default="mnist", help="a data set, as in `lila train` [mnist]")
    parser.add_argument("--network", default="mlp", metavar="NAME", help="[mlp]")
    parser.add_argument("--subset", type=int, default=3000, metavar="N", help="training images [3000]")
    parser.add_argument("--epochs", type=int, default=60, metavar="N", help="[60]")
    parser.add_argument("--batch-size", type=int, default=100, metavar="N", help="[100]")
    arguments = start(parser, given)
    task = lila.load_data(lila.Recipe(arguments.data, subset=arguments.subset), in_memory=True)
    sizes = arguments.network, arguments.epochs, arguments.batch_size
    (flushed, loss), (as_they_come, other_loss) = (_train(task, *sizes, flush=flush) for flush in (True, False))
    if abs(loss - other_loss) > 0.1 * loss:
        raise SystemExit(f"The losses in the end are {loss} and {other_loss}, so it was not the same training.")
    parts = [sum(theirs) / sum(ours) for ours, theirs in zip(_parts(flushed), _parts(as_they_come), strict=True)]
    print_result(arguments, {"epochs with denormal numbers / epochs without": parts, "loss in the end": loss})


def _parts(seconds: list[float]) -> list[list[float]]:
    size = max(len(seconds) // _PARTS, 1)
    return [seconds[i : i + size] for i in range(0, len(seconds), size)]


def _train(task: Task, network: str, epochs: int, batch_size: int, *, flush: bool) -> tuple[list[float], float]:
    """Train a network; return the seconds of each epoch, and the loss of the last."""
    torch.manual_seed(0)
    net = lila.make_model(network, task.shape, len(task.classes))
    assert isinstance(task.train, tuple), "it was read into memory"
    loader = DataLoader(TensorDataset(*task.train), batch_size=batch_size, shuffle=True)
    hyper = lila.HyperOptimiser.for_loader(net, lila.Affine2d(), loader, epochs)
    optimiser = torch.optim.Adam(net.parameters())
    seconds, loss = [], 0.0
    with lila.flush_denormals() if flush else nullcontext():
        for epoch in range(epochs):
            started, loss = perf_counter(), 0.0
            optimiser.param_groups[0]["lr"] = cosine(_LR, _LR_END, epoch / epochs)
            for x, y in loader:
                hyper.step(x, y)
                optimiser.zero_grad()
                of_batch = torch.nn.functional.cross_entropy(hyper.training_model(x), y)
                (of_batch + hyper.prior_loss()).backward()
                optimiser.step()
                loss += of_batch.item() / len(loader)
            seconds.append(perf_counter() - started)
    return seconds, loss


if __name__ == "__main__":
    main()
