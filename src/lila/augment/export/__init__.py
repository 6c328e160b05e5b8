"""Learned affine augmentations in the terms of other libraries, as parameters and as code."""
