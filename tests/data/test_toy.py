import pytest
import torch

from lila.data.toy import REACH, arcs


def test_arcs_lie_where_they_are_said_to() -> None:
    x, y = arcs(3000, seed=4)
    radius, angle = x.norm(dim=1), torch.atan2(x[:, 1], x[:, 0])
    assert radius[y == 0].mean() == pytest.approx(0.5, abs=0.02)
    outer = radius[(y == 1) & (radius > 0.5)]
    assert outer.mean() == pytest.approx(1.0, abs=0.02)
    assert len(outer) / (y == 1).sum() == pytest.approx(2 / 3, abs=0.01)
    far = radius > 0.5
    assert angle[far].abs().max() < REACH + 0.4
    assert angle[far].abs().quantile(0.9) == pytest.approx(0.9 * REACH, abs=0.06)


def test_arcs_follow_the_seed() -> None:
    assert torch.equal(arcs(10, seed=1)[0], arcs(10, seed=1)[0])
    assert not torch.equal(arcs(10, seed=1)[0], arcs(10, seed=2)[0])
