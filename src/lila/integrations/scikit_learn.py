"""A classifier with the interface of scikit-learn (`pip install lila-torch[sklearn]`)."""

from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from lila.augment import Augmentation, make_augmentation
from lila.augment.registry import takes_argument
from lila.errors import LilaError
from lila.networks import make_model
from lila.training.fit import fit
from lila.training.scores import predict

try:
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted, check_random_state, validate_data
except ImportError as error:
    raise LilaError("scikit-learn 1.6 or newer is not installed: pip install 'lila-torch[sklearn]'.") from error

Network = str | nn.Module | Callable[[tuple[int, ...], int], nn.Module]


class LilaClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Trains a network and learns its invariances, for `clone`, `cross_val_score`, pipelines and searches.

    Inputs are images, shape (n, h, w), (n, channels, h, w) or (n, h, w, channels), rows of pixels with `image_shape`,
    or any other vectors, shape (n, features), of which a network without invariance is learned unless `augmentation`
    says otherwise.

    Args:
        network: the name of a network that `lila.make_model` knows; a `nn.Module`, of which a copy is trained; or a
            function that gets the shape of an input and the number of classes and makes one.
        augmentation: the family of transformations whose ranges are learned: an `Augmentation`, of which a copy is
            used, or the name of a registered family. None is "affine" for images, and nothing for vectors.
            A family that is named continues colour images by their mirror image, as `lila train` does.
        image_shape: the shape (channels, height, width) of images whose pixels are given as rows.
        epochs: passes over the data; None for 3,000 batches, but between 10 and 100 epochs.
        settings: further fields of `lila.Settings` by name.
        random_state: the seed of the network's first weights, of noise and of shuffling.
        device: where to train and predict.

    Attributes:
        classes_: the classes, sorted.
        run_: the run, with all that was learned.
        ranges_: the learned range of each transformation, in its generator's unit.
        readable_ranges_: the same in a person's units.
        evidence_: the estimate of the log marginal likelihood, in nats.
        n_features_in_: the second side of the inputs.
    """

    def __init__(
        self,
        network: Network = "mlp",
        augmentation: Augmentation | str | None = None,
        *,
        image_shape: tuple[int, int, int] | None = None,
        epochs: int | None = None,
        settings: Mapping[str, Any] | None = None,
        random_state: Any = 0,
        device: str | None = None,
    ) -> None:
        self.network = network
        self.augmentation = augmentation
        self.image_shape = image_shape
        self.epochs = epochs
        self.settings = settings
        self.random_state = random_state
        self.device = device

    def fit(self, X: Any, y: Any) -> Self:
        """Train on inputs X, shape (n, ...), and their classes y, shape (n,)."""
        X, y = validate_data(self, X, y, dtype="numeric", allow_nd=True)
        check_classification_targets(y)
        self.classes_, labels = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError("A classifier needs at least two classes, but y has only one class.")
        x, seed = self._inputs(X), int(check_random_state(self.random_state).randint(2**31 - 1))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            net = self._new_network(tuple(x.shape[1:]))
        given = {"seed": seed, "epochs": self.epochs} | dict(self.settings or {})
        data = x.to(next(net.parameters()).dtype), torch.from_numpy(labels).long()
        augmentation = self._new_augmentation(x)
        self.run_ = fit(net, data, augmentation, progress="silent", device=self.device, **given)
        self.ranges_ = dict(self.run_.ranges)
        self.readable_ranges_ = dict(self.run_.model.augmentation.readable_ranges(self.run_.shape))
        self.evidence_ = self.run_.evidence.value
        return self

    def predict_proba(self, X: Any) -> np.ndarray[Any, Any]:
        """Return the probability of each class, shape (n, classes), by the invariant network."""
        check_is_fitted(self)
        x = self._inputs(validate_data(self, X, dtype="numeric", allow_nd=True, reset=False))
        if tuple(x.shape[1:]) != self.run_.shape:
            raise ValueError(f"The inputs have shape {tuple(x.shape[1:])}, but it was trained on {self.run_.shape}.")
        model, like = self.run_.model, next(self.run_.model.parameters())
        parts = x.to(like.device, like.dtype).split(self.run_.settings.microbatch or len(x))
        with torch.no_grad():
            found = torch.cat([self.run_.likelihood.predict(predict(model, part).double()) for part in parts])
        return found.cpu().numpy()

    def predict(self, X: Any) -> np.ndarray[Any, Any]:
        """Return the likeliest class of each input, shape (n,)."""
        likeliest = self.predict_proba(X).argmax(1)
        return np.asarray(self.classes_[likeliest])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        return tags

    def _inputs(self, X: np.ndarray[Any, Any]) -> Tensor:
        """Return inputs as real numbers, in the shape that the network takes."""
        x = torch.from_numpy(np.array(X, dtype=np.float64 if X.dtype == np.float64 else np.float32))
        if self.image_shape is not None:
            pixels = int(np.prod(self.image_shape))
            if x[0].numel() != pixels:
                raise ValueError(f"Inputs of image_shape {self.image_shape} have {pixels} pixels, not {x[0].numel()}.")
            return x.reshape(len(x), *self.image_shape)
        if x.dim() == 4 and x.shape[3] in (1, 3) and x.shape[1] not in (1, 3):
            return x.permute(0, 3, 1, 2).contiguous()  # the channels come last
        return x.unsqueeze(1) if x.dim() == 3 else x

    def _new_network(self, shape: tuple[int, ...]) -> nn.Module:
        classes = len(self.classes_)
        if isinstance(self.network, str):
            return make_model(self.network, shape, classes)
        return deepcopy(self.network) if isinstance(self.network, nn.Module) else self.network(shape, classes)

    def _new_augmentation(self, x: Tensor) -> Augmentation | None:
        family = self.augmentation
        if family is None:
            family = "affine" if x.dim() == 4 else None
        if isinstance(family, str):
            in_colour = x.dim() == 4 and x.shape[1] == 3 and takes_argument(family, "padding")
            return make_augmentation(family, **({"padding": "reflection"} if in_colour else {}))
        return deepcopy(family)
