"""The curvature structures by name: those of the library, and those that users register."""

from dataclasses import dataclass

from lila._util.choices import check_name, check_subclass
from lila._util.suggestions import did_you_mean
from lila.curvature.diag import Diag
from lila.curvature.full import Full
from lila.curvature.kron import Kron
from lila.curvature.structure import Structure
from lila.curvature.unbiased import UnbiasedKron
from lila.errors import ArgumentError


@dataclass(frozen=True)
class _Registered:
    structure: type[Structure]
    unbiased: type[Structure] | None


_STRUCTURES: dict[str, _Registered] = {
    "kron": _Registered(Kron, UnbiasedKron),
    "diag": _Registered(Diag, None),
    "full": _Registered(Full, None),
}


def register_structure(name: str, structure: type[Structure], unbiased: type[Structure] | None = None) -> None:
    """Make a curvature structure known by a name, which `Evidence`, `fit` and `Settings` then accept.

    Args:
        name: the name; a name that is taken already is an error.
        structure: the class.
        unbiased: the class to use with `unbiased=True`, whose tensors have no bias from the noise in averages over
            views; None if there is no such class.
    """
    check_name(name, "a curvature structure")
    for given in (structure, unbiased) if unbiased is not None else (structure,):
        check_subclass(given, Structure, f"The curvature structure {name!r}")
    if name in _STRUCTURES and _STRUCTURES[name] != _Registered(structure, unbiased):
        raise ArgumentError(
            f"There is a curvature structure named {name!r} already ({_STRUCTURES[name].structure.__name__}). Choose "
            "another name."
        )
    _STRUCTURES[name] = _Registered(structure, unbiased)


def structure_names() -> list[str]:
    """Return the names of all structures."""
    return list(_STRUCTURES)


def find_structure(name: str, *, unbiased: bool = False) -> type[Structure]:
    """Return the structure of a name.

    Args:
        name: the name.
        unbiased: whether to return its variant for unbiased averages.

    Raises:
        ArgumentError: there is no structure of that name, or no such variant of it.
    """
    if not isinstance(name, str) or name not in _STRUCTURES:
        known = ", ".join(repr(name) for name in _STRUCTURES)
        meant = did_you_mean(name, _STRUCTURES)
        raise ArgumentError(f"There is no curvature structure named {name!r}; choose one of {known}.{meant}")
    found = _STRUCTURES[name]
    if not unbiased:
        return found.structure
    if found.unbiased is None:
        suitable = ", ".join(f"structure={name!r}" for name, one in _STRUCTURES.items() if one.unbiased is not None)
        raise ArgumentError(
            f"Unbiased averages exist for {suitable} only, not for {name!r}. Use that, or unbiased=False with more "
            "samples."
        )
    return found.unbiased
