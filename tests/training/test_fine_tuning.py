"""Fine-tuning: frozen statistics of batch norm and a prior about the first weights, through runs and checkpoints."""

import copy
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import lila


def trained_before() -> nn.Sequential:
    """A network with batch norm whose statistics were collected."""
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(1, 4, 3),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(36, 8),
        nn.BatchNorm1d(8),
        nn.Linear(8, 2),
    )
    for _ in range(20):
        net(2 * torch.randn(30, 1, 5, 5) + 1)
    return net


def data() -> tuple[Tensor, Tensor]:
    x = torch.randn(60, 1, 5, 5, generator=torch.Generator().manual_seed(1))
    return x, (x.mean((1, 2, 3)) > 0).long()


OPTIONS: dict[str, Any] = {"epochs": 4, "samples": 2, "batch_size": 20, "progress": "silent"}


def buffers(net: nn.Module) -> dict[str, Tensor]:
    return {name: buffer.clone() for name, buffer in net.named_buffers()}


@pytest.mark.parametrize("again", [copy.deepcopy, lambda net: pickle.loads(pickle.dumps(net)), lambda net: net])
def test_frozen_statistics_survive_train_copies_and_pickles(again: Any) -> None:
    net = again(lila.freeze_statistics(trained_before()))
    before = buffers(net)
    assert net.train() is net
    assert [module.training for module in net] == [True, False, True, True, True, False, True]
    net(torch.randn(9, 1, 5, 5))
    torch.testing.assert_close(buffers(net), before, rtol=0, atol=0)
    assert not any(module.training for module in net.eval())
    assert list(net.state_dict()) == list(trained_before().state_dict())


def test_a_frozen_norm_is_an_affine_map_of_each_channel() -> None:
    net = lila.freeze_statistics(trained_before()).train()
    norm = net[1]
    assert isinstance(norm, nn.BatchNorm2d)
    x = torch.randn(3, 4, 2, 2)
    mean, variance = norm.running_mean, norm.running_var
    assert mean is not None
    assert variance is not None
    expected = (x - mean[:, None, None]) / (variance[:, None, None] + norm.eps).sqrt()
    torch.testing.assert_close(norm(x), expected * norm.weight[:, None, None] + norm.bias[:, None, None])


def test_norms_without_statistics_cannot_be_frozen() -> None:
    net = nn.Sequential(nn.Conv2d(1, 2, 1), nn.BatchNorm2d(2, track_running_stats=False))
    with pytest.raises(lila.ModelError, match=r"\['1'\] keep no running statistics.*lila.convert_batch_norm"):
        lila.freeze_statistics(net)
    assert net[1].training


@pytest.mark.parametrize("progress", ["silent", "lines"])
def test_a_run_leaves_statistics_bit_for_bit(progress: str) -> None:
    """Also the rehearsal before it, which runs the network to foretell the time."""
    net = lila.freeze_statistics(trained_before())
    before = buffers(net)
    run = lila.fit(net, data(), lila.Affine2d(), **(OPTIONS | {"progress": progress}))
    torch.testing.assert_close(buffers(net), before, rtol=0, atol=0)
    assert run.evidence.value < 0


def test_a_norm_that_is_only_in_evaluation_mode_stays_so() -> None:
    net = trained_before().eval()
    before = buffers(net)
    lila.fit(net, data(), lila.Affine2d(), **(OPTIONS | {"progress": "lines"}))
    torch.testing.assert_close(buffers(net), before, rtol=0, atol=0)
    assert not any(module.training for module in net)


def test_a_norm_in_training_mode_is_refused_before_it_changes() -> None:
    net = trained_before()
    before = buffers(net)
    with pytest.raises(lila.ModelError, match=r"lila\.freeze_statistics\(net\)"):
        lila.fit(net, data(), lila.Affine2d(), **OPTIONS)
    torch.testing.assert_close(buffers(net), before, rtol=0, atol=0)


def test_a_saved_run_has_the_statistics_and_keeps_them(tmp_path: Path) -> None:
    run = lila.fit(lila.freeze_statistics(trained_before()), data(), lila.Affine2d(), folder=tmp_path, **OPTIONS)
    loaded = lila.load(tmp_path)
    torch.testing.assert_close(buffers(loaded.model.net), buffers(run.model.net), rtol=0, atol=0)
    loaded.model.train()
    x = data()[0][:5]
    noise = loaded.model.fixed_noise(x)
    torch.testing.assert_close(loaded.model(x, noise), run.model(x, noise))
    torch.testing.assert_close(buffers(loaded.model.net), buffers(run.model.net), rtol=0, atol=0)


def interrupt(record: lila.EpochRecord) -> None:
    if record.epoch == 2:
        raise KeyboardInterrupt


@pytest.mark.parametrize("passes", ["running", "exact"])
def test_a_resumed_run_knows_the_weights_that_it_began_with(passes: str, tmp_path: Path) -> None:
    """Though it is given a network with other weights."""
    options = OPTIONS | {"prior_mean": "start", "passes": passes, "checkpoint_every": 1, "burn_in": 1}
    net = lila.freeze_statistics(trained_before())
    first = {name: p.detach().clone() for name, p in net.named_parameters()}
    whole = lila.fit(copy.deepcopy(net), data(), lila.Affine2d(), **options)
    with pytest.raises(KeyboardInterrupt):
        lila.fit(copy.deepcopy(net), data(), lila.Affine2d(), folder=tmp_path, callbacks=[interrupt], **options)
    other = copy.deepcopy(net)
    nn.init.normal_(next(other.parameters()))
    resumed = lila.resume(tmp_path, other, data(), lila.Affine2d(), progress="silent")
    torch.testing.assert_close(resumed.model.state_dict(), whole.model.state_dict(), rtol=0, atol=0)
    assert resumed.evidence.value == whole.evidence.value
    loaded = lila.load(tmp_path, net=other)
    for run in (resumed, loaded):
        assert run.prior.weight_penalty(first) == 0
        assert run.prior.weight_penalty(dict(run.model.net.named_parameters())) < 0


def test_a_strong_prior_holds_the_weights_at_its_mean() -> None:
    weights = {}
    strong = OPTIONS | {"precision": 1e6, "passes": "exact", "epochs": 12}
    for mean in ("zero", "start"):
        run = lila.fit(lila.freeze_statistics(trained_before()), data(), **strong, prior_mean=mean)
        weights[mean] = next(run.model.net.parameters()).detach()
    first = next(trained_before().parameters())
    assert (weights["start"] - first).abs().max() < 0.05 < (weights["zero"] - first).abs().max()
