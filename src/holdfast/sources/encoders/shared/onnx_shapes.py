"""Give the operations of a converted ONNX graph their sizes as numbers instead of tensors, so that it can be traced.

onnx2torch reads the shape of a Reshape, the ends of a Slice and the widths of a Pad from tensors whenever the network
runs. torch.export does not follow numbers through tensors, so such a network could not be certified. Values that
depend on the shape of the images alone, such as a class token for each of them, become constants.
"""

from collections.abc import Callable
from functools import partial
from operator import getitem
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

from holdfast.runtime.errors import HoldfastError, first_line

SIZES = (2, 3)
"""Batches on which shapes are read: what differs between them is the batch."""

SMALL = 64
"""Values of a tensor that may hold sizes, at most."""


class Fixed(nn.Module):
    """An operation that needs nothing but its input."""

    def __init__(self, operation: Callable[[Tensor], Tensor]):
        super().__init__()
        self.operation = operation

    def forward(self, x: Tensor) -> Tensor:
        """Run the operation."""
        return self.operation(x)


class Rows(nn.Module):
    """The same row for every image, whatever its pixels."""

    def __init__(self, row: Tensor):
        super().__init__()
        self.register_buffer("row", row, persistent=False)
        self.row: Tensor

    def forward(self, x: Tensor) -> Tensor:
        """Return [len(x), *row]."""
        return self.row.expand(x.shape[0], *self.row.shape)


class _Sizes(fx.Interpreter):
    """Runs a graph and keeps the shape of every value, and the values of single numbers and of a few integers.

    Of what depends on the shape of the images alone, it keeps all.
    """

    def __init__(self, graph: fx.GraphModule, batch: int = 0):
        super().__init__(graph)
        self.batch = batch
        self.shapes: dict[fx.Node, tuple[int, ...]] = {}
        self.numbers: dict[fx.Node, Any] = {}
        self.constants: dict[fx.Node, Tensor] = {node: torch.empty(0) for node in _without_pixels(graph)}

    @torch.no_grad()
    def __call__(self, x: Tensor) -> tuple[Tensor, ...]:
        """Return all outputs for some images."""
        outputs = self.run(x)
        return tuple(outputs) if isinstance(outputs, (tuple, list)) else (outputs,)

    def run_node(self, n: fx.Node) -> Any:
        value = super().run_node(n)
        if isinstance(value, Tensor):
            self.shapes[n] = tuple(value.shape)
            if value.numel() <= (1 if value.is_floating_point() else SMALL):
                self.numbers[n] = value.tolist()
            if n in self.constants:
                self.constants[n] = value
        return value


def _without_pixels(graph: fx.GraphModule) -> list[fx.Node]:
    """Return the operations that depend on the shape of the images, and on nothing else of them."""
    of_pixels, of_shape = set[fx.Node](), dict[fx.Node, None]()
    for node in graph.graph.nodes:
        inputs = node.all_input_nodes
        if node.op == "placeholder" or any(source in of_pixels for source in inputs):
            known = node.op == "call_module" and type(graph.get_submodule(str(node.target))).__name__ == "OnnxShape"
            (of_shape.setdefault(node) if known else of_pixels.add(node))
        elif any(source in of_shape for source in inputs):
            of_shape[node] = None
    return list(of_shape)


def with_fixed_sizes(graph: fx.GraphModule, shape: tuple[int, int, int], batch: int) -> fx.GraphModule:
    """Return the graph with the sizes of every Reshape, Slice, Pad and Gather of one index as numbers.

    Those that depend on more than the number of images stay as they are. What depends on the shape of the images alone
    is a constant, or a row for each image. A graph that was exported for batches of one size is made to take any.

    Args:
        graph: what onnx2torch makes.
        shape: of an image.
        batch: the size of batches that the file allows; 0 where any is.

    Raises:
        HoldfastError: a graph that does not run, or only on batches of one size.
    """
    if batch:
        return _opened(graph, shape, batch)
    runs = tuple(_Sizes(graph) for _ in SIZES)
    for size, run in zip(SIZES, runs, strict=True):
        try:
            run(torch.rand(size, *shape, generator=torch.Generator().manual_seed(size)))
        except Exception as error:  # whatever operations raise
            raise HoldfastError(f"it does not run on {size} images {list(shape)}: {first_line(error)}") from error
    return _fixed(graph, runs)


def _opened(graph: fx.GraphModule, shape: tuple[int, int, int], batch: int) -> fx.GraphModule:
    """Return a graph for batches of one size as one for any, after a comparison of both."""
    x = torch.rand(SIZES[1], *shape, generator=torch.Generator().manual_seed(0))
    run = _Sizes(graph, batch)
    try:
        alone = [run(image.expand(batch, -1, -1, -1)) for image in x]
        together = _Sizes(_fixed(graph, (run, run)))(x)
        same = all(
            _same(output[i], outputs[n][0]) for i, outputs in enumerate(alone) for n, output in enumerate(together)
        )
    except Exception as error:  # whatever operations raise
        raise HoldfastError(f"{_one_size(batch)} ({first_line(error)})") from error
    if not same:
        raise HoldfastError(_one_size(batch))
    return graph


