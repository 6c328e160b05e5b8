"""Curvature of the negative log-likelihood of an invariant network, in three structures."""

from enum import StrEnum

from lila.curvature.autograd.recording import record
from lila.curvature.autograd.tape import Samples, Tape
from lila.curvature.diag import Diag
from lila.curvature.full import Full
from lila.curvature.kron import Kron
from lila.curvature.layers import Layer, find_layers
from lila.curvature.roots import Columns, CurvatureKind, Roots
from lila.curvature.rules import Rule, Sharing, register_rule
from lila.curvature.structure import Structure
from lila.curvature.unbiased import UnbiasedKron


class StructureName(StrEnum):
    """The structures by name."""

    KRON = "kron"
    DIAG = "diag"
    FULL = "full"


STRUCTURES: dict[StructureName, type[Structure]] = {
    StructureName.KRON: Kron,
    StructureName.DIAG: Diag,
    StructureName.FULL: Full,
}

__all__ = [
    "STRUCTURES",
    "Columns",
    "CurvatureKind",
    "Diag",
    "Full",
    "Kron",
    "Layer",
    "Roots",
    "Rule",
    "Samples",
    "Sharing",
    "Structure",
    "StructureName",
    "Tape",
    "UnbiasedKron",
    "find_layers",
    "record",
    "register_rule",
]
