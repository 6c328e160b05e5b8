"""The 1,797 digits that come with scikit-learn, enlarged from 8 x 8 to 14 x 14 and padded to 16 x 16."""

import torch
import torch.nn.functional as F

from lila.augment.noise import Draw
from lila.data.images import ImageData, ImageSet
from lila.errors import DataError

NAME = "digits"
ABOUT = "handwritten digits, 1,000 + 797 of 16 x 16 (enlarged from 8 x 8), grey"
_TRAIN = 1000


def read_digits(seed: int = 0) -> ImageData:
    """Read the digits; a random 1,000 of them are for training, the others for test."""
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise DataError("The digits come with scikit-learn: pip install 'lila-torch[digits]'.") from error
    digits = load_digits()
    small = torch.tensor(digits.images / 16, dtype=torch.float32)[:, None]
    images = F.pad(F.interpolate(small, size=(14, 14), mode="bilinear", align_corners=False), (1, 1, 1, 1))
    labels = torch.tensor(digits.target)
    order = Draw(seed).permutation(len(images))
    train, test = (ImageSet(images[part], labels[part]) for part in (order[:_TRAIN], order[_TRAIN:]))
    return ImageData(train, test, tuple(map(str, range(10))))
