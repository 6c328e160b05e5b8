"""The prior's part in the loss of the weights, -1/N log p(theta), whose gradient is delta (theta - mu) / N."""

import torch
from torch import Tensor, nn

from lila.model.prior import GaussianPrior


@torch.no_grad()
def prior_gradients(prior: GaussianPrior, net: nn.Module, examples: int) -> dict[str, Tensor]:
    """Return the gradient of -1/N log p(theta) in each trainable weight of a network, by name.

    Args:
        prior: the prior over the weights.
        net: the network.
        examples: N, the number of training examples.
    """
    precisions, deviations = prior.precisions(), prior.deviations(dict(net.named_parameters()))
    return {name: precisions[name] * deviation / examples for name, deviation in deviations.items()}


@torch.no_grad()
def add_prior_gradients(prior: GaussianPrior, net: nn.Module, examples: int) -> None:
    """Add the gradient of -1/N log p(theta) to that of each weight which has a gradient."""
    gradients = prior_gradients(prior, net, examples)
    for name, weight in net.named_parameters():
        if weight.grad is not None and name in gradients:
            weight.grad.add_(gradients[name])


def prior_loss(prior: GaussianPrior, net: nn.Module, examples: int) -> Tensor:
    """Return 1/N (1/2 sum delta (theta - mu)^2), -1/N log p(theta) up to a constant, to be added to a mean loss.

    Its gradient is exactly what `add_prior_gradients` adds, bit for bit, as the graph is that of g theta with the
    gradient g = delta (theta - mu) / N held constant.

    Args:
        prior: the prior over the weights.
        net: the network.
        examples: N, the number of training examples.
    """
    gradients, weights = prior_gradients(prior, net, examples), dict(net.named_parameters())
    with_gradient = torch.stack([(gradient * weights[name]).sum() for name, gradient in gradients.items()]).sum()
    with torch.no_grad():
        value = -prior.weight_penalty(weights) / examples
    return with_gradient - with_gradient.detach() + value.to(with_gradient.dtype)
