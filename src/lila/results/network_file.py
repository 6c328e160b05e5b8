"""The invariant network of a run as one file that runs without lila: ONNX, or PyTorch's own exported program.

The network is averaged over the fixed views of evaluation mode, so that for batches of any size the file gives the
outputs of `run.model.eval()`. What a user needs to know beside the network, such as how pixels are scaled and what the
classes are called, is written into the file as JSON.
"""

import io
import json
import warnings
from collections.abc import Callable, Mapping
from copy import deepcopy
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

from lila._util.choices import choose
from lila._util.files import replaced
from lila._util.versions import versions
from lila.errors import LilaError, ModelError
from lila.model.invariant import InvariantModel, weighted_mean
from lila.training.run import Run

METADATA = "lila.json"
"""The name of the metadata: the extra file in a .pt2 file, and the key of `metadata_props` in an ONNX model."""
INPUT, OUTPUT = "input", "output"
_PREDICTIONS = {
    "Categorical": "logits of the classes; softmax gives probabilities",
    "Bernoulli": "logits of the labels; sigmoid gives probabilities",
    "Gaussian": "means of the targets",
}


class NetworkFormat(StrEnum):
    """The formats of a network's file; each is also the ending of the file's name."""

    ONNX = "onnx"
    PT2 = "pt2"


class FixedViews(nn.Module):
    """An invariant network with the noise of evaluation mode as a constant.

    Args:
        model: the invariant network.
    """

    view_weights: Tensor | None

    def __init__(self, model: InvariantModel) -> None:
        super().__init__()
        weight = next(model.net.parameters())
        noise = model.fixed_noise(weight.new_zeros(1, 0))  # (1, s, k)
        with torch.no_grad():
            weights = model.view_weights(noise)
        self.register_buffer("view_weights", weights)
        self.views, self.net, self.samples = model.augmentation.fixed(noise[0]), model.net, model.samples

    def forward(self, x: Tensor) -> Tensor:
        """Return the averaged outputs at inputs x, shape (b, c)."""
        outputs: Tensor = self.net(self.views(x).flatten(0, 1))
        return weighted_mean(outputs.unflatten(0, (-1, self.samples)), self.view_weights)


def export_network(run: Run, path: str | Path, format: str | NetworkFormat | None = None) -> None:
    """Write the invariant network of a run into a file that runs without lila.

    An ONNX model has the input "input" and the output "output", and its `metadata_props` hold the metadata under
    "lila.json". It computes in float32, as onnxruntime has no convolutions in float64. A .pt2 file is read by
    `torch.export.load`, and holds the metadata as the extra file "lila.json".

    Args:
        run: the run.
        path: the file.
        format: "onnx" or "pt2"; by the ending of the path if None. ONNX needs `pip install 'lila-torch[onnx]'`.
    """
    path = Path(path)
    chosen = choose(NetworkFormat, path.suffix.removeprefix(".") if format is None else format, "format of a network")
    model = deepcopy(run.model).eval()
    if chosen is NetworkFormat.ONNX:
        model = model.float()
    weight = next(model.net.parameters())
    about = json.dumps(metadata(run, weight.dtype), indent=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's remarks on code of its own
        content = _WRITERS[chosen](_captured(FixedViews(model), weight.new_zeros(2, *run.shape)), about)
    with replaced(path) as temporary:
        temporary.write_bytes(content)


def metadata(run: Run, dtype: torch.dtype) -> dict[str, Any]:
    """Return what a user of the network's file needs to know, as plain data.

    Args:
        run: the run.
        dtype: the type of the file's input.
    """
    inputs, augmentation = run.input_format, run.model.augmentation
    likelihood = type(run.likelihood).__name__
    return {
        "input": {
            "name": INPUT,
            "shape": ["batch", *run.shape],
            "dtype": str(dtype).removeprefix("torch."),
            "mean": list(inputs.mean),
            "std": list(inputs.std),
            "scaling": "the input is as the run's training data was"
            if run.task is None
            else "the input is (pixels - mean) / std of each channel, for pixels in [0, 1]",
        },
        "output": {
            "name": OUTPUT,
            "meaning": _PREDICTIONS.get(likelihood, f"outputs of the network, for the likelihood {likelihood}"),
            "classes": None if run.task is None else list(run.task.classes),
        },
        "views": run.model.samples,
        "ranges": dict(augmentation.ranges),
        "readable_ranges": dict(augmentation.readable_ranges(run.shape)),
        "versions": versions(),
    }


def _captured(network: nn.Module, example: Tensor) -> ExportedProgram:
    """Capture the graph of a network, for batches of any size, by running it on an example of a batch."""
    try:
        with torch.no_grad():
            program = torch.export.export(network, (example,), dynamic_shapes={"x": {0: Dim("batch", min=1)}})
    except Exception as error:  # whatever the network does, and PyTorch's many classes of errors
        raise ModelError(
            f"The graph of the network cannot be captured by torch.export, so it cannot be written into a file: {error}"
        ) from error
    for node in program.graph.nodes:
        node.meta.pop("stack_trace", None)  # it names the folders of this machine
    return program


def _pt2(program: ExportedProgram, about: str) -> bytes:
    file = io.BytesIO()
    torch.export.save(program, file, extra_files={METADATA: about})
    return file.getvalue()


def _onnx(program: ExportedProgram, about: str) -> bytes:
    if any(find_spec(package) is None for package in ("onnx", "onnxscript")):
        raise LilaError("ONNX is not installed: pip install 'lila-torch[onnx]'.")
    try:
        try:
            written = _converted(program)
        except torch.onnx.OnnxExporterError:  # an operation that is unknown may consist of others that are known
            written = _converted(program.run_decompositions())
    except torch.onnx.OnnxExporterError as error:
        raise ModelError(
            f"The network has an operation that cannot be written as ONNX: {_first_cause(error)}. Export it to pt2."
        ) from error
    written.model.metadata_props[METADATA] = about
    content: bytes = written.model_proto.SerializeToString()
    return content


def _converted(program: ExportedProgram) -> torch.onnx.ONNXProgram:
    written = torch.onnx.export(program, dynamo=True, input_names=[INPUT], output_names=[OUTPUT], verbose=False)
    assert written is not None
    return written


def _first_cause(error: BaseException) -> BaseException:
    """Return the error from which a chain of errors comes; the last one of the exporter's is a page of advice."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error


_WRITERS: Mapping[NetworkFormat, Callable[[ExportedProgram, str], bytes]] = {
    NetworkFormat.ONNX: _onnx,
    NetworkFormat.PT2: _pt2,
}
