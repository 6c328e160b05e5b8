"""The list of all benchmarks, for `lila bench --list`. It imports none of them, as some need extra packages."""

from dataclasses import dataclass

_SCRIPT = "python -m lila.benchmarks."


@dataclass(frozen=True)
class Benchmark:
    """A benchmark.

    Attributes:
        name: the module of `lila.benchmarks` that measures.
        measures: what it measures, in a sentence.
        command: the command that runs it.
        needs: the package of the extra `bench` that it needs; None if it needs none.
    """

    name: str
    measures: str
    command: str
    needs: str | None = None

    @property
    def is_script(self) -> bool:
        """Whether the module is a script of its own."""
        return self.command.startswith(_SCRIPT)


BENCHMARKS = (
    Benchmark(
        "hyper_steps",
        "the cost of a hyper-step in epochs of the weights, for each network and kind of passes",
        "lila bench",
    ),
    Benchmark(
        "whole_runs",
        "the cost of a whole run that learns while it trains, in plain runs of the same network",
        "lila bench --networks none --runs mlp,resnet-8-8",
    ),
    Benchmark(
        "scaling",
        "how cost and memory of a hyper-step grow with examples, samples, classes and the width of a layer",
        "lila bench --networks none --scaling --width 10000",
    ),
    Benchmark(
        "compiled",
        "whether `torch.compile` makes an epoch of the weights faster",
        f"{_SCRIPT}compiled",
    ),
    Benchmark(
        "cross_validation",
        "the cost of a search for the range by cross-validation with Optuna, in runs of lila",
        f"{_SCRIPT}cross_validation",
        needs="optuna",
    ),
    Benchmark(
        "family_speed",
        "the cost of each family of augmentations and of its gradient, in units of the affine warp's",
        f"{_SCRIPT}family_speed",
    ),
    Benchmark(
        "laplace_torch",
        "the cost of the evidence and its gradient in the prior, in units of laplace-torch's",
        f"{_SCRIPT}laplace_torch",
        needs="laplace-torch",
    ),
    Benchmark(
        "probe_noise",
        "the error that random probes add to a gradient, beside the noise of the sampled transformations",
        f"{_SCRIPT}probe_noise",
    ),
    Benchmark(
        "processes",
        "the cost of an epoch and of a hyper-step with two processes, and the bytes that they exchange",
        f"{_SCRIPT}processes",
    ),
    Benchmark(
        "profile_passes",
        "the share of each PyTorch operation in the time of a hyper-step",
        f"{_SCRIPT}profile_passes",
    ),
    Benchmark(
        "running_agreement",
        "whether learning while training finds the same ranges as exact passes after each epoch",
        f"{_SCRIPT}running_agreement --out FOLDER",
    ),
    Benchmark(
        "time_to_range",
        "the CPU time until the rotation of MNIST is learned, while training and by passes over the data",
        f"{_SCRIPT}time_to_range",
    ),
    Benchmark(
        "view_noise",
        "the variance of averages over the views of an example, for independent and stratified noise",
        f"{_SCRIPT}view_noise",
    ),
)
"""All benchmarks: first those behind `lila bench`, then the scripts."""


def listing() -> str:
    """Return the list of all benchmarks as text."""
    return "\n".join(f"{one.name}: {one.measures}.\n    {one.command}" for one in BENCHMARKS)
