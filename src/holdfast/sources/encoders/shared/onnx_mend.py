"""Write what onnx2torch reads wrongly, or not at all, in the way that it reads rightly."""

from typing import Any

import torch
from torch import Tensor, fx, nn

from holdfast.runtime.errors import HoldfastError
from holdfast.sources.encoders.shared.onnx_gelu import with_gelus

_SAME = {b"SAME_UPPER", b"SAME_LOWER"}


def mend(model: Any, onnx: Any) -> None:
    """Give clips without a lower end one of -inf, and pads that depend on the size of the input ("SAME") as numbers.

    Args:
        model: an onnx ModelProto, changed in place.
        onnx: the package.

    Raises:
        HoldfastError: such pads of an input whose size nobody says.
    """
    sizes: dict[str, list[int]] = {}
    if any(entry.s in _SAME for node in model.graph.node for entry in node.attribute if entry.name == "auto_pad"):
        graph = onnx.shape_inference.infer_shapes(model).graph
        for value in (*graph.value_info, *graph.input, *graph.output):
            sizes[value.name] = [dim.dim_value for dim in value.type.tensor_type.shape.dim][2:]
    weights = {tensor.name: list(tensor.dims) for tensor in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "Clip":
            _bound(node, model.graph, onnx)
        auto = next((entry for entry in node.attribute if entry.name == "auto_pad" and entry.s in _SAME), None)
        if auto is not None and node.op_type in ("Conv", "MaxPool"):
            pads = _pads(node, sizes.get(node.input[0], []), weights, onnx, upper=auto.s == b"SAME_UPPER")
            kept = [entry for entry in node.attribute if entry.name not in ("auto_pad", "pads")]
            kept = [onnx.AttributeProto.FromString(entry.SerializeToString()) for entry in kept]
            del node.attribute[:]
            node.attribute.extend([*kept, onnx.helper.make_attribute("pads", pads)])


def _bound(node: Any, graph: Any, onnx: Any) -> None:
    while node.input and not node.input[-1]:
        del node.input[-1]
    if len(node.input) == 3 and not node.input[1]:
        node.input[1] = f"{node.output[0]}:lowest"
        graph.initializer.append(onnx.helper.make_tensor(node.input[1], onnx.TensorProto.FLOAT, [], [-torch.inf]))


def _pads(node: Any, size: list[int], weights: dict[str, list[int]], onnx: Any, *, upper: bool) -> list[int]:
    """Return the pads with which a stride of s makes ceil(n / s) of n: an odd one goes to the end, or the beginning."""
    said = {entry.name: onnx.helper.get_attribute_value(entry) for entry in node.attribute}
    kernel = said.get("kernel_shape") or (weights.get(node.input[1], [])[2:] if len(node.input) > 1 else [])
    ones = [1] * len(kernel)
    if len(size) != len(kernel) or not kernel or min(size) < 1:
        raise HoldfastError(f"ONNX node {node.name!r} pads to the size of its input, which is open: give ?size=")
    first, last = [], []
    for n, k, stride, step in zip(size, kernel, said.get("strides", ones), said.get("dilations", ones), strict=True):
        total = max((-(-n // stride) - 1) * stride + (k - 1) * step + 1 - n, 0)
        first.append(total // 2 if upper else total - total // 2)
        last.append(total - first[-1])
    return first + last


class Sliced(nn.Module):
    """x[start:end:step] along axes, backward where a step is below 0."""

    def forward(
        self, x: Tensor, starts: Tensor, ends: Tensor, axes: Tensor | None = None, steps: Tensor | None = None
    ) -> Tensor:
        """Return the part, read from tensors as ONNX has them."""
        along = range(len(starts)) if axes is None else axes.tolist()
        strides = [1] * len(starts) if steps is None else steps.tolist()
        index = [slice(None)] * x.ndim
        for axis, start, end, step in zip(along, starts.tolist(), ends.tolist(), strides, strict=True):
            if step < 0:
                x, start, end, step = x.flip(axis), -start - 1, -end - 1, -step
            index[axis] = slice(start, end, step)
        return x[tuple(index)]


def mended(graph: fx.GraphModule) -> fx.GraphModule:
    """Return a converted graph with slices that torch takes, for onnx2torch indexes by lists, and with GELUs."""
    for name, module in list(graph.named_children()):
        if type(module).__name__ == "OnnxSlice":
            graph.set_submodule(name, Sliced())
    return with_gelus(graph)
