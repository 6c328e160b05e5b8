"""The posterior of a loaded run."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from test_fit import data, run

import lila
from lila.training.checkpoint import digest, read_json
from lila.training.posterior_file import FORMAT, POSTERIOR


@pytest.mark.parametrize("structure", ["kron", "diag", "full"])
def test_a_loaded_run_has_its_posterior(tmp_path: Path, structure: str) -> None:
    made = run(structure=structure)
    made.save(tmp_path, posterior=True)
    loaded, x = lila.load(tmp_path), data()[0]
    torch.testing.assert_close(loaded.posterior.predict(x), made.posterior.predict(x))
    assert not torch.allclose(loaded.posterior.predict(x), loaded.likelihood.predict(loaded.model.eval()(x)), atol=1e-6)
    assert loaded.evidence.value == made.evidence.value


def test_it_is_optional_and_can_be_added(tmp_path: Path) -> None:
    made = run()
    made.save(tmp_path)
    loaded = lila.load(tmp_path)
    with pytest.raises(lila.ArgumentError, match="saved without its posterior"):
        loaded.posterior  # noqa: B018
    with pytest.raises(lila.ArgumentError, match="saved without its posterior"):
        loaded.save(tmp_path / "other", posterior=True)
    assert made.save_posterior(tmp_path) == (tmp_path / POSTERIOR).stat().st_size
    assert lila.load(tmp_path).posterior.outputs(data()[0])[1].shape == (20, 3, 3)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ("bytes", "damaged"),
        ("run", "belongs to another run"),
        ("checksum", "checksum"),
        ("shape", "belongs to another"),
        ("nan", "NaN or infinite"),
        ("missing", "has 1 tensors"),
    ],
)
def test_a_damaged_posterior_is_refused(tmp_path: Path, damage: str, message: str) -> None:
    run().save(tmp_path, posterior=True)
    path = tmp_path / POSTERIOR
    tensors, identity = load_file(path), read_json(tmp_path / "run.json")["run"]
    name = next(iter(tensors))
    if damage == "shape":
        tensors[name] = torch.zeros(2, 2)
    elif damage == "nan":
        tensors[name] = torch.full_like(tensors[name], torch.nan)
    elif damage == "missing":
        tensors = {name: tensors[name]}
    metadata = {
        "format": FORMAT,
        "run": "0" * 32 if damage == "run" else identity,
        "sha256": "0" if damage == "checksum" else digest(tensors),
    }
    save_file(tensors, path, metadata=metadata)
    if damage == "bytes":
        path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(lila.CheckpointError, match=message):
        lila.load(tmp_path)
