"""An encoder with a last linear layer as an ONNX file that other verifiers read, and such a file run as they run it."""

import inspect
import io
import logging
import os
import warnings
from contextlib import redirect_stderr, redirect_stdout
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from holdfast.core import Encoder, HoldfastError, Images
from holdfast.runtime.errors import Failed, NotFinite, Unsupported, first_line
from holdfast.runtime.network import copy_of, freeze
from holdfast.runtime.optional import optional
from holdfast.sources.onnx.file import package
from holdfast.sources.onnx.graph import read_graph
from holdfast.sources.onnx.specialise import evaluate_constants
from holdfast.sources.onnx.weights import with_weights

OPSET = 13
"""Operators as of 2020, which every verifier reads."""

TRACED: dict[str, Any] = {"dynamo": False} if "dynamo" in inspect.signature(torch.onnx.export).parameters else {}
"""Says that torch traces the network, as it always did before 2.5: what comes of it needs no other package."""

SAME = 1e-4
"""Share of the largest output by which those of a file may differ from those of the network in torch."""


def write_onnx(
    path: Path, encoder: Encoder, layer: tuple[Float[Tensor, "outputs dim"], Float[Tensor, "outputs"]], x: Images
) -> None:
    """Write x ↦ weights · f(x) + bias as an ONNX file in float32: pixels of [0, 1] in, [1, C, H, W], [1, outputs] out.

    The normalisation is inside, as the encoder's is. The file is run on an image and compared with the encoder.
    """
    onnx = package("writing ONNX files")
    if encoder.draws is not None:
        raise Unsupported(
            f"encoder {encoder.name!r} is the mean of {encoder.draws} draws of a randomised network, which an ONNX "
            "file cannot hold; switch its random numbers off and leave draws out"
        )
    weights, bias = layer
    last = nn.Linear(weights.shape[1], len(weights))
    last.weight.data, last.bias.data = weights.float(), bias.float()
    network = nn.Sequential(encoder.normalisation, encoder.module, _Flat(), last)
    network = freeze(copy_of(network), encoder.name).cpu().float()
    if bad := [name for name, value in network.state_dict().items() if not bool(value.isfinite().all())]:
        raise NotFinite(f"encoder {encoder.name!r}: expected finite weights, got NaN or infinity in {bad[0]!r}")
    x = x.detach().cpu().float()
    path.write_bytes(_export_onnx(network, x, encoder.name, onnx))
    with torch.no_grad():
        expected = network(x)
    computed = run_onnx(path, x)
    if not bool((computed - expected).abs().max() <= SAME * expected.abs().max()):  # nor NaN
        raise Failed(f"encoder {encoder.name!r}: the ONNX file that torch wrote of it computes something else")


class _Flat(nn.Module):
    """Leaves [1, D] as it is and makes it of [1, D, 1, 1]; no node of a file where nothing is to be done."""

    def forward(self, reps: Tensor) -> Tensor:
        return reps if reps.ndim == 2 else reps.flatten(1)


def _export_onnx(network: nn.Module, x: Tensor, name: str, onnx: Any) -> bytes:
    """Return a network as an ONNX file for one image, without nodes that compute constants."""
    written, disabled = io.BytesIO(), logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), redirect_stderr(io.StringIO()), redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")  # of the exporter
            names = {"input_names": ["X"], "output_names": ["Y"]}
            torch.onnx.export(network, (x,), written, opset_version=OPSET, **names, **TRACED)  # pyright: ignore[reportArgumentType] a file in memory will do
        model = onnx.load_from_string(written.getvalue())
        known = {name: value for name, value in evaluate_constants(read_graph(model, onnx)).items() if name}
        model = with_weights(model, known, onnx)
        onnx.checker.check_model(model)
    except Exception as error:  # whatever the exporter raises
        raise Unsupported(
            f"encoder {name!r} cannot be written as ONNX: {first_line(error)}; take a layer before what is not "
            "exported (?layer=)"
        ) from error
    finally:
        logging.disable(disabled)
    return model.SerializeToString()


def run_onnx(path: str | os.PathLike[str], x: Images) -> Float[Tensor, "batch outputs"]:
    """Return what an ONNX file computes in float32: by ONNX Runtime, where installed, else by onnx's reference."""
    values = x.detach().cpu().float().numpy()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            outputs = _run(os.fspath(path), values)
    except HoldfastError:
        raise
    except Exception as error:  # whatever the runtime raises
        raise Failed(f"{os.fspath(path)!r} cannot be run: {first_line(error)}") from error
    return torch.from_numpy(np.array(outputs)).reshape(len(x), -1)


def _run(path: str, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    if find_spec("onnxruntime") is None:
        session = optional("onnx.reference", "onnx", "onnx", "running ONNX files").ReferenceEvaluator(path)
        return session.run(None, {session.input_names[0]: x})[0]
    runtime = optional("onnxruntime", "onnxruntime", "onnx", "running ONNX files")
    options = runtime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    session = runtime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return session.run(None, {session.get_inputs()[0].name: x})[0]
