"""An augmentation that does not do what the contract asks is refused with a sentence, before training."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import lila
from cases import Gamma
from lila.augment.checks import check_differentiable


class Own(lila.Augmentation):
    """An augmentation whose output is made by a function of (x, noise, eta, other)."""

    noise_dim = 1

    def __init__(self, make: Callable[[Tensor, Tensor, Tensor, Tensor], Any], start: float = 0.1) -> None:
        super().__init__()
        self.eta, self.other = nn.Parameter(torch.tensor(start)), nn.Parameter(torch.tensor(start))
        self.make = make

    def forward(self, x: Tensor, noise: Tensor) -> Tensor:
        made: Tensor = self.make(x, noise, self.eta, self.other)
        return made


def right(x: Tensor, noise: Tensor, eta: Tensor, other: Tensor) -> Tensor:
    return x.unsqueeze(1) + (eta + other) * noise


def data() -> tuple[Tensor, Tensor]:
    return torch.randn(6, 3), torch.arange(6) % 2


def fit(augmentation: lila.Augmentation, **changes: Any) -> lila.Run:
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    return lila.fit(net, data(), augmentation, epochs=1, samples=4, burn_in=0, progress="silent", **changes)


@pytest.mark.parametrize(
    ("make", "returned"),
    [
        (lambda x, noise, *eta: right(x, noise, *eta)[:, 0], r"a tensor of shape \(6, 3\)"),
        (lambda x, noise, *eta: right(x, noise, *eta).flatten(0, 1), r"a tensor of shape \(24, 3\)"),
        (lambda x, noise, *eta: right(x, noise, *eta).transpose(0, 1), r"a tensor of shape \(4, 6, 3\)"),
        (lambda x, noise, *eta: right(x, noise, *eta)[..., :2], r"a tensor of shape \(6, 4, 2\)"),
        (lambda x, noise, *eta: [right(x, noise, *eta)], "a list"),
    ],
)
def test_views_of_another_shape_are_refused(make: Any, returned: str) -> None:
    message = rf"Own returned {returned} for inputs of shape \(6, 3\).* here \(6, 4, 3\)"
    model = lila.InvariantModel(nn.Linear(3, 2), Own(make), samples=4)
    with pytest.raises(lila.ModelError, match=message):
        model(data()[0])
    with pytest.raises(lila.ModelError, match="Own returned"):
        lila.Compose(lila.Compose(), Own(make))(data()[0], torch.zeros(6, 4, 1))
    with pytest.raises(lila.ModelError, match="Own returned"):
        fit(Own(make))


class Crop(lila.Augmentation):
    noise_dim = 0

    def forward(self, x: Tensor, noise: Tensor) -> Tensor:
        return x[:, None, 1:].expand(-1, noise.shape[1], -1)

    def view_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return (shape[0] - 1,)


def test_a_family_may_say_that_it_changes_the_shape() -> None:
    twice = lila.Compose(Crop(), Crop())
    assert twice.view_shape((3,)) == (1,)
    assert lila.InvariantModel(nn.Linear(1, 2), twice, samples=2)(data()[0]).shape == (6, 2)


@torch.no_grad()
def without_graph(x: Tensor, noise: Tensor, eta: Tensor, other: Tensor) -> Tensor:
    return right(x, noise, eta, other)


@pytest.mark.parametrize(
    ("make", "names"),
    [
        (without_graph, "eta, other"),
        (lambda x, noise, eta, other: right(x, noise, eta.detach(), other.detach()), "eta, other"),
        (lambda x, noise, eta, other: right(x, noise, eta.item(), other), "eta"),
        (lambda x, noise, eta, other: right(x, noise, eta, eta), "other"),
    ],
)
@pytest.mark.parametrize("changes", [{}, {"passes": "probed"}, {"method": "augerino"}])
def test_parameters_that_no_gradient_reaches_are_refused_before_training(
    make: Any, names: str, changes: dict[str, Any]
) -> None:
    augmentation, seen = Own(make), list[Any]()
    with pytest.raises(lila.ModelError, match=f"Own cannot learn its parameters {names}: no gradient"):
        fit(augmentation, callbacks=[seen.append], **changes)
    assert not seen
    frozen = Own(make).requires_grad_(False)
    assert fit(frozen, method="fixed").model.augmentation is frozen


def test_what_can_be_learned_or_has_nothing_to_learn_is_not_refused() -> None:
    x, noise = data()[0], torch.rand(6, 4, 1)
    check_differentiable(lila.Compose(), x, noise[..., :0])
    check_differentiable(Own(without_graph).requires_grad_(False), x, noise)
    check_differentiable(Own(right, start=0.0), x, noise)
    check_differentiable(Own(lambda x, noise, eta, other: right(x, noise, eta**2, other * 0), start=0.0), x, noise)
    check_differentiable(lila.Compose(Gamma(), lila.Affine2d()), torch.rand(6, 1, 4, 4), torch.rand(6, 4, 8))
    half = Own(lambda x, noise, eta, other: right(x, noise, eta, other.detach()))
    half.other.requires_grad_(False)
    with torch.no_grad():
        check_differentiable(half, x, noise)
    assert half.eta.grad is None
