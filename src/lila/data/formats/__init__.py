"""One module per format in which images are stored."""
