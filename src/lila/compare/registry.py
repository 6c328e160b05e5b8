"""The table of all systems that are compared; lila is the first, as the time of the others is told relative to it."""

from functools import partial

from lila._util.suggestions import did_you_mean
from lila.compare.fitted import run_exact, run_fit
from lila.compare.gaussian_process import run_gaussian_process
from lila.compare.implicit import run_implicit
from lila.compare.kernel_bound import run_kernel_bound
from lila.compare.search import run_search
from lila.compare.system import System
from lila.compare.trivial_augment import run_trivial_augment
from lila.errors import ArgumentError

_LILA = "Immer, van der Ouderaa, Rätsch, Fortuin and van der Wilk 2022"
REFERENCE = "lila"
"""The system whose time is the unit of the others'."""

SYSTEMS: dict[str, System] = {
    system.name: system
    for system in (
        System(REFERENCE, "lila", _LILA, run_fit),
        System("lila-exact", "lila, passes over all data", _LILA, run_exact),
        System("lila-ef", "lila, empirical Fisher", _LILA, partial(run_fit, curvature="ef")),
        System("kernel-bound", "evidence bound by tangent kernels", "Immer et al. 2023", run_kernel_bound),
        System(
            "last-layer", "evidence of the last layer", "Schwöbel et al. 2022", partial(run_fit, method="last-layer")
        ),
        System("augerino", "Augerino", "Benton et al. 2020", partial(run_fit, method="augerino")),
        System(
            "maximum-likelihood",
            "maximum likelihood",
            "none; the paper's baseline",
            partial(run_fit, method="maximum-likelihood"),
        ),
        System(
            "validation-gradient",
            "validation gradient, implicit",
            "Lorraine et al. 2020",
            run_implicit,
            needs_validation=True,
        ),
        System(
            "search",
            "search with Optuna",
            "Cubuk et al. 2018, in spirit",
            run_search,
            needs_validation=True,
            several_runs=True,
            needs="optuna",
        ),
        System("gaussian-process", "invariant Gaussian process", "van der Wilk et al. 2018", run_gaussian_process),
        System("trivial-augment", "TrivialAugment", "Müller and Hutter 2021", run_trivial_augment, learns=False),
        System(
            "fixed",
            "true range, function averaged",
            "none; told the answer",
            partial(run_fit, method="fixed"),
            learns=False,
        ),
        System(
            "fixed-loss",
            "true range, loss averaged",
            "none; told the answer",
            partial(run_fit, method="fixed-loss"),
            learns=False,
        ),
        System(
            "non-invariant",
            "no augmentation",
            "none; the paper's baseline",
            partial(run_fit, method="non-invariant"),
            learns=False,
        ),
    )
}
"""The systems by name, in the order of tables."""


def choose_systems(names: str | None) -> list[System]:
    """Return the systems that a text names, with commas between them, and lila first; all if None."""
    if names is None:
        return list(SYSTEMS.values())
    chosen = [name.strip() for name in names.split(",")]
    for name in chosen:
        if name not in SYSTEMS:
            meant = did_you_mean(name, SYSTEMS)
            raise ArgumentError(f"There is no system named {name!r}; choose from {', '.join(SYSTEMS)}.{meant}")
    return [system for name, system in SYSTEMS.items() if name in chosen or name == REFERENCE]
