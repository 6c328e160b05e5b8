"""What a run costs with one and with two processes of one thread each, and how many bytes they send.

Strong scaling: the same examples and batches, shared. Weak scaling: as many examples, and as many of each batch, for
each process; beside it two processes that do the same without exchanging anything, as they share caches and memory all
the same. The unit is the time of one process. Before anything is timed, one and two processes are checked to give the
same evidence. It also prints what the model of docs/distributed.md rests on: sizes of Kronecker factors, and the speed
of decompositions here.

    python -m lila.benchmarks.processes
"""

import argparse
import json
import multiprocessing
import os
import socket
import statistics
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from typing import Any

import torch
import torch.distributed as dist

from lila._util.memory import keep_heap
from lila._util.ranks import Ranks
from lila.augment.noise import Draw
from lila.benchmarks.networks import JOBS, evidence_of, prepared
from lila.benchmarks.tools import machine, seconds
from lila.data.examples import Examples
from lila.errors import NumericalError
from lila.laplace.evidence import Evidence
from lila.model.likelihood import Categorical
from lila.model.prior import GaussianPrior
from lila.training.settings import PassesName, Settings
from lila.training.state import State
from lila.training.steps import train_epoch

_REPEATS = 3
_TOLERANCE = 1e-4
_SIDE = 2000


def work(rank: int, count: int, port: int, name: str, times: int, examples: int, answers: Any) -> None:
    """One process: times of an epoch and of a hyper-step, bytes sent, and the evidence to compare by.

    Examples are `times` those given, batches `times` those of the network's job.
    """
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    keep_heap()
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=count, timeout=timedelta(minutes=30))
    sent = _counted()
    ranks, job = Ranks.here(), JOBS[name]
    model, data = prepared(job, times * examples)
    settings = Settings(
        batch_size=times * job.batch, samples=job.samples, passes="probed", microbatch=job.microbatch(PassesName.PROBED)
    ).resolved(times * examples)
    state = State.fresh(model, Categorical(), GaussianPrior(model.net), settings)
    shared = _shared(evidence_of(job, model, PassesName.PROBED, times * examples), ranks)
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
    """The same evidence, its passes shared by several processes."""
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
    """Count the bytes that this process hands to sums and broadcasts."""
    sent = [0]
    for name in ("all_reduce", "broadcast"):
        original = getattr(dist, name)

        def counting(tensor: torch.Tensor, *rest: Any, original: Any = original, **options: Any) -> Any:
            sent[0] += tensor.nbytes
            return original(tensor, *rest, **options)

        setattr(dist, name, counting)
    return sent


def measured(name: str, count: int, times: int, examples: int) -> dict[str, Any]:
    """Run so many processes on so many times the examples, and take the slowest of their times."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    context = multiprocessing.get_context("spawn")
    answers = context.Queue()
    workers = [
        context.Process(target=work, args=(rank, count, port, name, times, examples, answers)) for rank in range(count)
    ]
    for worker in workers:
        worker.start()
    results = [answers.get()[1] for _ in workers]
    for worker in workers:
        worker.join()
    slowest = {key: max(result[key] for result in results) for key in results[0]}
    return slowest | {"evidence": results[0]["evidence"]}


def decomposition() -> float:
    """Seconds that a factor of side `_SIDE` takes."""
    torch.set_num_threads(1)
    root = torch.randn(_SIDE, 2 * _SIDE)
    return seconds(partial(torch.linalg.eigh, root @ root.T), _REPEATS)


def factors_of_resnet50() -> dict[str, float]:
    """Bytes of the Kronecker factors of a ResNet-50 in float32, and the sum of the cubes of their sides."""
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


def main() -> None:
    """Measure and print JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", choices=list(JOBS), default="mlp")
    parser.add_argument("--examples", type=int, default=500)
    arguments = parser.parse_args()
    one = measured(arguments.network, 1, 1, arguments.examples)
    strong = measured(arguments.network, 2, 1, arguments.examples)
    if abs(strong["evidence"] / one["evidence"] - 1) > _TOLERANCE:
        raise NumericalError(f"Two processes find an evidence of {strong['evidence']}, one {one['evidence']}.")
    weak = measured(arguments.network, 2, 2, arguments.examples)
    with ThreadPoolExecutor() as pool:
        apart = list(pool.map(lambda _: measured(arguments.network, 1, 1, arguments.examples), range(2)))
    result = {
        "settings": vars(arguments) | machine() | {"threads": 1},
        "one process": one,
        "two, the same examples": {what: strong[what] / one[what] for what in ("epoch", "hyper-step")},
        "two, twice the examples": {what: weak[what] / one[what] for what in ("epoch", "hyper-step")},
        "two that do not exchange anything": {
            what: max(other[what] for other in apart) / one[what] for what in ("epoch", "hyper-step")
        },
        "bytes per process": {what: strong[f"bytes of {what}"] for what in ("epoch", "hyper-step")},
        f"seconds to decompose a matrix of side {_SIDE}, one thread": decomposition(),
        "Kronecker factors of a ResNet-50": factors_of_resnet50(),
    }
    json.dump(result, sys.stdout, indent=2)
    print()


if __name__ == "__main__":
    main()
