"""The gallery: each family of augmentations on data whose ranges are known, several seeds, with a picture.

`python -m lila.reproduce.gallery` trains the cases, and writes `gallery.md` with its pictures. What each case learned
is kept in a file of its own in `results/gallery`, so that cases can be trained one by one.
"""

from lila.reproduce.gallery.cases import CASES
from lila.reproduce.gallery.page import write_page
from lila.reproduce.gallery.problem import Case, Folders, Problem

__all__ = ["CASES", "Case", "Folders", "Problem", "write_page"]
