"""The name that a person meant when they wrote one that does not exist."""

import re
from collections.abc import Iterable
from difflib import get_close_matches

_SIMILAR = 0.65  # the least similarity of two names, from 0 to 1, for one to be taken for the other

_ELSEWHERE = {
    "arch": "model",
    "augmentation": "augment",
    "batch": "batch-size",
    "bs": "batch-size",
    "callback": "callbacks",
    "cuda": "device",
    "gpu": "device",
    "hessian-structure": "structure",
    "image-size": "size",
    "learning-rate": "lr",
    "lr-scheduler": "schedule",
    "n-epochs": "epochs",
    "n-jobs": "jobs",
    "network": "model",
    "num-epochs": "epochs",
    "max-epochs": "epochs",
    "num-samples": "samples",
    "num-workers": "workers",
    "output": "out",
    "output-dir": "out",
    "prior-precision": "precision",
    "prior-structure": "prior",
    "random-state": "seed",
    "scheduler": "schedule",
    "test-data": "test",
    "validation-data": "test",
    "verbose": "progress",
    "wd": "weight-decay",
}
"""What other libraries call a setting, and what lila calls it."""


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that was meant, or None if none is near.

    Dashes and underscores, upper and lower case, and American and British spelling count as the same.
    """
    plain = {_plain(other): other for other in reversed([*known])}
    word = _plain(name)
    if word in plain:
        return plain[word]
    if _ELSEWHERE.get(word) in plain:
        return plain[_ELSEWHERE[word]]
    found = get_close_matches(word, plain, n=1, cutoff=_SIMILAR)
    return plain[found[0]] if found else None


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """Return the question after the known name that was meant, with a space before it; empty if none is near."""
    found = nearest(name, known) if isinstance(name, str) else None
    return "" if found is None else f" Did you mean {found!r}?"


def _plain(name: str) -> str:
    """Return a name in one spelling."""
    word = name.lower().strip("-_ ").replace("_", "-").replace("color", "colour")
    return re.sub(r"(is|iz)(?=(e|er|ed|ing|ation)(s|-|$))", "iz", word)
