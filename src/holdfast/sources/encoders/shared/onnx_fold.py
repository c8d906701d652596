"""Compute what an ONNX graph computes from its own weights, so that every weight is stored as its reader wants it."""

from collections.abc import Iterator
from typing import Any

_NOT = {"ConstantOfShape", "Expand", "Tile", "Range", "EyeLike"}  # small inputs, large results
_QUANTISED = {"QuantizeLinear", "DequantizeLinear"}
_SINCE = 19  # what onnx's reference knows of these; older ones mean the same
_RANDOM = "Random"  # in the names of operators that draw


def fold_constants(model: Any, onnx: Any) -> None:
    """Replace nodes that read nothing but weights (casts of float16, dequantised ones, constants) by their results.

    onnx2torch expects the weights of layers to be stored; what these nodes mean is what onnx's reference says.

    Args:
        model: an onnx ModelProto, changed in place.
        onnx: the package.
    """
    graph = model.graph
    weights = {tensor.name: tensor for tensor in graph.initializer}
    outputs = {value.name for value in graph.output}
    kept = []
    for node in graph.node:
        constant = all(name in weights for name in node.input if name) and not outputs.intersection(node.output)
        results = list(_results(node, weights, model, onnx)) if constant and _foldable(node, onnx) else []
        if not results:
            kept.append(node)
        for tensor in results:
            weights[tensor.name] = tensor
            graph.initializer.append(tensor)
    del graph.node[:]
    graph.node.extend(kept)


def _foldable(node: Any, onnx: Any) -> bool:
    graphs = (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS)
    standard = node.domain in ("", "ai.onnx") and _RANDOM not in node.op_type and node.op_type not in _NOT
    return standard and not any(attribute.type in graphs for attribute in node.attribute)


def _results(node: Any, weights: dict[str, Any], model: Any, onnx: Any) -> Iterator[Any]:
    """Yield the outputs of a node as tensors; nothing for an operator that onnx's reference does not compute."""
    stored = [weights[name] for name in dict.fromkeys(node.input) if name]
    names = [name for name in node.output if name]
    untyped = [onnx.ValueInfoProto(name=name) for name in names]
    alone = onnx.helper.make_graph([node], "constant", [], untyped, initializer=stored)
    single = onnx.helper.make_model(alone, opset_imports=model.opset_import, ir_version=model.ir_version)
    if node.op_type in _QUANTISED:
        version = next(entry for entry in single.opset_import if entry.domain in ("", "ai.onnx"))
        version.version = max(version.version, _SINCE)
    try:
        values = onnx.reference.ReferenceEvaluator(single).run(None, {})
        tensors = [onnx.numpy_helper.from_array(value, name) for name, value in zip(names, values, strict=True)]
    except Exception:  # onnx2torch may know it
        return
    yield from tensors
