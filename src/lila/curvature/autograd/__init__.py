"""How layers' inputs and gradients are had from autograd, and fast."""
