"""What a training run leaves: the invariant network, what it learned, and how it got there."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from torch import nn

from lila._util.versions import versions
from lila.augment.base import Augmentation
from lila.errors import ArgumentError
from lila.laplace.evidence import Estimate, Terms
from lila.laplace.posterior import Posterior
from lila.model.invariant import InvariantModel
from lila.model.likelihood import Likelihood
from lila.model.prior import GaussianPrior
from lila.training.architecture import build, describe
from lila.training.checkpoint import (
    CHECKPOINT,
    MODEL,
    RESULT,
    SETTINGS,
    CheckpointError,
    read_checkpoint,
    read_json,
    read_settings,
    write_checkpoint,
    write_json,
)
from lila.training.settings import Resolved
from lila.training.state import State

M = TypeVar("M", bound=nn.Module)

_BAR = 24  # characters of the longest bar


@dataclass(frozen=True)
class Run:
    """A finished run.

    Attributes:
        settings: how it was trained.
        model: the invariant network.
        likelihood: of the targets.
        prior: over the weights.
        history: one record per epoch.
        evidence: the final estimate with its terms; of a run that was just trained it also holds the curvature.
        test: scores on the test data, if there was any.
        shape: of one input.
    """

    settings: Resolved
    model: InvariantModel
    likelihood: Likelihood
    prior: GaussianPrior
    history: list[dict[str, Any]] = field(repr=False)
    evidence: Terms
    test: dict[str, float] | None
    shape: tuple[int, ...]

    @property
    def ranges(self) -> Mapping[str, float]:
        """The learned range of each transformation, in its generator's own unit."""
        return self.model.augmentation.ranges

    def summary(self) -> str:
        """What was learned, in a few lines."""
        lines = [f"{self.settings.method}, {len(self.history)} epochs"]
        augmentation = self.model.augmentation
        readable, shares = augmentation.readable_ranges(self.shape), augmentation.shares
        widths = [max(map(len, column), default=0) for column in (readable.keys(), readable.values())]
        for name, text in readable.items():
            lines.append(f"  {name:<{widths[0]}}  {text:<{widths[1]}}  {bar(shares[name])}".rstrip())
        e = self.evidence
        error = f" ± {e.standard_error:.1f}" if e.standard_error else ""
        lines.append(
            f"  evidence {e.value:.1f}{error} nats = {e.log_likelihood:.1f} log-likelihood "
            f"{e.weight_penalty:+.1f} weight penalty {e.occam_factor:+.1f} Occam factor"
        )
        if self.test is not None:
            lines.append("  test " + ", ".join(f"{name.replace('_', ' ')} {v:.4g}" for name, v in self.test.items()))
        return "\n".join(lines)

    @property
    def posterior(self) -> Posterior:
        """The Laplace posterior over the weights, from the factors of the final estimate of the evidence."""
        if not isinstance(self.evidence, Estimate):
            raise ArgumentError(
                "A run that was read from a folder does not hold the curvature. Estimate it again from the training "
                "data: lila.Posterior(run.model, run.likelihood, run.prior, evidence.estimate(data).curvature), with "
                "evidence = lila.Evidence(run.model, run.likelihood, run.prior, "
                f"structure={self.settings.structure!r}, curvature={self.settings.curvature!r}, "
                f"layers={self.settings.how.layers!r})."
            )
        return Posterior(self.model, self.likelihood, self.prior, self.evidence.curvature)

    def save(self, folder: str | Path) -> None:
        """Write the run to a folder, from which `lila.load` reads it."""
        folder = Path(folder)
        if (folder / CHECKPOINT).exists():
            raise ArgumentError(f"{folder} already holds a run; choose another folder.")
        state = State(self.model, self.likelihood, self.prior, {}, self.model)
        write_description(folder, self.settings, self.model, self.likelihood)
        write_checkpoint(folder, state.tensors(), len(self.history), self.history)
        self.write_result(folder)

    def write_result(self, folder: Path) -> None:
        """Write what the run reports beside its checkpoint."""
        evidence = self.evidence.terms() | {"standard_error": self.evidence.standard_error}
        result = {"evidence": evidence, "test": self.test, "shape": list(self.shape), "versions": versions()}
        write_json(folder / RESULT, result)


def bar(share: float) -> str:
    """A share of 1 as a bar of blocks, to an eighth of a block."""
    eighths = round(share * _BAR * 8)
    return "█" * (eighths // 8) + ("▏▎▍▌▋▊▉"[eighths % 8 - 1] if eighths % 8 else "")


def write_description(folder: Path, settings: Resolved, model: InvariantModel, likelihood: Likelihood) -> None:
    """Write the settings and the architecture of a run."""
    write_json(folder / SETTINGS, asdict(settings))
    modules = {"net": model.net, "augmentation": model.augmentation, "likelihood": likelihood}
    description = {name: describe(module) for name, module in modules.items()}
    write_json(folder / MODEL, {"samples": model.samples, **description})


def load(
    folder: str | Path,
    net: nn.Module | None = None,
    augmentation: Augmentation | None = None,
    likelihood: Likelihood | None = None,
) -> Run:
    """Read a finished run.

    Args:
        folder: where it was saved, or trained.
        net: a network of the same architecture, needed if it is not made of layers of torch.nn in `nn.Sequential`.
        augmentation: likewise, needed if it is not one of lila's own families.
        likelihood: likewise.
    """
    folder = Path(folder)
    settings, description, result = read_settings(folder), read_json(folder / MODEL), read_result(folder)
    try:
        made_net = _given_or_built(net, description["net"], "net")
        made_augmentation = _given_or_built(augmentation, description["augmentation"], "augmentation")
        made_likelihood = _given_or_built(likelihood, description["likelihood"], "likelihood")
        samples, evidence, shape = description["samples"], Terms(**result["evidence"]), tuple(result["shape"])
        test = result["test"]
    except (KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{folder / MODEL} or {folder / RESULT} is not what a run writes: {error!r}") from error
    tensors, _, history = read_checkpoint(folder)
    dtype = next((t.dtype for name, t in tensors.items() if name.startswith("prior.")), None)
    model = InvariantModel(made_net, made_augmentation, samples, settings.noise).to(dtype)
    state = State(model, made_likelihood.to(dtype), GaussianPrior(made_net, settings.prior), {}, model)
    state.load_tensors(tensors, folder / CHECKPOINT)
    return Run(settings, model, made_likelihood, state.prior, history, evidence, test, shape)


def read_result(folder: Path) -> Any:
    """What a finished run reports."""
    if (folder / CHECKPOINT).exists() and not (folder / RESULT).exists():
        _, epoch, _ = read_checkpoint(folder)
        epochs = read_settings(folder).epochs
        raise CheckpointError(
            f"The run in {folder} is not finished: {epoch} of {epochs} epochs are done. Go on with `lila resume "
            f"{folder}`, or lila.resume in Python."
        )
    return read_json(folder / RESULT)


def _given_or_built(given: M | None, description: dict[str, Any] | None, what: str) -> M:
    if given is not None:
        return given
    if description is None:
        raise ArgumentError(
            f"The {what} of this run is of your own making and cannot be built from its description. Make it as it was "
            f"made for training, and pass it: lila.load(folder, {what}=...)."
        )
    return build(description)  # type: ignore[return-value]
