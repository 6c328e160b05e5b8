"""A callback for Lightning that learns ranges while a Trainer trains (`pip install lila-torch[lightning]`)."""

from collections.abc import Callable, Mapping
from math import ceil, isinf
from typing import Any

import torch
from torch import Tensor, nn

from lila.augment.base import Augmentation
from lila.data.fields import Fields, Key, read_pair
from lila.errors import ArgumentError, LilaError
from lila.model.invariant import InvariantModel
from lila.model.likelihood import Likelihood
from lila.training.hyper import HyperOptimiser
from lila.training.optimisers import without_prefix

try:
    from lightning.pytorch import Callback, LightningModule, Trainer
except ImportError as error:
    raise LilaError("Lightning is not installed: pip install 'lila-torch[lightning]'.") from error

_SAMPLES = 16  # views of an input in predictions, if they are not among the settings


class LilaCallback(Callback):
    """Learns by how much inputs can be transformed while a Lightning Trainer trains the network.

    While a step of the LightningModule runs, its network is replaced by the network averaged over random views of the
    input: two in training, all of them in validation, tests and predictions. Between steps, and in checkpoints, it is
    the network itself. The prior's gradient joins that of the loss before gradients are clipped; leave out weight
    decay. Ranges and evidence are logged after each epoch, and what was learned is part of Lightning's checkpoints.

    Args:
        augmentation: the family of transformations whose ranges are learned.
        network: the attribute of the LightningModule that is the network, as "net" or "model.backbone". It must be
            called as a whole, and return the outputs that the likelihood is about.
        fields: the names or positions of input, target and, if there is one, weight in a batch; a batch is a pair
            (x, y) if None.
        likelihood: of the targets; `Categorical()` if None.
        **settings: of hyper-steps, as `HyperOptimiser.for_loader` takes them.

    Attributes:
        hyper: the optimiser of the hyperparameters; None before training starts.
    """

    def __init__(
        self,
        augmentation: Augmentation,
        *,
        network: str = "net",
        fields: tuple[Key, ...] | None = None,
        likelihood: Likelihood | None = None,
        **settings: Any,
    ) -> None:
        super().__init__()
        if fields is not None and len(fields) not in (2, 3):
            raise ArgumentError(f"fields names the input, the target and perhaps a weight, but is {fields}.")
        self.augmentation, self.network, self.likelihood = augmentation, network, likelihood
        self.fields, self.settings = fields, settings
        self.hyper: HyperOptimiser | None = None
        self._read: Callable[[Any], tuple[Tensor, Tensor, Tensor | None]] = read_pair
        self._loaded: Mapping[str, Tensor] = {}
        self._inside: tuple[nn.Module, str, nn.Module] | None = None  # who has which network while a step runs

    @property
    def ranges(self) -> Mapping[str, float]:
        """The range of each transformation, in its generator's unit."""
        return self.augmentation.ranges

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.world_size > 1:
            raise ArgumentError(
                "LilaCallback trains in one process: use Trainer(devices=1), or lila.fit with torchrun."
            )
        if len(trainer.optimizers) != 1:
            raise ArgumentError(f"LilaCallback goes with one optimiser, but there are {len(trainer.optimizers)}.")
        _, _, net = self._find_network(pl_module)
        loader: Any = trainer.train_dataloader
        data = loader
        if self.fields is not None:
            data = Fields(loader, *self.fields)
            self._read = data.read
        options: dict[str, Any] = {"likelihood": self.likelihood, "batches": trainer.num_training_batches}
        options |= self.settings
        self.hyper = HyperOptimiser.for_loader(net, self.augmentation, data, _epochs(trainer), **options)
        if self._loaded:
            self.hyper.load_state_dict(self._loaded)
            self._loaded = {}

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        if self.hyper is not None:
            x, y, weight = self._read(batch)
            self.hyper.step(x, y, weight=weight)  # before the weights are fitted to this batch
            self._put_in(pl_module, self.hyper.training_model)

    def on_before_optimizer_step(
        self, trainer: Trainer, pl_module: LightningModule, optimizer: torch.optim.Optimizer
    ) -> None:
        """Add the prior's gradient; gradients are unscaled by now, and not yet clipped."""
        if self.hyper is not None:
            self.hyper.add_prior_gradients()

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        self._take_out()

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Log the ranges and, once it is known, the evidence, by the names that `lila.scalars` gives them."""
        assert self.hyper is not None
        values = {f"ranges/{name}": value for name, value in self.ranges.items()}
        terms = self.hyper.running.terms()
        if terms is not None:
            values |= {f"evidence/{name}": value for name, value in {"value": terms.value, **terms.terms()}.items()}
        pl_module.log_dict(values)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self.hyper is not None:
            self.hyper.release()

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        self._take_out()
        if self.hyper is not None:
            self.hyper.release()

    def on_validation_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        self._put_in(pl_module, self._predicting(pl_module))

    def on_validation_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        self._take_out()

    on_test_batch_start = on_predict_batch_start = on_validation_batch_start
    on_test_batch_end = on_predict_batch_end = on_validation_batch_end

    def state_dict(self) -> dict[str, Any]:
        return dict(self._loaded) if self.hyper is None else self.hyper.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Keep what was learned; training goes on from it, and predictions use its ranges."""
        if state_dict:  # it is empty if it was saved before training began
            self._loaded = state_dict
            self.augmentation.load_state_dict(without_prefix(state_dict, "augmentation."))

    def _predicting(self, pl_module: LightningModule) -> InvariantModel:
        """Return the averaged network that makes predictions, under noise that is the same for every input."""
        if self.hyper is not None:
            model = self.hyper.model.with_samples(self.hyper.model.samples)
        else:
            _, _, net = self._find_network(pl_module)
            like = next(net.parameters())
            augmentation = self.augmentation.to(like.device, like.dtype)
            model = InvariantModel(net, augmentation, self.settings.get("samples") or _SAMPLES)
        model.training = False  # of the average alone: the modules of the network stay in their mode
        return model

    def _find_network(self, pl_module: LightningModule) -> tuple[nn.Module, str, nn.Module]:
        """Return the module that has the network, the attribute, and the network."""
        path, _, name = self.network.rpartition(".")
        try:
            owner = pl_module.get_submodule(path)
            net = owner.get_submodule(name)
        except AttributeError as error:
            known = ", ".join(repr(name) for name, _ in pl_module.named_children())
            raise ArgumentError(
                f"The LightningModule has no module {self.network!r} to average over views; it has {known or 'none'}. "
                "Name it: LilaCallback(..., network=...)."
            ) from error
        return owner, name, net

    def _put_in(self, pl_module: LightningModule, model: InvariantModel) -> None:
        self._inside = self._find_network(pl_module)
        owner, name, _ = self._inside
        setattr(owner, name, model)

    def _take_out(self) -> None:
        if self._inside is not None:
            owner, name, net = self._inside
            setattr(owner, name, net)
            self._inside = None


def _epochs(trainer: Trainer) -> int:
    """Return the epochs that a Trainer will train for."""
    lengths = [trainer.max_epochs] if trainer.max_epochs is not None and trainer.max_epochs >= 0 else []
    if trainer.max_steps >= 0 and not isinf(trainer.num_training_batches):
        steps = ceil(trainer.num_training_batches / trainer.accumulate_grad_batches)  # of the weights in an epoch
        lengths.append(ceil(trainer.max_steps / steps))
    if not lengths:
        raise ArgumentError("The learning rate of ranges follows the length of a run: give max_epochs or max_steps.")
    return min(lengths)
