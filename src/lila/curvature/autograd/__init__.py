"""How autograd gives the inputs and gradients of all layers: a plain recording, and one module per speed-up."""
