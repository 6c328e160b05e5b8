"""The invariant network as a file that runs without lila."""

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kornia
import onnx
import onnxruntime
import pytest
import torch
from torch import Tensor, nn

import lila
from cases import CHANNELS, NETWORKS, SIDE
from commands import Lila
from lila.results.network_file import METADATA

SHAPE = (1, 8, 10)


def trained_run(augmentation: lila.Augmentation, net: nn.Module | None = None) -> lila.Run:
    x, y = torch.rand(12, *SHAPE), torch.arange(12) % 3
    default = nn.Sequential(nn.Conv2d(1, 4, 3), nn.Tanh(), nn.Flatten(), nn.Linear(192, 3))
    return lila.fit(net or default, (x, y), augmentation, epochs=1, samples=2, burn_in=0, progress="silent")


Network = Callable[[Tensor], Tensor]


def by_onnx(path: Path) -> Network:
    session = onnxruntime.InferenceSession(path)
    return lambda x: torch.from_numpy(session.run(["output"], {"input": x.float().numpy()})[0])


def by_pt2(path: Path) -> Network:
    module = torch.export.load(path).module()
    return lambda x: module(x).detach()


READERS = {"onnx": by_onnx, "pt2": by_pt2}
SLOWLY_BY_ONNX = [pytest.param("onnx", marks=pytest.mark.slow), "pt2"]
SIX = [0.2, 0.1, 0.8, 0.2, 0.3, 0.15]


def every_padding() -> lila.Augmentation:
    paddings = ("zeros", "border", "reflection")
    return lila.Compose(*(lila.Affine2d(init=SIX, padding=padding) for padding in paddings))


@pytest.mark.parametrize("form", READERS)
def test_the_file_gives_the_outputs_of_the_invariant_network(form: str, tmp_path: Path) -> None:
    run, path = trained_run(every_padding()), tmp_path / f"network.{form}"
    run.model.train()
    lila.export_network(run, path)
    assert run.model.training
    assert run.model.net.training
    run.model.eval()
    network = READERS[form](path)
    for batch in (1, 2, 7):  # of any size
        x = torch.rand(batch, *SHAPE)
        torch.testing.assert_close(network(x), run.model(x).detach(), rtol=0, atol=1e-4)
    assert not torch.allclose(run.model(x), run.model.net(x), atol=1e-3)  # the views matter


@pytest.mark.parametrize("form", SLOWLY_BY_ONNX)
def test_attention_in_float64_and_clouds_of_points(form: str, tmp_path: Path) -> None:
    net = NETWORKS["attention"]().double()
    x, y = torch.rand(4, CHANNELS, SIDE, SIDE, dtype=torch.float64), torch.tensor([0, 1, 2, 0])
    options: dict[str, Any] = {"method": "fixed", "epochs": 1, "samples": 2, "progress": "silent"}
    run = lila.fit(net, (x, y), lila.Affine2d(init=SIX), **options)
    lila.export_network(run, tmp_path / f"network.{form}")
    found = READERS[form](tmp_path / f"network.{form}")(x[:3])
    assert found.dtype == (torch.float32 if form == "onnx" else torch.float64)
    torch.testing.assert_close(found.double(), run.model.eval()(x[:3]).detach(), rtol=0, atol=1e-4)
    shift = lila.Generator("shift", [[0, -1, 1], [1, 0, 0], [0, 0, 0]])
    flat = nn.Sequential(nn.Flatten(), nn.Linear(8, 3))
    clouds = torch.rand(4, 4, 2)
    run = lila.fit(flat, (clouds, y), lila.LiePoints([shift], init=0.5), **options)
    lila.export_network(run, tmp_path / f"clouds.{form}")
    found = READERS[form](tmp_path / f"clouds.{form}")(clouds[:3])
    torch.testing.assert_close(found, run.model.eval()(clouds[:3]).detach(), rtol=0, atol=1e-6)


FAMILIES: dict[str, tuple[Callable[[], lila.Augmentation], tuple[int, ...]]] = {
    "colour": (lambda: lila.Colour(init=0.2), (3, 8, 8)),
    "grey": (lambda: lila.Colour(["brightness", "contrast", "gamma"], init=0.2), (1, 8, 8)),
    "guide": (lambda: lila.Compose(lila.Affine2d(), lila.HorizontalFlip(init=0.2), lila.Colour(init=0.2)), (3, 8, 8)),
    "turns": (lambda: lila.QuarterTurns(init=0.1), (1, 8, 8)),
    "series": (lambda: lila.TimeSeries(init=0.1), (2, 12)),
    "points": (lambda: lila.PointCloud(init=0.1), (5, 3)),
    "kornia": (
        lambda: lila.Kornia(kornia.geometry.transform.rotate, [lila.KorniaRange("angle", argument="angle")], init=20.0),
        (3, 8, 8),
    ),
}


