"""Compare a network with the file that it was read from: the same images through ONNX Runtime, nothing optimised.

Two computations of one network differ by rounding. How much that is here, a pass in float64 tells; what is more than
some times as much may be another meaning. Then each node is given what the runtime gave to it, so that no difference
grows, and the first that gives something else is named. Where activations are rounded to integers, two runtimes differ
by a level here and there; these are counted.
"""

import copy
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from torch import Tensor

from holdfast.runtime.errors import Failed, Unsupported, first_line, format_install
from holdfast.runtime.optional import optional
from holdfast.sources.onnx.file import LARGEST, size
from holdfast.sources.onnx.graph import as_tensor
from holdfast.sources.onnx.network import OnnxNetwork
from holdfast.sources.onnx.operators.quantised import ROUNDING

FLOOR, NOISE, MOST = 1e-5, 30.0, 1e-3
"""Difference, as a share of the largest value, that is rounding in any case; as a multiple of what float32 rounds; and
above which each node is looked at."""

FLOORS = {10: 2.0**-9, 16: 2.0**-6}
"""ONNX's number of a type with fewer digits than float32 -> four of its units: what a file that has it rounds."""

FLIPPED = 0.01
"""Most levels of a rounding, as a share, that may be the next one: numbers half way between two."""

OLD = 7
"""Operator set below which ONNX Runtime runs nothing; onnx then writes the model in this one."""

Session = Callable[[Sequence[str], Tensor], list[Any]]
"""(names of tensors, images) -> their values."""


@dataclass(frozen=True)
class Agreement:
    """How a network agreed with its file.

    Attributes:
        runtime: what ran the file.
        apart: the largest difference, as a share of the largest value.
        flipped: levels of roundings that were the next one, as a share; None where nothing is rounded, or none was.
    """

    runtime: str
    apart: float
    flipped: float | None = None


def compare(
    model: Any, path: str, network: OnnxNetwork, images: Tensor, *, batch: int, kinds: Sequence[int], onnx: Any
) -> Agreement:
    """Compare what a network gives with what the file gives.

    Args:
        model: the onnx ModelProto that was read, with functions written out.
        path: of the file.
        network: what was read from it.
        images: as the file takes them, [B, ...], in float32.
        batch: how many the file takes at a time; 0: any number.
        kinds: ONNX's numbers of the types that it computes in.
        onnx: the package.

    Raises:
        HoldfastError: the network computes something else; the error names the first node that does. Or nothing that
            is installed can run the file.
    """
    # The widest of the types that the file has decides
    floor = max([FLOOR, *(FLOORS[kind] for kind in FLOORS if kind in kinds)])
    file = _File(model, path, batch, onnx)
    theirs, runtime = file.rows(network.output, images, one_by_one=network.alone)
    try:
        # The first image alone, and once more in float64: their difference is what float32 rounds here
        with torch.no_grad():
            ours, one = network(images), network(images[:1])
            exact = copy.deepcopy(network).double()(images[:1].double())
    except Exception as error:  # whatever torch raises for sizes that do not fit
        raise file.differs(f"{first_line(error)}, on {len(images)} images") from error
    if not isinstance(ours, Tensor) or ours.shape != theirs.shape:
        got = list(ours.shape) if isinstance(ours, Tensor) else type(ours).__name__
        raise file.differs(f"expected {list(theirs.shape)} as {runtime} gives, got {got}")
    apart = distance(ours, theirs)
    # NOISE times that rounding, but never more than MOST; what is below the floor is rounding in any case
    if apart <= max(floor, min(NOISE * distance(one, exact), MOST)):
        return Agreement(runtime, apart)
    # The first image gives something else alone: images of a batch see each other
    if batch > 1 and distance(ours[:1], one) > floor:
        raise Unsupported(
            f"{path!r}: it takes batches of {batch} alone: export it with an open batch axis (dynamic_axes or "
            "dynamic_shapes)"
        )
    # Two images suffice, or as many copies of one as the file takes
    few = images[:1].expand(max(batch, 1), *images.shape[1:]) if network.alone or batch else images[:2]
    return Agreement(runtime, apart, _node_by_node(file, network, few, floor))


