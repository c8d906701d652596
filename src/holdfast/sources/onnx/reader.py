"""From a file to a network that computes what the file computes: read, worked out, compared, remembered."""

import hashlib
import os
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from holdfast.runtime.doors import read_bytes
from holdfast.runtime.errors import Unsupported
from holdfast.sources.onnx.compare import Agreement, compare
from holdfast.sources.onnx.file import Images, cut, images_of, sample
from holdfast.sources.onnx.gelu import with_gelus
from holdfast.sources.onnx.graph import inline_functions, read_graph
from holdfast.sources.onnx.network import OnnxNetwork
from holdfast.sources.onnx.operator import NotRead
from holdfast.sources.onnx.operators.quantised import ROUNDING
from holdfast.sources.onnx.specialise import BATCHES, specialise

MORE = 4
"""Images in a comparison where a shape depends on how many there are: a number that nothing was worked out for."""


@dataclass(frozen=True)
class Opened:
    """A file as a network.

    Attributes:
        network: takes images in the order of the file.
        images: what it takes.
        model: the onnx ModelProto, cut at the representation, with functions written out.
        kinds: ONNX's numbers of the types that it computes in.
        rounds: whether activations are rounded to integers.
        dynamic: whether by a scale that is computed from the image.
    """

    network: OnnxNetwork
    images: Images
    model: Any
    kinds: frozenset[int]
    rounds: bool
    dynamic: bool


def open_file(
    proto: Any, output: str, name: str, onnx: Any, *, size: tuple[int, int] | None, layout: str | None,
    straight: bool = False,
) -> Opened:  # fmt: skip
    """Return the network that computes one tensor of a model.

    Args:
        proto: the onnx ModelProto, which is cut at the tensor.
        output: name of the tensor.
        name: of the file, for errors.
        onnx: the package.
        size: (height, width) of images, where it is not the file's.
        layout: order of the axes of images, where it is not what the sizes say.
        straight: whether the gradient passes roundings by a scale that is computed from the image.

    Raises:
        HoldfastError: an operator that is not read here, an input that is no batch of images.
    """
    try:
        cut(proto, output, onnx)
        model = inline_functions(proto, onnx)
        graph = with_gelus(read_graph(model, onnx).computing(output))
    except NotRead as error:
        raise Unsupported(f"{name!r}: {error}") from error
    images = images_of(graph, name, size, layout)
    try:
        plan = specialise(graph, images.own_shape, batch=images.batch, straight=straight)
        network = OnnxNetwork(plan).eval()
    except NotRead as error:
        raise Unsupported(f"{name!r}: {error}{_advice(error)}") from error
    operators = {step.node.op for step in plan.steps}
    rounds, dynamic = bool(operators.intersection(ROUNDING)), "DynamicQuantizeLinear" in operators
    return Opened(network, images, model, frozenset(graph.types), rounds, dynamic)


def _advice(error: NotRead) -> str:
    known = "is not read here" if str(error).startswith("the operator") else ""
    return f" {known}; take a tensor before it (?output=), or export the network otherwise" if known else ""


def compare_with_file(opened: Opened, path: str, mean: Tensor, std: Tensor, onnx: Any) -> Agreement | None:
    """Compare a network with its file on pictures, normalised as the encoder does it; once for a file.

    Args:
        opened: the network.
        path: of the file.
        mean: in [0, 1] pixels, [C, 1, 1] or less.
        std: likewise.
        onnx: the package.

    Returns:
        How it agreed; None where that was seen before.

    Raises:
        HoldfastError: it does not.
    """
    mark = _mark(opened, mean, std)
    if mark is not None and mark.exists():
        return None
    images, network = opened.images, opened.network
    pictures = sample(MORE if network.grows else BATCHES[0], images.shape)
    x = (255 * pictures).round() if images.levels else (pictures - mean) / std
    own = images.own(x).contiguous()
    agreement = compare(opened.model, path, network, own, batch=images.batch, kinds=tuple(opened.kinds), onnx=onnx)
    if mark is not None:
        with suppress(OSError):  # a folder that cannot be written costs a comparison the next time
            mark.parent.mkdir(parents=True, exist_ok=True)
            mark.touch()
    return agreement


def _mark(opened: Opened, mean: Tensor, std: Tensor) -> Path | None:
    """Return the empty file that says that this network was compared: its name is all that decides the outcome."""
    folder = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    # Of a relative folder nobody could say where it is
    if not os.path.isabs(folder):
        return None
    # Whatever decides the outcome: code, torch, input, normalisation, weights and nodes
    facts = (_own_code(), torch.__version__, opened.images, mean.flatten().tolist(), std.flatten().tolist())
    digest = hashlib.sha256(repr(facts).encode())
    graph = opened.model.graph
    for tensor in graph.initializer:
        digest.update(f"{tensor.name} {tensor.data_type} {list(tensor.dims)}".encode())
        digest.update(tensor.raw_data or tensor.SerializeToString(deterministic=True))
    for node in graph.node:
        digest.update(node.SerializeToString(deterministic=True))
    return Path(folder) / "holdfast" / "onnx" / digest.hexdigest()


@cache
def _own_code() -> str:
    """Return a digest of the code that reads files: other code is compared anew."""
    digest = hashlib.sha256()
    for file in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(read_bytes(file))
    return digest.hexdigest()
