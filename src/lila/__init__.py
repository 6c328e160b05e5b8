"""Learn which transformations of the input leave the output unchanged, and how far, from the training data alone.

An implementation of "Invariance Learning in Deep Neural Networks with Differentiable Laplace Approximations" (NeurIPS
2022).
"""

import lazy_loader

# The names are listed in __init__.pyi. Each is imported when it is first asked for: importing torch takes seconds, and
# `lila --help` should not.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

__version__ = "0.2.0"
