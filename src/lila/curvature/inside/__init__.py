"""Weights that are used inside a module without a layer of their own, and how the passes get at them.

A stand-in is a module that stands for such a use. It is no part of the network, but it is called while the network
runs, so that hooks see its inputs and outputs as those of any layer:

- `attention`: the projections of `nn.MultiheadAttention`,
- `raw_parameters`: parameters that are added to, multiplied with or concatenated to activations.
"""
