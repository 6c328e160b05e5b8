"""The Laplace approximation: the evidence, its gradient, and the posterior."""