def distance(a: Tensor, b: Tensor) -> float:
    """Return the largest difference as a share of the largest value; infinite where one is NaN and the other is not.

    Example:
        >>> distance(torch.tensor([1.0, 4.0]), torch.tensor([2.0, 4.0]))
        0.25
    """
    a, b = a.double(), b.double()
    if a.numel() == 0:
        return 0.0
    if bool((a.isnan() != b.isnan()).any()):
        return float("inf")
    same = (a == b) | a.isnan()  # infinities agree where they are equal
    # Infinities are no scale
    scale = float(torch.where(b.isfinite(), b.abs(), 0.0).max())
    # inf - inf is NaN, which the mask takes out
    difference = torch.where(same, 0.0, (a - b).abs())
    return float(difference.max()) / (scale or 1.0)


def _node_by_node(file: "_File", network: OnnxNetwork, images: Tensor, floor: float) -> float | None:
    """Give each node what the runtime gave to it, and compare; return the largest share of levels that differ."""
    # All values of the file in one run
    theirs = file.values([name for step in network.steps for name in step.node.outputs if name], images)
    flips: list[float] = []
    for step, found, exact in network.walk(images, theirs):
        for place, (name, value) in enumerate(zip(step.node.outputs, found, strict=False)):
            known = theirs.get(name)
            if known is None or not isinstance(value, Tensor):
                continue
            if value.shape != known.shape:
                raise file.differs(f"{step.node} gives {list(value.shape)}, expected {list(known.shape)}")
            # Integers are counted: half-way cases round by a level more or less
            if step.node.op in ROUNDING and not known.is_floating_point():
                off = (value.double() - known.double()).abs()
                flips.append(float((off > 0.5).double().mean()))
                if flips[-1] > FLIPPED or float(off.max()) > 1.5:
                    raise file.differs(f"{step.node} rounds {flips[-1]:.1%} of its values to another level")
                continue
            apart = distance(value, known)
            # float64 is asked for only where the difference is more than the floor
            if apart > floor and not apart <= min(NOISE * distance(value, exact()[place]), MOST):
                raise file.differs(f"{step.node} gives values {apart:.2g} of the largest one apart")
    return max(flips, default=None)


