"""The cost of training with one and with two processes, and the bytes that they exchange.

Strong scaling: two processes share the examples and batches of one. Weak scaling: each of two processes has as many
examples, and as many of each batch, as one alone. Two processes share caches and memory even if they exchange nothing,
so two that do not are timed too. The unit is the time of one process. Before anything is timed, one and two processes
are checked to give the same evidence. The output also has the numbers behind the model of docs/distributed.md: sizes
of Kronecker factors, and the speed of decompositions on this machine.

    python -m lila.benchmarks.processes
"""

import multiprocessing
import os
import socket
import statistics
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import KW_ONLY, dataclass, replace
from datetime import timedelta
from functools import partial
from typing import Any

import torch
import torch.distributed as dist

from lila._util.memory import keep_heap
from lila._util.ranks import Ranks
from lila.augment.noise import Draw
from lila.benchmarks.hyper_steps import evidence_of
from lila.benchmarks.measuring import seconds
from lila.benchmarks.script import new_parser, print_result, start
from lila.benchmarks.workloads import WORKLOADS, prepare
from lila.data.examples import Examples
from lila.errors import NumericalError
from lila.laplace.evidence import Evidence
from lila.model.likelihood import Categorical
from lila.model.prior import GaussianPrior
from lila.training.choices import PassesName
from lila.training.settings import Settings
from lila.training.state import State
from lila.training.steps import train_epoch

_REPEATS = 3
_TOLERANCE = 1e-4
_SIDE = 2000


@dataclass(frozen=True)
class Group:
    """Processes that train together.

    Attributes:
        processes: the number of processes.
        network: the name of the workload.
        examples: the number of examples of the whole group.
        batch_factor: the batch of the whole group, in batches of the workload.
        threads: the number of threads of each process.
    """

    processes: int
    network: str
    examples: int
    _: KW_ONLY
    batch_factor: int
    threads: int


def work(group: Group, rank: int, port: int, answers: Any) -> None:
    """Measure in one process the times of an epoch and of a hyper-step, the bytes sent, and the evidence."""
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    keep_heap()
    torch.set_num_threads(group.threads)
    dist.init_process_group("gloo", rank=rank, world_size=group.processes, timeout=timedelta(minutes=30))
    sent = _counted()
    ranks, workload = Ranks.here(), WORKLOADS[group.network]
    model, data = prepare(workload, group.examples)
    settings = Settings(
        batch_size=group.batch_factor * workload.batch,
        samples=workload.samples,
        passes="probed",
        microbatch=workload.microbatch(PassesName.PROBED),
    ).resolved(group.examples)
    state = State.fresh(model, Categorical(), GaussianPrior(model.net), settings, batches=1)
    shared = _shared(evidence_of(workload, model, PassesName.PROBED, group.examples), ranks)
    everything = Examples(data)

    def epoch() -> None:
        train_epoch(state, everything, settings, Draw(), ranks)

    def hyper_step() -> None:
        state.track("eta", "hyper")
        shared.gradient(data, shared.estimate(data))

    result: dict[str, Any] = {"evidence": shared.estimate(data).value}
    for what, function in (("epoch", epoch), ("hyper-step", hyper_step)):
        function()
        sent[0] = 0
        taken = []
        for _ in range(_REPEATS):
            dist.barrier()
            started = time.perf_counter()
            function()
            taken.append(time.perf_counter() - started)
        result[what] = statistics.median(taken)
        result[f"bytes of {what}"] = sent[0] // _REPEATS
    answers.put((rank, result))
    dist.barrier()
    dist.destroy_process_group()


def _shared(evidence: Evidence, ranks: Ranks) -> Evidence:
    """Return the same evidence with its passes shared by several processes."""
    return Evidence(
        evidence.model,
        evidence.likelihood,
        evidence.prior,
        probes=evidence.roots.probes,
        gradient_probes=evidence.gradient_roots.probes,
        microbatch=evidence.microbatch,
        ranks=ranks,
    )


def _counted() -> list[int]:
    """Return a list whose only entry grows by the bytes that this process hands to sums and broadcasts."""
    sent = [0]
    for name in ("all_reduce", "broadcast"):
        original = getattr(dist, name)

        def counting(tensor: torch.Tensor, *rest: Any, original: Any = original, **options: Any) -> Any:
            sent[0] += tensor.nbytes
            return original(tensor, *rest, **options)

        setattr(dist, name, counting)
    return sent


def measured(group: Group) -> dict[str, Any]:
    """Run a group of processes, and return the evidence and the slowest of their times."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    context = multiprocessing.get_context("spawn")
    answers = context.Queue()
    workers = [context.Process(target=work, args=(group, rank, port, answers)) for rank in range(group.processes)]
    for worker in workers:
        worker.start()
    results = [answers.get()[1] for _ in workers]
    for worker in workers:
        worker.join()
    slowest = {key: max(result[key] for result in results) for key in results[0]}
    return slowest | {"evidence": results[0]["evidence"]}


def decomposition() -> float:
    """Return the seconds that decomposing a factor of side `_SIDE` takes."""
    root = torch.randn(_SIDE, 2 * _SIDE)
    return seconds(partial(torch.linalg.eigh, root @ root.T), _REPEATS)


def factors_of_resnet50() -> dict[str, float]:
    """Return the bytes of the Kronecker factors of a ResNet-50 in float32, and the sum of the cubes of their sides."""
    sides = [(3 * 49, 64)]
    inputs = 64
    for blocks, width in ((3, 64), (4, 128), (6, 256), (3, 512)):
        for block in range(blocks):
            sides += [(inputs, width), (9 * width, width), (width, 4 * width)]
            if block == 0:
                sides.append((inputs, 4 * width))
            inputs = 4 * width
    sides.append((inputs + 1, 1000))
    every = [side for pair in sides for side in pair]
    squares, cubes = sum(side**2 for side in every), sum(side**3 for side in every)
    return {"bytes": 4 * squares, "cubes of the sides": cubes, "largest side": max(every)}


def main(given: Sequence[str] | None = None) -> None:
    """Check, measure and print JSON."""
    parser = new_parser(__doc__, threads=1)
    parser.add_argument("--network", choices=list(WORKLOADS), default="mlp", help="[mlp]")
    parser.add_argument("--examples", type=int, default=500, metavar="N", help="examples of one process [500]")
    arguments = start(parser, given)
    alone = Group(1, arguments.network, arguments.examples, batch_factor=1, threads=arguments.threads)
    one = measured(alone)
    strong = measured(replace(alone, processes=2))
    if abs(strong["evidence"] / one["evidence"] - 1) > _TOLERANCE:
        raise NumericalError(f"Two processes find an evidence of {strong['evidence']}, one {one['evidence']}.")
    weak = measured(replace(alone, processes=2, examples=2 * arguments.examples, batch_factor=2))
    with ThreadPoolExecutor() as pool:
        apart = list(pool.map(measured, [alone, alone]))
    result = {
        "one process": one,
        "two, the same examples": {what: strong[what] / one[what] for what in ("epoch", "hyper-step")},
        "two, twice the examples": {what: weak[what] / one[what] for what in ("epoch", "hyper-step")},
        "two that do not exchange anything": {
            what: max(other[what] for other in apart) / one[what] for what in ("epoch", "hyper-step")
        },
        "bytes per process": {what: strong[f"bytes of {what}"] for what in ("epoch", "hyper-step")},
        f"seconds to decompose a matrix of side {_SIDE}": decomposition(),
        "Kronecker factors of a ResNet-50": factors_of_resnet50(),
    }
    print_result(arguments, result)


if __name__ == "__main__":
    main()
