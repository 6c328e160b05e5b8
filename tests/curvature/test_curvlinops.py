"""At S = 1 the Kronecker factors are those of an independent library."""

from math import log

import pytest
import torch
from curvlinops import KFACLinearOperator
from torch import nn

import lila
from cases import Case, make_case
from dense import curvature, dense


def kfac(case: Case, loss: nn.Module, targets: torch.Tensor, fisher: str) -> torch.Tensor:
    views = case.views().detach()[:, 0]
    params = [p for p in case.net.parameters() if p.requires_grad]
    operator = KFACLinearOperator(
        case.net,
        loss,
        params,
        [(views, targets)],
        fisher_type=fisher,
        kfac_approx="expand",
        separate_weight_and_bias=False,
        check_deterministic=False,
    )
    matrix: torch.Tensor = operator @ torch.eye(sum(p.numel() for p in params), dtype=torch.float64)
    return matrix


@pytest.mark.parametrize(("kind", "fisher"), [("ggn", "type-2"), ("ef", "empirical")])
@pytest.mark.parametrize("network", ["mlp", "linear", "conv"])
def test_kron_of_classification(network: str, kind: str, fisher: str) -> None:
    case = conv_case() if network == "conv" else make_case(network, samples=1, n=5)
    expected = kfac(case, nn.CrossEntropyLoss(reduction="sum"), case.y, fisher)
    torch.testing.assert_close(dense(curvature(case, "kron", kind)), expected)


def test_kron_of_regression() -> None:
    case = make_case("mlp", "gaussian", samples=1, n=5)
    assert isinstance(case.likelihood, lila.Gaussian)
    torch.nn.init.constant_(case.likelihood.log_sigma, log(0.5) / 2)  # 1 / sigma^2 = 2, as of a sum of squares
    expected = kfac(case, nn.MSELoss(reduction="sum"), case.y, "type-2")
    torch.testing.assert_close(dense(curvature(case, "kron")), expected, rtol=1e-6, atol=1e-8)


def conv_case() -> Case:
    case = make_case("mlp", samples=1, n=4)
    net = nn.Sequential(
        nn.Conv2d(2, 3, 3, stride=2, padding=1), nn.Tanh(), nn.Conv2d(3, 2, 2), nn.Tanh(), nn.Flatten(), nn.Linear(8, 3)
    )
    case.model.net = net.double()
    return case
