"""The packages that lila and its extras need: which are here, in which version, and whether that is new enough."""

import re
from dataclasses import dataclass
from importlib import metadata

DISTRIBUTION = "lila-torch"
EXTRAS = {
    "digits": "the data set digits",
    "plots": "pictures and reports",
    "onnx": "networks as ONNX files",
    "sklearn": "lila as a classifier of scikit-learn",
    "lightning": "lila in a Trainer of Lightning",
    "kornia": "augmentations of kornia",
    "tensorboard": "numbers of each epoch for TensorBoard",
    "timm": "networks of timm",
    "compare": "the search of `lila compare`",
}
"""What each extra is for; `pip install 'lila-torch[NAME]'` installs it."""


@dataclass(frozen=True)
class Package:
    """A package that lila, or one of its extras, asks for.

    Attributes:
        name: of the package.
        least: the lowest version that will do.
        version: the version that is installed; None if none is.
        extra: the extra that asks for it; None if lila itself does.
    """

    name: str
    least: str
    version: str | None
    extra: str | None

    @property
    def too_old(self) -> bool:
        """Whether it is installed in a version that will not do."""
        return self.version is not None and _numbers(self.version) < _numbers(self.least)


def packages() -> list[Package]:
    """Return the packages that the installed version of lila and its extras ask for; none if lila is not installed."""
    found = []
    for line in metadata.requires(DISTRIBUTION) or [] if installed_version(DISTRIBUTION) else []:
        match = re.match(r"([\w.-]+)>=([\d.]+)(?:; extra == ['\"]([\w-]+)['\"])?$", line.replace(" ;", ";"))
        if match is not None and (match[3] is None or match[3] in EXTRAS):
            found.append(Package(match[1], match[2], installed_version(match[1]), match[3]))
    return found


def installed_version(name: str) -> str | None:
    """Return the version of a package that is installed, or None."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _numbers(version: str) -> tuple[int, ...]:
    """Return the numbers at the start of a version, which "+cpu", "rc1" and the like may follow."""
    found = re.match(r"\d+(\.\d+)*", version)
    return tuple(int(part) for part in found[0].split(".")) if found else ()
