"""What the Laplace approximation of a network's evidence is made of: its parts, its layers, its passes and its terms.

`lila.laplace.evidence` has the quantity itself and its gradient.
"""

from collections.abc import Iterator
from dataclasses import replace
from enum import StrEnum

import torch
from torch import Tensor

from lila._util.arguments import suggests_arguments
from lila._util.choices import check_count, choose
from lila._util.ranks import ALONE, Ranks
from lila.augment.checks import check_differentiable
from lila.augment.noise import Draw
from lila.curvature import CurvatureKind, Layer, Roots, Speedups, Structure, UnknownName, find_layers, find_structure
from lila.curvature.audit import check_runs_last, unknown_parameters, warn_of_unknown
from lila.curvature.autograd.speedups import ALL_SPEEDUPS
from lila.curvature.finding import parameters_without_rule
from lila.curvature.structure import check_precision
from lila.data.examples import Batch, Data, Examples
from lila.errors import ArgumentError
from lila.laplace.checks import check_inputs, check_parts, check_placement, check_prior, check_unbiased
from lila.laplace.log_likelihood import Average, check_finite
from lila.laplace.passes import Pass, check_model, few_examples
from lila.laplace.terms import Estimate
from lila.model.invariant import InvariantModel
from lila.model.likelihood import Likelihood
from lila.model.prior import GaussianPrior


class LayersName(StrEnum):
    """Over which weights the evidence integrates."""

    ALL = "all"
    LAST = "last"


