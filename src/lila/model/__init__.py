"""What the Bayesian model is: the invariant network, its likelihood, its prior."""
