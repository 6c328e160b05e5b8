"""The systems of the paper's overview table (its appendix "Comparison with Related Approaches"), side by side.

`lila compare` trains each of them on one data set whose transformation is known, with the same network, views, epochs
and machine. `registry` is the table of systems, with the paper of each. A system is a function that gets the
`Conditions` and returns what it `Found`.

- `fitted`: those that `lila.fit` has: lila itself, Augerino, maximum likelihood, fixed augmentation, last layer.
- `epochs`: the loop of those that learn by another gradient after each epoch of the weights: `implicit`, the gradient
  of a validation loss by implicit differentiation, and `kernel_bound`, a bound on the evidence from the neural tangent
  kernel of a few examples.
- `search`: ranges by a search on held-out data. `trivial_augment`: random operations, and nothing is learned.
- `gaussian_process`: an invariant Gaussian process by its variational evidence.

`runner` keeps a file per result, so that a comparison can be interrupted; `page` writes what was found.
"""
