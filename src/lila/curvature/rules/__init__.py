"""One rule per type of layer, and the registry of rules."""

from lila.curvature.rules.base import Rule, Sharing, split_positions
from lila.curvature.rules.linear import LinearRule
from lila.curvature.rules.registry import known_layers, register_rule, rule_for

__all__ = ["LinearRule", "Rule", "Sharing", "known_layers", "register_rule", "rule_for", "split_positions"]
