import pytest
import torch
from torch import Tensor, nn

import lila
from cases import NETWORKS, make_case
from oracles import average_output, trainable


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("samples", [1, 3])
def test_the_invariant_network_is_a_loop_over_samples(network: str, samples: int) -> None:
    case = make_case(network, samples=samples)
    expected = [average_output(case.net, views, trainable(case.net)) for views in case.views()]
    torch.testing.assert_close(case.model(case.x, case.noise()), torch.stack(expected))


@pytest.mark.parametrize("network", NETWORKS)
def test_eta_zero_is_the_plain_network(network: str) -> None:
    case = make_case(network)
    model = lila.InvariantModel(case.net, lila.Affine2d(), samples=5).double()
    torch.testing.assert_close(model(case.x), case.net(case.x))


def test_in_evaluation_a_prediction_depends_on_nothing_but_its_input() -> None:
    case = make_case()
    case.model.eval()
    together = case.model(case.x)
    assert torch.equal(together, case.model(case.x))
    for n in range(len(case.x)):
        torch.testing.assert_close(case.model(case.x[n : n + 1])[0], together[n])


def test_in_training_noise_is_fresh_and_follows_the_global_seed() -> None:
    case = make_case()
    case.model.train()
    torch.manual_seed(3)
    first, second = case.model(case.x), case.model(case.x)
    torch.manual_seed(3)
    assert torch.equal(case.model(case.x), first)
    assert not torch.allclose(first, second)


@pytest.mark.parametrize("samples", [0, -1])
def test_less_than_one_sample_is_refused(samples: int) -> None:
    with pytest.raises(lila.ArgumentError, match="at least 1"):
        lila.InvariantModel(nn.Linear(2, 1), lila.Rotation2d(), samples=samples)


class Wrong(nn.Module):
    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind

    def forward(self, x: torch.Tensor) -> object:
        return {"image": x[:, :, None], "scalar": x.mean(), "tuple": (x, x), "rows": x[:1]}[self.kind]


@pytest.mark.parametrize("kind", ["image", "scalar", "tuple", "rows"])
def test_outputs_of_the_wrong_shape_are_refused(kind: str) -> None:
    model = lila.InvariantModel(Wrong(kind), lila.Rotation2d(), samples=2)
    with pytest.raises(lila.ModelError, match=r"outputs of shape \(6, outputs\), but Wrong returned"):
        model(torch.rand(3, 2))


@pytest.mark.parametrize("channels", [1, 3])
def test_convolutions_see_images_channels_last_on_a_cpu(channels: int) -> None:
    seen: list[Tensor] = []
    net = nn.Sequential(nn.Conv2d(channels, 4, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2))
    net[0].register_forward_hook(lambda module, args, output: seen.append(output))
    x = torch.rand(2, channels, 8, 8)
    model = lila.InvariantModel(net, lila.Affine2d(init=0.1), samples=3).in_fast_layout(x)
    seen.clear()
    outputs = model(x)
    assert seen[0].is_contiguous(memory_format=torch.channels_last)
    views = model.views(x, model.draw(lila.Draw(), torch.arange(2), x.dtype))
    torch.testing.assert_close(model.average(views, 2), net(views).unflatten(0, (2, 3)).mean(1))
    assert outputs.shape == (2, 2)


class ByView(nn.Module):
    """A network that takes pixels apart by `Tensor.view`, which channels last does not allow."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.linear = nn.Conv2d(3, 4, 3), nn.Linear(4 * 36, 2)

    def forward(self, x: Tensor) -> Tensor:
        features = torch.relu(self.conv(x))
        outputs: Tensor = self.linear(features.view(features.shape[0], -1))
        return outputs


def test_a_network_that_needs_its_images_contiguous_gets_them() -> None:
    net, x, y = ByView(), torch.rand(4, 3, 8, 8), torch.tensor([0, 1, 0, 1])
    model = lila.InvariantModel(net, lila.Affine2d(init=0.1), samples=3)
    noise = model.draw(lila.Draw(), torch.arange(4), x.dtype)
    expected = net(model.views(x, noise)).unflatten(0, (4, 3)).mean(1)
    torch.testing.assert_close(model(x, noise), expected)
    fresh = lila.InvariantModel(net, lila.Affine2d(init=0.1), samples=3)
    evidences = [lila.Evidence(m, lila.Categorical(), lila.GaussianPrior(net)) for m in (fresh, model)]
    first, later = (evidence.gradient((x, y), evidence.estimate((x, y))) for evidence in evidences)
    torch.testing.assert_close(first, later)


def test_other_errors_of_a_network_are_passed_on() -> None:
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(7, 2))
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        lila.InvariantModel(net, lila.Affine2d(), samples=2)(torch.rand(1, 3, 8, 8))


def test_in_evaluation_inputs_are_not_moved_on_average() -> None:
    """With a linear network, symmetric noise shifts nothing, where a few random shifts would."""
    model = lila.InvariantModel(nn.Identity(), Shift(), samples=3).double().eval()
    x = torch.randn(5, 2, dtype=torch.float64)
    torch.testing.assert_close(model(x), x)


class Shift(lila.Augmentation):
    """Points moved by up to one along each axis."""

    noise_dim = 2

    def forward(self, x: Tensor, noise: Tensor) -> Tensor:
        return x[:, None] + noise


def test_predictions_may_be_asked_for_in_inference_mode_first() -> None:
    model = lila.InvariantModel(nn.Linear(2, 2), lila.Rotation2d(init=0.5), samples=17).double().eval()
    x = torch.randn(3, 2, dtype=torch.float64)
    with torch.inference_mode():
        first = model(x)
    again = model(x)
    again.sum().backward()
    torch.testing.assert_close(again, first)
