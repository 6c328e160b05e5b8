"""The formats in which images and time series are stored: one module for each, and a line here that registers it.

A folder of images per class comes first, as it is asked last: every folder looks like one. CIFAR-10 comes last, as the
archive that holds it is read without unpacking it first.
"""

from lila.data.formats.archives import Archive
from lila.data.formats.arrays import Arrays
from lila.data.formats.cifar import Cifar
from lila.data.formats.folder import ClassFolders
from lila.data.formats.format import Format, Reading, formats, recognise, register_format
from lila.data.formats.idx import IdxFiles
from lila.data.formats.ts import TsFiles

register_format(ClassFolders())
register_format(IdxFiles())
register_format(Arrays())
register_format(TsFiles())
register_format(Archive())
register_format(Cifar())

__all__ = ["Format", "Reading", "formats", "recognise", "register_format"]