@suggests_arguments
class Approximation:
    """The parts of a Laplace approximation. `lila.Evidence`, which is one, describes the arguments."""

    def __init__(
        self,
        model: InvariantModel,
        likelihood: Likelihood,
        prior: GaussianPrior,
        *,
        structure: str = "kron",
        curvature: str | CurvatureKind = "ggn",
        probes: int | None = None,
        gradient_probes: int | None = None,
        microbatch: int = 64,
        layers: str | LayersName = "all",
        average: str | Average = "function",
        ranks: Ranks = ALONE,
        unbiased: bool = False,
        unknown: str | UnknownName = "refuse",
        speedups: Speedups = ALL_SPEEDUPS,
    ) -> None:
        check_parts(model, likelihood, prior)
        kind = choose(CurvatureKind, curvature, "curvature")
        check_count("microbatch", microbatch)
        self.model, self.likelihood, self.prior = model, likelihood, prior
        self.structure = find_structure(structure, unbiased=unbiased)
        self.roots, self.gradient_roots = Roots(kind, probes), Roots(kind, gradient_probes)
        self.microbatch = microbatch
        self.ranks = ranks
        self.layer_choice = choose(LayersName, layers, "choice of layers")
        self.average = choose(Average, average, "average")
        self.unbiased, self.speedups = unbiased, speedups
        if self.average is not Average.FUNCTION and model.augmentation.outcomes:
            raise ArgumentError(
                "average='log-likelihood' takes each view for an example of its own, but the outcomes of this "
                "augmentation, such as flipped or not, are enumerated, and views of no probability are no examples. "
                "Use average='function', or leave such families out."
            )
        if unbiased:
            check_unbiased(model, averages_outputs=self.average is Average.FUNCTION)
        check_prior(prior, model.net, self.structure)
        self.unknown = choose(UnknownName, unknown, "way with parameters that have no rule")
        self._left_out: tuple[str, ...] = ()  # parameters that are taken for constants
        if self.unknown is UnknownName.FREEZE:
            self._leave_out(parameters_without_rule(model.net))
        self._layers()  # raises if there is something wrong with the network

    def audit(self, data: Data) -> None:
        """Check on a few examples that their type fits the network, and that its layers account for its gradients.

        Raises:
            DataError: the inputs' type is not that of the weights.
            ModelError: the layers' rules do not account for the network's gradients.
        """
        self.check_model(self._pass(Draw(), self.roots), few_examples(self.examples(data)))

    def hyperparameters(self) -> dict[str, torch.nn.Parameter]:
        """Return the trainable parameters of augmentation, likelihood and prior, by name."""
        owners = {"augmentation": self.model.augmentation, "likelihood": self.likelihood, "prior": self.prior}
        return {
            f"{owner}.{name}": parameter
            for owner, module in owners.items()
            for name, parameter in module.named_parameters()
            if parameter.requires_grad
        }

    def data_hyperparameters(self) -> dict[str, torch.nn.Parameter]:
        """Return the hyperparameters whose gradient needs a pass over the data: all but the prior's."""
        return {name: p for name, p in self.hyperparameters().items() if not name.startswith("prior.")}

    def gradient_pass(self, draw: Draw | None = None) -> Pass:
        """Return the second pass over the data."""
        return self._pass(draw or Draw(), self.gradient_roots)

    def no_curvature(self) -> Structure:
        """Return the curvature of no examples."""
        return self.structure.zeros(self._layers(), next(self.model.net.parameters()).detach())

    def examples(self, data: Data) -> Examples:
        """Return the data as the passes read it, on the network's device."""
        return Examples(data, next(self.model.net.parameters()).device)

    def _layers(self) -> tuple[Layer, ...]:
        layers = find_layers(self.model.net, self._left_out)
        check_precision(next(self.model.net.parameters()))
        check_placement(self.model.net, self.hyperparameters())
        return layers if self.layer_choice is LayersName.ALL else layers[-1:]

    def check_model(self, pass_: Pass, few: Batch) -> None:
        """Check on a few examples that their type fits the network, and that its layers account for its gradients."""
        check_inputs(self.model, few.x)
        if self.unknown is UnknownName.FREEZE:
            self._leave_out(unknown_parameters(self.model.net, few.x, self._left_out))
            pass_ = replace(pass_, layers=self._layers())
        check_model(pass_, few, self.microbatch)
        check_differentiable(self.model.augmentation, few.x, self.model.draw(pass_.draw, few.index, few.x.dtype))
        if self.layer_choice is LayersName.LAST:
            check_runs_last(self.model.net, pass_.layers[0], few.x, self._left_out)

    def _leave_out(self, names: list[str]) -> None:
        """Take parameters for constants from now on, with a warning that names them."""
        if names:
            warn_of_unknown(names, "the evidence takes them for constants")
            self._left_out = (*self._left_out, *names)

    def _pass(self, draw: Draw, roots: Roots) -> Pass:
        return Pass(
            self.model,
            self.likelihood,
            self._layers(),
            self.structure,
            roots=roots,
            draw=draw,
            average=self.average,
            unbiased=self.unbiased,
            speedups=self.speedups,
        )

    def _batches(self, examples: Examples, draw: Draw, subset: int | None) -> tuple[Iterator[Batch], float]:
        """Return batches of this process's examples, and the factor that scales sums up to the whole data set."""
        chosen = torch.arange(len(examples)) if subset is None else draw.subset(len(examples), subset)
        return examples.batches(self.microbatch, self.ranks.share(chosen)), len(examples) / len(chosen)

    def weights_of(self, curvature: Structure) -> dict[str, Tensor]:
        """Return the weights that a curvature is over, by name, without a graph."""
        weights = dict(self.model.net.named_parameters())
        return {name: weights[name].detach() for layer in curvature.layers for name in layer.parameter_names}

    def weight_penalty(self, curvature: Structure) -> Tensor:
        """Return the term -1/2 sum delta (theta - mu)^2 of the weights that a curvature is over."""
        return self.prior.weight_penalty(self.weights_of(curvature))

    def move_prior_to_fixed_point_(self, curvature: Structure) -> None:
        """Set each trainable precision of the prior to where the evidence, at this curvature, is largest."""
        self.prior.move_to_fixed_point_(self.weights_of(curvature), lambda: curvature.log_det(self.prior.precisions()))

    def _prior_terms(self, curvature: Structure, prior: GaussianPrior) -> tuple[Tensor, Tensor]:
        """Return the weight penalty and the Occam factor, differentiable in the prior's parameters."""
        return prior.weight_penalty(self.weights_of(curvature)), -0.5 * curvature.log_det_ratio(prior.precisions())

    def _finite_prior_terms(self, curvature: Structure, prior: GaussianPrior) -> tuple[float, float]:
        """Return the weight penalty and the Occam factor as numbers."""
        with torch.no_grad():
            weight_penalty, occam_factor = self._prior_terms(curvature, prior)
        check_finite("weight penalty", weight_penalty)
        check_finite("Occam factor", occam_factor)
        return float(weight_penalty), float(occam_factor)

    def assess(self, log_likelihood: float, curvature: Structure, standard_error: float = 0.0) -> Estimate:
        """Return the estimate that follows from a log-likelihood and a curvature of all examples."""
        terms = self._finite_prior_terms(curvature, self.prior)
        return Estimate(log_likelihood, *terms, curvature=curvature, draw=None, standard_error=standard_error)
