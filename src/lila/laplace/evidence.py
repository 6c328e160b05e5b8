"""The Laplace approximation of the log marginal likelihood ("evidence") of an invariant network (Section 4.1, eq. 9).

With the curvature H of the negative log-likelihood, and precisions delta of the prior,

    log p(D | eta, M) ~ sum_n log p(y_n | f_hat(x_n)) + log p(theta) - 1/2 log|(H + diag(delta)) / 2 pi|.

The normalisation of the prior, 1/2 sum log(delta / 2 pi), is nearly as large as the log-determinant, with the other
sign. Taken together with it, three terms remain that each say something:

    sum_n log p(y_n | f_hat(x_n))        how well the data are fitted
    -1/2 sum delta (theta - mu)^2        how far the weights are from the prior's mean mu, which mostly is zero
    -1/2 log|I + diag(delta)^-1 H|       the Occam factor: how far the data narrow the weights down
"""

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from lila.augment.noise import Draw
from lila.curvature import Structure
from lila.data.examples import Data
from lila.errors import ArgumentError
from lila.laplace.approximation import Approximation
from lila.laplace.checks import check_prior
from lila.laplace.differentiable import differentiable_value
from lila.laplace.fingerprint import Fingerprint, check_same, fingerprint
from lila.laplace.log_likelihood import Fit, check_finite
from lila.laplace.passes import gather, pull_back
from lila.laplace.posterior import Posterior
from lila.laplace.terms import Estimate
from lila.model.prior import GaussianPrior


