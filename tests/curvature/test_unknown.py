"""Parameters with no curvature rule that are left out on request, with a warning that names them."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import lila
import oracles
from cases import CHANNELS, OUTPUTS, SIDE, Case, case_of

NAMES = r"\['bilinear.weight', 'bilinear.bias', 'matrix'\]"


class Odd(nn.Module):
    """A layer without a rule, a parameter that is used as a matrix, and one that is added."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(CHANNELS * SIDE**2, 4), nn.Linear(4, OUTPUTS)
        self.bilinear = nn.Bilinear(4, 4, 4)
        self.matrix, self.shift = nn.Parameter(torch.randn(4, 4)), nn.Parameter(torch.randn(4))

    def forward(self, x: Tensor) -> Tensor:
        h = torch.tanh(self.body(x.flatten(1)) + self.shift)
        return self.head(torch.tanh(self.bilinear(h, h)) @ self.matrix)


def odd_case() -> Case:
    torch.manual_seed(1)
    return case_of(Odd())


def evidence_of(case: Case, **options: Any) -> lila.Evidence:
    return lila.Evidence(case.model, case.likelihood, lila.GaussianPrior(case.net), structure="full", **options)


def test_they_are_named_and_frozen() -> None:
    case = odd_case()
    with pytest.warns(UserWarning, match=NAMES):
        frozen = lila.freeze_unknown(case.net, case.x)
    assert frozen == ["bilinear.weight", "bilinear.bias", "matrix"]
    assert {name for name, p in case.net.named_parameters() if not p.requires_grad} == set(frozen)
    assert lila.freeze_unknown(case.net, case.x) == []  # and no warning, which would be an error here
    evidence = evidence_of(case)
    found = evidence.estimate(case.data, case.draw)
    expected = [term.item() for term in oracles.terms(case, evidence.prior, "full")]
    assert list(found.terms().values()) == pytest.approx(expected)


def test_an_evidence_leaves_them_out_and_changes_nothing_of_the_network() -> None:
    case, frozen = odd_case(), odd_case()
    with pytest.warns(UserWarning, match=NAMES):
        lila.freeze_unknown(frozen.net, frozen.x)
    with pytest.warns(UserWarning, match=r"\['bilinear.weight', 'bilinear.bias'\], so the evidence takes them for"):
        evidence = evidence_of(case, unknown="freeze")
    with pytest.warns(UserWarning, match=r"\['matrix'\], so the evidence takes them for constants"):
        found = evidence.estimate(case.data, case.draw)
    assert all(p.requires_grad for p in case.net.parameters())
    expected = evidence_of(frozen)
    estimate = expected.estimate(frozen.data, frozen.draw)
    assert found.terms() == pytest.approx(estimate.terms())
    torch.testing.assert_close(
        evidence.gradient(case.data, found)["augmentation.eta"],
        expected.gradient(frozen.data, estimate)["augmentation.eta"],
    )
    evidence.estimate(case.data, case.draw)  # and no second warning


def test_without_the_request_they_are_refused() -> None:
    case = odd_case()
    with pytest.raises(lila.ModelError, match=r"\['weight', 'bias'\] of 'bilinear' \(Bilinear\).*unknown='freeze'"):
        evidence_of(case)
    with pytest.raises(lila.ArgumentError, match="no way with parameters that have no rule named 'drop'"):
        evidence_of(case, unknown="drop")


def test_tied_weights_are_left_out_too() -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(50, 3), nn.Tanh(), nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, OUTPUTS))
    net[3].weight = net[5].weight
    case = case_of(net)
    with pytest.warns(UserWarning, match=r"\['3.weight', '5.weight'\]"):
        lila.freeze_unknown(net, case.x)
    evidence_of(case).estimate(case.data, case.draw)


def test_other_faults_are_refused_as_ever() -> None:
    """A weight that is used past its layer has a rule; leaving it out would hide a mistake."""

    class Past(Odd):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x) + x.flatten(1) @ self.body.weight[:OUTPUTS].mT

    case = case_of(Past())
    with pytest.warns(UserWarning, match=NAMES):
        lila.freeze_unknown(case.net, case.x)
    with pytest.raises(lila.ModelError, match=r"\['body.weight'\] are used outside of the forward"):
        evidence_of(case).estimate(case.data, case.draw)


def test_a_run_freezes_them_and_can_be_resumed(tmp_path: Any) -> None:
    torch.manual_seed(0)
    net, x = Odd(), torch.randn(40, CHANNELS, SIDE, SIDE)
    before, shift = net.matrix.detach().clone(), net.shift.detach().clone()
    data = x, (x.mean((1, 2, 3)) > 0).long()
    options: dict[str, Any] = {"epochs": 3, "samples": 2, "progress": "silent"}
    with pytest.warns(UserWarning, match=NAMES):
        lila.fit(net, data, lila.Affine2d(), folder=tmp_path, unknown="freeze", **options)
    assert torch.equal(net.matrix, before)
    assert not torch.equal(net.shift, shift)
    with pytest.warns(UserWarning, match=NAMES):
        again = lila.resume(tmp_path, Odd(), data, lila.Affine2d(), progress="silent")
    torch.testing.assert_close(again.model.net.state_dict(), net.state_dict(), rtol=0, atol=0)
    with pytest.warns(UserWarning, match=NAMES):
        loaded = lila.load(tmp_path, net=Odd())
    torch.testing.assert_close(loaded.model.net.state_dict(), net.state_dict(), rtol=0, atol=0)
