"""Data: reading images in many formats, and giving examples to training by index."""
