"""What an epoch of the weights costs with other arithmetic and with another kernel of Adam, in epochs by the defaults.

Mixed arithmetic (`arithmetic="mixed"`) computes matrix products and convolutions in bfloat16. Whether that is faster
depends on the processor and on the network. The other epoch has Adam's steps one tensor at a time, in place of fused.

    python -m lila.benchmarks.weight_steps --network mlp

Nothing is timed unless the loss of an epoch is nearly the same with each.
"""

from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any

from torch import Tensor

from lila.augment.noise import Draw
from lila.benchmarks.measuring import ratios
from lila.benchmarks.script import new_parser, print_result, start
from lila.benchmarks.workloads import WORKLOADS, prepare
from lila.data.examples import Examples
from lila.model.invariant import InvariantModel
from lila.model.likelihood import Categorical
from lila.training.settings import Settings
from lila.training.setup import new_state
from lila.training.steps import train_epoch

_OTHERS: dict[str, dict[str, Any]] = {
    "mixed arithmetic": {"arithmetic": "mixed"},
    "Adam without fusion": {"optimiser_options": {"fused": False, "foreach": False}},
}
_MOST_DIFFERENCE = 0.01  # of the losses, as a share


def main(given: Sequence[str] | None = None) -> None:
    """Check, measure and print JSON."""
    parser = new_parser(__doc__)
    parser.add_argument("--network", choices=list(WORKLOADS), default="mlp", help="[mlp]")
    parser.add_argument("--examples", type=int, default=5000, metavar="N", help="[5000]")
    parser.add_argument("--batch-size", type=int, default=100, metavar="N", help="[100]")
    parser.add_argument("--weight-samples", type=int, default=2, metavar="S", help="views of an example [2]")
    parser.add_argument("--repeats", type=int, default=5, metavar="N", help="of which the median is taken [5]")
    arguments = start(parser, given)
    model, data = prepare(WORKLOADS[arguments.network], arguments.examples)
    sizes = {"batch_size": arguments.batch_size, "weight_samples": arguments.weight_samples, "lr": 1e-6, "lr_end": 1e-6}
    usual = _epoch(model, data, sizes)
    others = {name: _epoch(model, data, sizes | changes) for name, changes in _OTHERS.items()}
    loss = usual()
    for name, epoch in others.items():
        if abs(epoch() - loss) > _MOST_DIFFERENCE * loss:
            raise SystemExit(f"With {name} an epoch has another loss than {loss}, so it is not timed.")
    costs = ratios(list(others.values()), usual, arguments.repeats)
    print_result(arguments, {f"{name} / epoch by the defaults": cost for name, cost in zip(others, costs, strict=True)})


def _epoch(model: InvariantModel, data: tuple[Tensor, Tensor], changes: dict[str, Any]) -> Callable[[], float]:
    """Return a function that trains the weights for an epoch and returns its loss."""
    settings = Settings(**changes).resolved(len(data[0]))
    state = new_state(*deepcopy((model.net, model.augmentation)), Categorical(), settings, data)
    return lambda: train_epoch(state, Examples(data), settings, Draw()).loss


if __name__ == "__main__":
    main()
