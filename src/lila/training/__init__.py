"""Training: one loop for the method and for what it is compared with."""
