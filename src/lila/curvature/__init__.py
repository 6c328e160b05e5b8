"""Curvature of the negative log-likelihood of an invariant network, in several structures."""

from lila.curvature.autograd.recording import record
from lila.curvature.autograd.speedups import Speedups
from lila.curvature.autograd.tape import Samples, Tape
from lila.curvature.diag import Diag
from lila.curvature.finding import UnknownName, find_layers
from lila.curvature.full import Full
from lila.curvature.kron import Kron
from lila.curvature.layers import Layer
from lila.curvature.moments import Contribution, Outer, Value
from lila.curvature.registry import find_structure, register_structure, structure_names
from lila.curvature.roots import Columns, CurvatureKind, Roots
from lila.curvature.rules import Rule, Sharing, register_rule
from lila.curvature.structure import Structure, as_blocks, jacobian
from lila.curvature.sums import CurvatureSum
from lila.curvature.unbiased import UnbiasedKron

__all__ = [
    "Columns",
    "Contribution",
    "CurvatureKind",
    "CurvatureSum",
    "Diag",
    "Full",
    "Kron",
    "Layer",
    "Outer",
    "Roots",
    "Rule",
    "Samples",
    "Sharing",
    "Speedups",
    "Structure",
    "Tape",
    "UnbiasedKron",
    "UnknownName",
    "Value",
    "as_blocks",
    "find_layers",
    "find_structure",
    "jacobian",
    "record",
    "register_rule",
    "register_structure",
    "structure_names",
]
