"""The curvature of a finished run, from which its posterior follows, in a file beside its checkpoint."""

import stat
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from lila._util.files import replaced
from lila._util.ranks import ALONE
from lila.curvature import Structure
from lila.errors import CheckpointError
from lila.training.checkpoint import RUN, check_identity, digest
from lila.training.schema import check_file

FORMAT = "lila-posterior-1"
POSTERIOR = "posterior.safetensors"


def write_posterior(folder: Path, identity: str, curvature: Structure) -> int:
    """Write the curvature of a run into its folder, and return the size of the file in bytes.

    Args:
        folder: of the run, in which `run.json` is.
        identity: of the run.
        curvature: of the final estimate of the evidence.
    """
    tensors = {f"curvature.{i}": t.detach().cpu().contiguous() for i, t in enumerate(curvature.tensors())}
    metadata = {"format": FORMAT, "run": identity, "sha256": digest(tensors)}
    path = folder / POSTERIOR
    with replaced(path) as temporary:
        try:
            save_file(tensors, temporary, metadata=metadata)
        except SafetensorError as error:  # what the operating system refuses is no OSError there
            raise OSError(f"{path} could not be written: {error}. Make room on the disk.") from error
        temporary.chmod(stat.S_IMODE((folder / RUN).stat().st_mode))  # safetensors makes it private
    return path.stat().st_size


def read_posterior(folder: Path, identity: str, zeros: Structure) -> Structure | None:
    """Read the curvature of a run; None if it was not saved.

    Args:
        folder: of the run.
        identity: of the run, which the file must repeat.
        zeros: the curvature of the same network over no examples, whose shapes and types the file must have.
    """
    path = folder / POSTERIOR
    if not path.exists():
        return None
    check_file(path)
    expected = {f"curvature.{i}": t for i, t in enumerate(zeros.tensors())}
    try:
        with safe_open(path, framework="pt") as file:
            metadata, names = file.metadata() or {}, set(file.keys())
            shapes = {name: tuple(file.get_slice(name).get_shape()) for name in names}
            tensors = {name: file.get_tensor(name) for name in names}
    except (SafetensorError, OSError, ValueError, TypeError) as error:
        raise CheckpointError(f"{path} is damaged and cannot be read: {error}") from error
    if metadata.get("format") != FORMAT:
        raise CheckpointError(f"{path} is not a posterior of lila: its format is {metadata.get('format')!r}.")
    check_identity(metadata, identity, str(path))
    if metadata.get("sha256") != digest(tensors):
        raise CheckpointError(f"{path} is damaged: its tensors do not have the checksum that was stored with them.")
    if names != expected.keys():
        raise CheckpointError(f"{path} has {len(names)} tensors, but the curvature of this network {len(expected)}.")
    for name, like in expected.items():
        if shapes[name] != tuple(like.shape) or tensors[name].dtype != like.dtype:
            raise CheckpointError(
                f"{name!r} is {tensors[name].dtype} of shape {shapes[name]} in {path}, but {like.dtype} of shape "
                f"{tuple(like.shape)} for this network: it belongs to another."
            )
        if not tensors[name].isfinite().all():
            raise CheckpointError(f"{path} is damaged: {name!r} holds NaN or infinite values.")
    return zeros.with_tensors([tensors[name].to(like.device) for name, like in expected.items()]).decomposed(ALONE)
