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
        needs: the package that it needs, of the extra `bench` or `networks`; None if it needs none.
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
        "calibration",
        "how well the probabilities of the invariant network are calibrated, and what their error comes from",
        f"{_SCRIPT}calibration --out FOLDER",
    ),
    Benchmark(
        "compiled",
        "whether `torch.compile` makes an epoch of the weights faster",
        f"{_SCRIPT}compiled",
    ),
    Benchmark(
        "correlated_ranges",
        "whether correlated ranges tell coupled scales from independent ones, and their gain in evidence",
        f"{_SCRIPT}correlated_ranges",
    ),
    Benchmark(
        "cross_validation",
        "the cost of a search for the range by cross-validation with Optuna, in runs of lila",
        f"{_SCRIPT}cross_validation",
        needs="optuna",
    ),
    Benchmark(
        "denormals",
        "an epoch with denormal numbers, in epochs in which they are flushed to zero",
        f"{_SCRIPT}denormals",
    ),
    Benchmark(
        "empty_views",
        "what views that show nothing gain in evidence, by Kronecker factors and by the full matrix",
        f"{_SCRIPT}empty_views",
    ),
    Benchmark(
        "family_speed",
        "the cost of each family of augmentations and of its gradient, in units of the affine warp's",
        f"{_SCRIPT}family_speed",
    ),
    Benchmark(
        "few_images",
        "what is learned from few photographs in classes of unequal size, and what the evidence is made of",
        f"{_SCRIPT}few_images --out FOLDER",
    ),
    Benchmark(
        "full_turns",
        "the evidence of a rotation at the weights that were trained for one value of it",
        f"{_SCRIPT}full_turns",
    ),
    Benchmark(
        "held_ranges",
        "the exact evidence of a case of the gallery whose ranges are held at multiples of the true ones",
        f"{_SCRIPT}held_ranges dimmed-digits",
    ),
    Benchmark(
        "laplace_torch",
        "the cost of the evidence and its gradient in the prior, in units of laplace-torch's",
        f"{_SCRIPT}laplace_torch",
        needs="laplace-torch",
    ),
    Benchmark(
        "magnitudes",
        "by how much learned ranges differ from those by which the images were transformed",
        f"{_SCRIPT}magnitudes --out FOLDER",
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
        "stock_networks",
        "the cost of a hyper-step of networks of timm, in steps of the weights with as many views",
        f"{_SCRIPT}stock_networks",
        needs="timm",
    ),
    Benchmark(
        "time_to_range",
        "the CPU time until the rotation of MNIST is learned, while training and by passes over the data",
        f"{_SCRIPT}time_to_range",
    ),
    Benchmark(
        "two_translations",
        "why two translations of the same true range are learned as different ranges",
        f"{_SCRIPT}two_translations",
    ),
    Benchmark(
        "view_noise",
        "the variance of averages over the views of an example, for independent and stratified noise",
        f"{_SCRIPT}view_noise",
    ),
    Benchmark(
        "weight_steps",
        "an epoch of the weights in mixed arithmetic, and one without fused steps, in usual epochs",
        f"{_SCRIPT}weight_steps",
    ),
)
"""All benchmarks: first those behind `lila bench`, then the scripts."""


def listing() -> str:
    """Return the list of all benchmarks as text."""
    return "\n".join(f"{one.name}: {one.measures}.\n    {one.command}" for one in BENCHMARKS)
