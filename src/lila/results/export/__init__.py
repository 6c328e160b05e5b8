"""The learned augmentation in the terms of other libraries."""

from lila.results.export.code import TargetName, export_code, export_json
from lila.results.export.parameters import Affine, affine_parameters

__all__ = ["Affine", "TargetName", "affine_parameters", "export_code", "export_json"]