@pytest.mark.parametrize("form", SLOWLY_BY_ONNX)
@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_is_written_for_batches_of_any_size(name: str, form: str, tmp_path: Path) -> None:
    make, shape = FAMILIES[name]
    x, y = torch.rand(6, *shape), torch.arange(6) % 3
    net, path = nn.Sequential(nn.Flatten(), nn.Linear(x[0].numel(), 3)), tmp_path / f"network.{form}"
    run = lila.fit(net, (x, y), make(), method="fixed", epochs=1, samples=4, progress="silent")
    lila.export_network(run, path)
    for batch in (1, 5):
        found = READERS[form](path)(x[:batch])
        torch.testing.assert_close(found, run.model.eval()(x[:batch]).detach(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("form", SLOWLY_BY_ONNX)
def test_flips_count_by_their_probability(form: str, tmp_path: Path) -> None:
    flips = lila.Compose(lila.HorizontalFlip(init=0.2), lila.Affine2d(init=SIX))
    run, path = trained_run(flips), tmp_path / f"network.{form}"
    lila.export_network(run, path)
    x = torch.rand(3, *SHAPE)
    torch.testing.assert_close(READERS[form](path)(x), run.model.eval()(x).detach(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("form", SLOWLY_BY_ONNX)
def test_a_network_that_is_not_averaged_is_written_too(form: str, tmp_path: Path) -> None:
    x, y = torch.rand(4, 5), torch.tensor([0, 1, 2, 0])
    run = lila.fit(nn.Linear(5, 3), (x, y), method="non-invariant", epochs=1, progress="silent")
    lila.export_network(run, tmp_path / f"network.{form}")
    torch.testing.assert_close(READERS[form](tmp_path / f"network.{form}")(x), run.model.net(x).detach())


def test_the_file_does_not_name_the_folders_of_this_machine(tmp_path: Path) -> None:
    lila.export_network(trained_run(lila.Affine2d(init=SIX)), tmp_path / "network.pt2")
    with zipfile.ZipFile(tmp_path / "network.pt2") as archive:
        content = b"".join(archive.read(name) for name in archive.namelist())
    assert str(Path(str(lila.__file__)).parent).encode() not in content


def about(path: Path) -> dict[str, Any]:
    if path.suffix == ".pt2":
        extra = {METADATA: ""}
        torch.export.load(path, extra_files=extra)
        found: dict[str, Any] = json.loads(extra[METADATA])
        return found
    (entry,) = (e for e in onnx.load(path).metadata_props if e.key == METADATA)
    written: dict[str, Any] = json.loads(entry.value)
    return written


@pytest.mark.parametrize("form", READERS)
def test_the_command_line_writes_the_network_with_what_its_user_needs(
    form: str, trained: Path, tmp_path: Path, lila: Lila
) -> None:
    path = tmp_path / f"network.{form}"
    done = lila("export", trained, "--to", form, "--out", path)
    assert done.returncode == 0, done.stderr
    told = about(path)
    task = json.loads((trained / "run.json").read_text())["task"]
    assert told["input"]["shape"] == ["batch", 3, 8, 8]
    assert told["input"]["mean"] == task["scaling"]["mean"]
    assert told["input"]["std"] == task["scaling"]["std"]
    assert "(pixels - mean) / std" in told["input"]["scaling"]
    assert told["output"]["classes"] == ["blue", "green", "red"]
    assert "softmax" in told["output"]["meaning"]
    assert "rotation" in told["readable_ranges"]
    assert READERS[form](path)(torch.rand(2, 3, 8, 8)).shape == (2, 3)


def test_a_network_needs_a_file_and_a_known_ending(trained: Path, lila: Lila) -> None:
    refused = lila("export", trained, "--to", "onnx")
    assert refused.returncode == 2
    assert "--out network.onnx" in refused.stderr


def test_what_cannot_be_written_is_an_error_that_says_so(tmp_path: Path) -> None:
    class Wilful(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(80, 3)

        def forward(self, x: Tensor) -> Tensor:
            outputs: Tensor = self.layer(x.flatten(1))
            return outputs if float(outputs.detach().sum()) < 1e9 else -outputs

    run = trained_run(lila.Affine2d(init=SIX), Wilful())
    with pytest.raises(lila.ModelError, match=r"cannot be captured by torch\.export"):
        lila.export_network(run, tmp_path / "network.pt2")
    with pytest.raises(lila.ArgumentError, match="no format of a network named 'h5'"):
        lila.export_network(run, tmp_path / "network.h5")
    assert not list(tmp_path.iterdir())