class _File:
    """A model as others run it: ONNX Runtime, or onnx's reference where that cannot."""

    def __init__(self, model: Any, path: str, batch: int, onnx: Any):
        self._model, self._path, self._batch, self._onnx = model, path, batch, onnx

    @property
    def _old(self) -> bool:
        return any(entry.domain in ("", "ai.onnx") and entry.version < OLD for entry in self._model.opset_import)

    def differs(self, how: str) -> Failed:
        """Return the error that says what differs."""
        return Failed(
            f"{self._path!r}: what was read of it computes something else than the file: {how}; please report it"
        )

    def rows(self, output: str, images: Tensor, *, one_by_one: bool) -> tuple[Tensor, str]:
        """Return one output for all images, which may have to be given one after the other, and what ran the file."""
        parts: Sequence[Tensor] = [images]
        if one_by_one or self._batch:
            # A file of a fixed batch gets copies of each image, of which the first is read
            parts = [part.expand(max(self._batch, 1), *part.shape[1:]) for part in images.split(1)]
        found, runtime = self._run([output], parts)
        if len(parts) == 1:
            # Rows behind the images are copies
            return as_tensor(np.asarray(found[0][0]))[: len(images)], runtime
        return torch.cat([as_tensor(np.asarray(value))[:1] for (value,) in found]), runtime

    def values(self, names: Sequence[str], images: Tensor) -> Mapping[str, Tensor]:
        """Return tensors of the file, as many of them as nodes of it have."""
        given = {name for node in self._model.graph.node for name in node.output}
        wanted = [name for name in dict.fromkeys(names) if name in given]
        (found,), _ = self._run(wanted, [images])
        arrays = zip(wanted, found, strict=True)
        return {name: as_tensor(value) for name, value in arrays if isinstance(value, np.ndarray)}

    def _run(self, names: Sequence[str], parts: Sequence[Tensor]) -> tuple[list[list[Any]], str]:
        """Return tensors for each part of the images, and what ran the file."""
        model = self._giving(names, parts[0])
        # onnx's reference is slow, but runs what the runtime refuses
        ways = {"onnxruntime": _by_runtime, "onnx.reference": _by_reference}
        if self._old:
            ways = {f"onnxruntime, in opset {OLD + 1}": _by_runtime_lifted, **ways}
        causes = []
        for runtime, make in ways.items():
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    session = make(model, self._onnx)
                    return [session(names, part) for part in parts], runtime
            except Exception as error:  # of the file, or of the package
                causes.append(f"{runtime}: {first_line(error)}")
        raise Failed(
            f"{self._path!r} cannot be compared with what it means, for nothing runs it ({'; '.join(causes)}); "
            f"{format_install('onnx')}, or export it again"
        )

    def _giving(self, names: Sequence[str], images: Tensor) -> Any:
        """Return the model with these tensors as its outputs, for images of this size."""
        # A copy, for outputs and sizes are changed
        model = self._onnx.ModelProto()
        model.CopyFrom(self._model)
        graph = model.graph
        known = {value.name: value for value in self._model.graph.output}
        graph.ClearField("output")
        graph.output.extend(known.get(name, self._onnx.ValueInfoProto(name=name)) for name in names)
        # the size is the file's, or another one that was asked for; then sizes of what comes after it were others
        # Old files list weights among the inputs
        weights = {tensor.name for tensor in graph.initializer}
        source = next(value for value in graph.input if value.name not in weights)
        dims = source.type.tensor_type.shape.dim[1:]
        if self._old:  # of which onnx must know how many there are
            source.type.tensor_type.shape.dim[0].dim_value = len(images)
        if any(dim.dim_value not in (0, side) for dim, side in zip(dims, images.shape[1:], strict=True)):
            for dim, side in zip(dims, images.shape[1:], strict=True):
                dim.dim_value = side
            graph.ClearField("value_info")
            for value in graph.output:
                value.type.tensor_type.ClearField("shape")
        return model


def _by_runtime(model: Any, onnx: Any) -> Session:
    runtime = optional("onnxruntime", "onnxruntime", "onnx", "ONNX files")
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    # Optimisation would fuse nodes, and round otherwise than the file says
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = torch.get_num_threads()
    with _source(model, onnx) as source:
        session = runtime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    name, kind = session.get_inputs()[0].name, _type_of(model, onnx)
    return lambda names, x: session.run(list(names), {name: x.numpy().astype(kind)})


@contextmanager
def _source(model: Any, onnx: Any) -> Iterator[bytes | str]:
    """Give a model as the runtime takes it: in memory, or as a file with weights beside it where that is too small."""
    if size(model) < LARGEST:
        yield model.SerializeToString()
        return
    with TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.onnx")
        onnx.save(model, path, save_as_external_data=True, location="weights")
        yield path


def _by_runtime_lifted(model: Any, onnx: Any) -> Session:
    converter = optional("onnx.version_converter", "onnx", "onnx", "ONNX files")
    return _by_runtime(converter.convert_version(model, OLD + 1), onnx)


def _by_reference(model: Any, onnx: Any) -> Session:
    evaluator = onnx.reference.ReferenceEvaluator(model)
    name, kind = evaluator.input_names[0], _type_of(model, onnx)
    return lambda names, x: evaluator.run(list(names), {name: x.numpy().astype(kind)})


def _type_of(model: Any, onnx: Any) -> Any:
    """Return NumPy's type of the images that a model takes."""
    weights = {tensor.name for tensor in model.graph.initializer}
    source = next(value for value in model.graph.input if value.name not in weights)
    return onnx.helper.tensor_dtype_to_np_dtype(source.type.tensor_type.elem_type)