def _same(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and torch.allclose(a, b, rtol=1e-4, atol=1e-4 * float(b.abs().max()))


def _one_size(batch: int) -> str:
    return f"it takes batches of {batch} alone: export it with an open batch axis (dynamic_axes or dynamic_shapes)"


def _fixed(graph: fx.GraphModule, runs: tuple["_Sizes", ...]) -> fx.GraphModule:
    """Replace, in place, the operations whose sizes both runs agree on."""
    for node in graph.graph.nodes:
        rule = RULES.get(type(graph.get_submodule(str(node.target))).__name__) if node.op == "call_module" else None
        operation = rule(graph, node, runs) if rule is not None and node in runs[0].shapes else None
        if operation is not None:
            graph.add_submodule(str(node.target), Fixed(operation))
            node.args, node.kwargs = node.args[:1], {}
    _lower_constants(graph, runs)
    graph.graph.eliminate_dead_code()
    graph.recompile()
    return graph


def _lower_constants(graph: fx.GraphModule, runs: tuple["_Sizes", ...]) -> None:
    """Replace, in place, what depends on the shape of the images alone by what it is."""
    first, second = (run.constants for run in runs)
    pixels = next(node for node in graph.graph.nodes if node.op == "placeholder")
    for node in first:
        a, b = first[node], second[node]
        if all(user in first for user in node.users):
            continue
        with graph.graph.inserting_before(node):
            if a.shape == b.shape and torch.equal(a, b):
                graph.register_buffer(f"{node.name}_constant", a, persistent=False)
                constant = graph.graph.get_attr(f"{node.name}_constant")
            elif a.shape[1:] == b.shape[1:] and len(a) and bool((a == b[0]).all() and (b == b[0]).all()):
                graph.add_submodule(f"{node.name}_rows", Rows(b[0]))
                constant = graph.graph.call_module(f"{node.name}_rows", (pixels,))
            else:
                continue
        node.replace_all_uses_with(constant)


Rule = Callable[[fx.GraphModule, fx.Node, tuple[_Sizes, ...]], Callable[[Tensor], Tensor] | None]
"""The operation that a node is; None where its sizes depend on more than the batch."""


def _read(node: Any, runs: tuple[_Sizes, ...]) -> Any:
    """Return the numbers of a tensor that both runs agree on; None where they do not, or where there is none."""
    first, second = (run.numbers.get(node) if isinstance(node, fx.Node) else None for run in runs)
    return first if first == second else None


def _reshape(graph: fx.GraphModule, node: fx.Node, runs: tuple[_Sizes, ...]) -> Callable[[Tensor], Tensor] | None:
    first, second = (run.shapes[node] for run in runs)
    if len(first) != len(second):
        return None
    sizes = [a if a == b else -1 for a, b in zip(first, second, strict=True)]
    source = node.args[0]
    before = runs[0].shapes.get(source, ()) if isinstance(source, fx.Node) else ()
    if runs[0].batch and sizes[:1] == list(before[:1]) == [runs[0].batch]:
        sizes[0] = -1  # image by image
    return partial(torch.reshape, shape=tuple(sizes)) if sizes.count(-1) <= 1 else None


def _slice(graph: fx.GraphModule, node: fx.Node, runs: tuple[_Sizes, ...]) -> Callable[[Tensor], Tensor] | None:
    arguments = dict(zip(("starts", "ends", "axes", "steps"), node.args[1:], strict=False)) | node.kwargs
    starts, ends = _read(arguments["starts"], runs), _read(arguments["ends"], runs)
    if starts is None or ends is None:
        return None
    axes = _read(arguments["axes"], runs) if arguments.get("axes") is not None else list(range(len(starts)))
    steps = _read(arguments["steps"], runs) if arguments.get("steps") is not None else [1] * len(starts)
    if axes is None or steps is None or min(steps) < 1:
        return None
    index = [slice(None)] * len(runs[0].shapes[node])
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        index[axis] = slice(start, end, step)
    return _Indexed(tuple(index))


class _Indexed:
    """x[index]."""

    def __init__(self, index: tuple[slice, ...]):
        self.index = index

    def __call__(self, x: Tensor) -> Tensor:
        return getitem(x, self.index)


def _pad(graph: fx.GraphModule, node: fx.Node, runs: tuple[_Sizes, ...]) -> Callable[[Tensor], Tensor] | None:
    values = [_read(value, runs) for value in (*node.args[2:], *node.kwargs.values())]
    pads, module = _read(node.args[1], runs), graph.get_submodule(str(node.target))
    if pads is None or module.mode != "constant" or None in values:
        return None
    half = len(pads) // 2
    ends = [width for axis in reversed(range(half)) for width in (pads[axis], pads[half + axis])]
    while len(ends) > 2 and ends[-2:] == [0, 0]:
        ends = ends[:-2]
    return partial(F.pad, pad=ends, value=float(values[0]) if values else 0.0)


def _gather(graph: fx.GraphModule, node: fx.Node, runs: tuple[_Sizes, ...]) -> Callable[[Tensor], Tensor] | None:
    module: Any = graph.get_submodule(str(node.target))
    index = _read(node.args[1], runs)
    return partial(torch.select, dim=module._axis, index=index) if isinstance(index, int) else None


RULES: dict[str, Rule] = {
    "OnnxReshape": _reshape,
    "OnnxSqueezeDynamicAxes": _reshape,
    "OnnxUnsqueezeDynamicAxes": _reshape,
    "Sliced": _slice,
    "OnnxPadDynamic": _pad,
    "OnnxGather": _gather,
}
"""By the name of the module."""
