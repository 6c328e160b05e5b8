"""Likelihoods of the targets, given the output of the network."""

from lila.model.likelihood.base import Likelihood
from lila.model.likelihood.bernoulli import Bernoulli
from lila.model.likelihood.categorical import Categorical
from lila.model.likelihood.gaussian import Gaussian

__all__ = ["Bernoulli", "Categorical", "Gaussian", "Likelihood"]
