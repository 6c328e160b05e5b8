"""The works and experiments known by name. Code outside the package adds its own with one call each.

Both registries are filled by code alone: a name in a stored result never makes lila import or call anything.
"""

import re

from lila.errors import ArgumentError
from lila.reproduce.engine.experiment import Experiment
from lila.reproduce.engine.jobs import Work

WORKS: dict[str, Work] = {}
"""The functions that do jobs, by the name that `Job.work` gives."""

EXPERIMENTS: dict[str, Experiment] = {}
"""The experiments by name, in the order in which they were registered."""

ALL = "all"
"""The name that stands for every experiment on the command line."""

_RESERVED = (ALL, "jobs")  # "jobs" is the folder of results beside the folders of experiments
_DESCRIPTION = ("name", "title", "claim", "reproduced_if")
_NAME = re.compile(r"[a-z0-9]+([-_][a-z0-9]+)*")


def register_work(name: str, function: Work) -> None:
    """Make a function known as the one that does the jobs of a name.

    Jobs that run side by side are done by processes that import the function from its module, so it must be defined
    at the top level of a module.

    Args:
        name: the name that jobs give as their `work`. It is part of the key of each result.
        function: called with the arguments of a job and its surroundings; returns the result.

    Raises:
        ArgumentError: the function cannot be imported by another process, or the name belongs to another function.
    """
    qualified = getattr(function, "__qualname__", None)
    if qualified is None or "<" in qualified:  # <lambda>, or inside of <locals>
        raise ArgumentError(
            f"The work {name!r} is done by {function!r}, which another process cannot import. Register a function that "
            "is defined at the top level of a module."
        )
    _check_free("work", name, WORKS.get(name), function)
    WORKS[name] = function


def register_experiment(experiment: Experiment) -> None:
    """Make an experiment known by its name, so that `lila reproduce NAME` runs it.

    Args:
        experiment: with the class attributes `name`, `title`, `claim` and `reproduced_if`.

    Raises:
        ArgumentError: the description is not complete, or the name cannot be used or belongs to another experiment.
    """
    kind = type(experiment)
    missing = [attribute for attribute in _DESCRIPTION if not hasattr(experiment, attribute)]
    if missing:
        raise ArgumentError(f"The experiment {kind.__qualname__} has no {missing[0]!r}; give it as a class attribute.")
    name = experiment.name
    if name in _RESERVED or not _NAME.fullmatch(name):
        raise ArgumentError(
            f"An experiment cannot be named {name!r}, as its name is also the name of a folder. Use lower-case "
            f"letters, digits and hyphens, and not {' or '.join(_RESERVED)}."
        )
    earlier = EXPERIMENTS.get(name)
    _check_free("experiment", name, None if earlier is None else type(earlier), kind)
    EXPERIMENTS[name] = experiment


def find_work(name: str) -> Work:
    """Return the function that does the jobs of a name."""
    try:
        return WORKS[name]
    except KeyError:
        known = ", ".join(sorted(WORKS))
        raise ArgumentError(
            f"There is no work named {name!r} (known are: {known}). Call register_work({name!r}, function) in the "
            "module that defines the experiment."
        ) from None


def _check_free(what: str, name: str, earlier: object, new: object) -> None:
    """Raise if a name belongs to something else; a definition that is executed again may replace itself."""
    if earlier is not None and _place(earlier) != _place(new):
        raise ArgumentError(
            f"The {what} name {name!r} belongs to {_place(earlier)}, so {_place(new)} cannot have it. Rename one of "
            "the two."
        )


def _place(definition: object) -> str:
    return f"{getattr(definition, '__module__', '?')}.{getattr(definition, '__qualname__', '?')}"
