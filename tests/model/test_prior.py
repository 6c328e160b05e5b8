from math import isclose

import pytest
import torch
from torch import nn

import lila
from cases import make_case
from oracles import precision_vector, trainable


@pytest.mark.parametrize("structure", ["scalar", "layerwise", "diagonal"])
@pytest.mark.parametrize("network", ["mlp", "residual", "partly_frozen"])
def test_log_density_is_that_of_independent_normals(structure: str, network: str) -> None:
    case = make_case(network)
    prior = case.prior(structure)
    weights = trainable(case.net)
    theta = torch.cat([w.flatten() for w in weights.values()])
    expected = torch.distributions.Normal(0.0, precision_vector(case, prior).rsqrt()).log_prob(theta).sum()
    torch.testing.assert_close(prior.log_prob(dict(case.net.named_parameters())), expected)


def test_number_of_precisions() -> None:
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2, bias=False))
    counts = {
        s: sum(p.numel() for p in lila.GaussianPrior(net, s).parameters()) for s in lila.model.prior.PriorStructure
    }
    assert counts == {"scalar": 1, "layerwise": 2, "diagonal": 24}


def test_it_starts_at_the_given_precision_in_the_weights_type() -> None:
    prior = lila.GaussianPrior(nn.Linear(2, 1).double(), precision=3.0)
    for delta in prior.precisions().values():
        assert delta.dtype == torch.float64
        assert isclose(delta.item(), 3.0)


@pytest.mark.parametrize("precision", [0.0, -1.0, float("nan"), float("inf")])
def test_precisions_must_be_positive(precision: float) -> None:
    with pytest.raises(lila.ArgumentError, match="positive"):
        lila.GaussianPrior(nn.Linear(1, 1), precision=precision)


def test_a_network_without_weights_is_refused() -> None:
    with pytest.raises(lila.ModelError, match="no trainable parameters"):
        lila.GaussianPrior(nn.Linear(1, 1).requires_grad_(False))
    with pytest.raises(lila.ArgumentError, match="no prior structure named 'block'"):
        lila.GaussianPrior(nn.Linear(1, 1), "block")
