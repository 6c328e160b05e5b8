"""The module that stands for a use of weights inside another module."""

from abc import ABC, abstractmethod
from typing import Self

from torch import nn


class StandIn(nn.Module, ABC):
    """A module that stands for a use of weights inside another module, its owner, whose weights it reads at each call.

    Args:
        owner: the module of the network that owns the weights; it does not become a part of the stand-in.
    """

    owner: nn.Module

    def __init__(self, owner: nn.Module) -> None:
        super().__init__()
        self.__dict__["owner"] = owner  # past nn.Module, which would register it

    @abstractmethod
    def for_owner(self, owner: nn.Module) -> Self:
        """Return the same stand-in for another owner, a copy of this one."""
