"""The project's errors: each says what was wrong, with which input, and what to do about it."""


class LilaError(Exception):
    """Base of every error that lila raises on purpose."""


class ArgumentError(LilaError, ValueError):
    """An argument is outside what the function accepts."""


class DataError(LilaError, ValueError):
    """Inputs or labels cannot be used as they are."""


class ModelError(LilaError, ValueError):
    """The network does something for which there is no per-example likelihood or no curvature rule."""


class MemoryBudgetError(LilaError, MemoryError):
    """The request would need more memory than there is."""


class NumericalError(LilaError, ArithmeticError):
    """A value that must be finite is not."""


class CheckpointError(LilaError):
    """The folder of a run is missing, damaged, in use, or does not belong to what it is used with."""