class Evidence(Approximation):
    """The evidence of an invariant network, and its gradient in every hyperparameter.

    The hyperparameters are the trainable parameters of the augmentation, the likelihood and the prior.

    Args:
        model: the invariant network.
        likelihood: of the targets.
        prior: over the weights of the network.
        structure: the structure of the curvature: "kron", "diag", "full", or a name given to `register_structure`.
        curvature: "ggn" (generalised Gauss-Newton) or "ef" (empirical Fisher).
        probes: K random probes per example in the estimate, in place of the C columns of the output Hessian's root.
            They estimate the curvature H without bias. But log|H + delta| is concave in H, so on average it comes out
            too low, and the evidence too high. With Kronecker factors or a diagonal the bias is small and falls with
            N K: A needs no probes, and G, whose side is the number of a layer's outputs, is a sum over all examples
            and positions. With a full curvature it is large unless N K is many times the number P of weights: the
            estimate has rank N K at most, and each direction of the exact H, of rank min(P, N C), that it misses
            counts as log(delta) in place of log(lambda + delta). None, or K >= C, is exact.
        gradient_probes: random probes per example in the gradient. With as many as in the estimate it is the gradient
            of that; with all columns in the estimate it is unbiased. None is exact.
        microbatch: the number of examples whose graph is in memory at a time; it does not change the result. The graph
            of a gradient with all columns grows with the number of outputs; with probes it does not.
        layers: "all" to integrate over the weights of every layer, "last" to integrate over the weights of the last
            layer and treat the rest as constants. "last" is cheap, but the paper's related work finds that it fails on
            deep networks.
        average: "function" for the invariant network; "log-likelihood" for standard data augmentation, whose
            likelihood the paper shows to be flawed, to compare with.
        ranks: the processes that share the passes over the data, `Ranks.here()` inside a process group; all must call
            the same methods in the same order.
        unbiased: whether to take off the bias that noise in the averages over views brings to the curvature and to the
            log-likelihood, so that few views give on average what many would. It needs independent views, at least two.
        unknown: what to do with parameters that have no curvature rule: "refuse" the network with an error that names
            them, or "freeze" them. Then the evidence takes them for constants, and a warning names them when it is
            made and when the network is audited.
        speedups: which shortcuts the passes take; none of them changes a result.
    """

    def estimate(
        self, data: Data, draw: Draw | None = None, subset: int | None = None, *, audit: bool = True
    ) -> Estimate:
        """Estimate the evidence by one pass over the data without a graph.

        Args:
            data: a pair of tensors, a map-style Dataset of (x, y), or a DataLoader over one.
            draw: the noise; the default is that of seed 0 and epoch 0.
            subset: use this many random examples only, and scale all sums over examples up to the whole data set. The
                estimate then has a standard error, that of the log-likelihood.
            audit: whether to check first, on a few examples, that the layers of the network account for its gradients.
                It takes a moment, and need not be repeated for each of many estimates with one network.
        """
        draw = draw or Draw()
        check_prior(self.prior, self.model.net, self.structure)
        examples = self.examples(data)
        if audit:
            self.audit(data)
        pass_ = self._pass(draw, self.roots).in_fast_layout(next(examples.batches(1)).x)
        batches, scale = self._batches(examples, draw, subset)
        fit, curvature = gather(pass_, batches, self.ranks)
        whole = curvature.scaled(scale).decomposed(self.ranks)
        log_likelihood, standard_error = fit.of_all(len(examples))
        estimate = self.assess(log_likelihood, whole, standard_error)
        return replace(estimate, draw=draw, examples=len(examples), made_of=self._fingerprint())

    @torch.no_grad()
    def log_likelihood(self, data: Data, draw: Draw | None = None, subset: int | None = None) -> Fit:
        """Return the log-likelihood of all examples, or of a random subset of them, without its curvature."""
        examples = self.examples(data)
        pass_ = self._pass(draw or Draw(), self.roots).in_fast_layout(next(examples.batches(1)).x)
        batches, _ = self._batches(examples, pass_.draw, subset)
        return pass_.fit(batches, self.ranks)

    def reassess(self, estimate: Estimate, prior: GaussianPrior) -> Estimate:
        """Return the same estimate under another prior, without a pass over the data and without changing anything.

        Raises:
            ArgumentError: the estimate is not one of this evidence, or was made before weights or the augmentation
                changed.
        """
        self._check_present(estimate)
        check_prior(prior, self.model.net, self.structure)
        weight_penalty, occam_factor = self._finite_prior_terms(estimate.curvature, prior)
        return replace(estimate, weight_penalty=weight_penalty, occam_factor=occam_factor)

    @torch.enable_grad()
    def gradient(self, data: Data, estimate: Estimate, subset: int | None = None) -> dict[str, Tensor]:
        """Return the gradient of the evidence in every hyperparameter, by a second pass in microbatches.

        Args:
            data: the data of the estimate.
            estimate: what `estimate` returned for the present hyperparameters and weights.
            subset: use this many random examples only, and scale the sum up. The result is an unbiased estimate of the
                gradient at the estimate's curvature.

        Returns:
            Gradients by name: "augmentation.eta", "likelihood.log_sigma", "prior.log_precisions.0", and so on.

        Raises:
            ArgumentError: the estimate is not one of this evidence, is one of another number of examples, or was made
                before weights or hyperparameters changed; or nothing has requires_grad=True. Other data with as many
                examples are not recognised.
        """
        if not self.hyperparameters():
            raise ArgumentError(
                "No hyperparameter has requires_grad=True, so there is no gradient to compute. If a HyperOptimiser has "
                "them, call its release() first."
            )
        self._check_present(estimate)
        in_data = self._second_pass(data, estimate, subset) if self.data_hyperparameters() else {}
        return self._gradients(in_data, estimate.curvature)

    def log_marginal_likelihood(
        self, data: Data, draw: Draw | None = None, subset: int | None = None, *, audit: bool = True
    ) -> Tensor:
        """Return the estimate of the evidence as a float64 scalar that is differentiable in every hyperparameter.

        `log_marginal_likelihood(data).backward()` makes the second pass over the data, and adds what `gradient` returns
        to the `.grad` of the hyperparameters. In between neither they nor the weights may change.

        Args:
            data: as in `estimate`.
            draw: as in `estimate`.
            subset: as in `estimate`; the gradient uses the same examples.
            audit: as in `estimate`.
        """
        estimate = self.estimate(data, draw, subset, audit=audit)

        def gradients() -> dict[str, Tensor]:
            return self.gradient(data, estimate, subset)

        return differentiable_value(estimate.value, self.hyperparameters(), self.model.net.parameters(), gradients)

    def posterior(self, estimate: Estimate) -> Posterior:
        """Return the Laplace posterior over the weights from the curvature of an estimate, under the present prior.

        Its mean is the present weights of the network, so make a new one when these have changed.

        Raises:
            ArgumentError: the estimate is not one of this evidence, or was made before weights or the augmentation
                changed.
        """
        self._check_present(estimate)
        return Posterior(self.model, self.likelihood, self.prior, estimate.curvature)

    def _second_pass(self, data: Data, estimate: Estimate, subset: int | None) -> dict[str, Tensor]:
        """Return the gradients in the parameters of the augmentation and of the likelihood."""
        at, parameters = estimate.curvature, self.data_hyperparameters()
        if type(at) is not self.structure:
            raise ArgumentError(
                f"The estimate's curvature is a {type(at).__name__}, but this evidence uses "
                f"{self.structure.__name__}. Make the estimate with the same Evidence."
            )
        if estimate.draw is None:
            raise ArgumentError(
                "This estimate comes from running averages, so there is no noise under which its gradient could be "
                "taken. Make one from the data: evidence.estimate(data)."
            )
        with torch.no_grad():
            cotangent = at.cotangent(self.prior.precisions())
        examples = self.examples(data)
        if estimate.examples not in (None, len(examples)):
            raise ArgumentError(
                f"The estimate is one of {estimate.examples} examples, but the data have {len(examples)}. The gradient "
                "needs the data of the estimate."
            )
        batches, scale = self._batches(examples, estimate.draw, subset)
        pass_ = self.gradient_pass(estimate.draw).in_fast_layout(next(examples.batches(1)).x)
        gradients = pull_back(pass_, batches, cotangent, list(parameters.values()), ranks=self.ranks)
        return dict(zip(parameters, (scale * gradient for gradient in gradients), strict=True))

    def _check_present(self, estimate: Estimate) -> None:
        """Raise ArgumentError if an estimate was made with other weights, hyperparameters or settings."""
        if estimate.made_of is not None:
            check_same(estimate.made_of, self._fingerprint())

    def _fingerprint(self) -> Fingerprint:
        """Return what tells the present weights, augmentation, likelihood and settings from others; not the prior."""
        modules = {"net": self.model.net, "augmentation": self.model.augmentation, "likelihood": self.likelihood}
        views = {"samples": self.model.samples, "noise": self.model.noise, "average": self.average}
        return fingerprint(modules, views | {"layers": self.layer_choice, "curvature": self.roots.kind})

    def _gradients(self, in_data: Mapping[str, Tensor], curvature: Structure) -> dict[str, Tensor]:
        """Return all gradients by name: those of the second pass, and those in the prior, which need no pass."""
        parameters = self.hyperparameters()
        of_prior = {name: p for name, p in parameters.items() if name.startswith("prior.")}
        gradients = dict(in_data)
        if of_prior:
            weight_penalty, occam_factor = self._prior_terms(curvature, self.prior)
            total = weight_penalty + occam_factor
            of_terms = torch.autograd.grad(total, list(of_prior.values()), materialize_grads=True)
            gradients |= zip(of_prior, of_terms, strict=True)
        for name, gradient in gradients.items():
            check_finite(f"gradient of the evidence in {name}", gradient)
        return {name: gradients[name] for name in parameters}

    def backward(self, data: Data, estimate: Estimate, subset: int | None = None) -> None:
        """Add the gradient of the *negative* evidence to the `.grad` of each hyperparameter, for an optimiser."""
        gradients = self.gradient(data, estimate, subset)
        for name, parameter in self.hyperparameters().items():
            parameter.grad = -gradients[name] if parameter.grad is None else parameter.grad - gradients[name]
