"""An ONNX file: read and checked, cut where it is to end, and what its input is."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from holdfast.runtime.doors import regular
from holdfast.runtime.errors import Ambiguous, BadData, Missing, NotFinite, Unsupported, first_line, unknown
from holdfast.runtime.optional import optional
from holdfast.sources.onnx.graph import Graph, Source

LAYOUTS = ("nchw", "nhwc")
"""Orders of the axes of an image: channels first, or last."""

FLOAT, UINT8, FLOAT16, DOUBLE = 1, 2, 10, 11
"""ONNX's numbers of the types that images may have."""

TYPE_NAMES = {3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 8: "string", 9: "bool", 16: "bfloat16"}

CONSTANTS = 4
"""Version of the format since which weights need not be inputs."""

LARGEST = 2**31 - 2**20
"""Bytes of weights above which a protocol buffer, of at most 2 GiB, holds no model."""

LEVELS = 255.0
"""A picture of 8 bits has numbers from 0 to this."""


def package(feature: str) -> Any:
    """Return the package onnx, with those of its modules that are used here."""
    onnx = optional("onnx", "onnx", "onnx", feature)
    for module in ("onnx.inliner", "onnx.reference"):
        optional(module, "onnx", "onnx", feature)
    return onnx


def load(name: str, onnx: Any) -> Any:
    """Return the model in a file.

    Raises:
        HoldfastError: none, one that the package finds fault with, or weights that are NaN.
    """
    try:
        proto = onnx.load(regular(name))
        if proto.ir_version < CONSTANTS:  # before it, weights had to be inputs, too; what they mean is the same
            proto.ir_version = CONSTANTS
        _check(proto, name, onnx)
    except Exception as error:  # protobuf and onnx raise errors of their own
        raise BadData(f"{name!r} is not a readable ONNX file: {first_line(error)}") from error
    for tensor in proto.graph.initializer:  # infinite ones may be masks
        values = onnx.numpy_helper.to_array(tensor)
        if values.dtype.kind == "f" and bool((values != values).any()):
            raise NotFinite(f"{name!r}: its weights {tensor.name!r} are NaN, expected numbers; export it again")
    return proto


def _check(proto: Any, name: str, onnx: Any) -> None:
    """Let the package look for faults; that an operator is deprecated is none, it means what it meant."""
    try:
        # A model beyond 2 GiB is checked by its path, as protobuf holds none
        onnx.checker.check_model(name if size(proto) >= LARGEST else _with_shapes(proto, onnx))
    except onnx.checker.ValidationError as error:
        if "is deprecated" not in str(error):
            raise


def size(proto: Any) -> int:
    """Return about how many bytes a model takes; to count them all takes as long as to write them."""
    return sum(len(tensor.raw_data) for tensor in proto.graph.initializer)


def _with_shapes(proto: Any, onnx: Any) -> Any:
    """Return a model whose outputs have a shape, which the checker asks for and exporters leave out."""
    # A pass over the whole graph only where a shape is missing
    if all(value.type.tensor_type.HasField("shape") for value in proto.graph.output if _is_tensor(value)):
        return proto
    shaped = onnx.shape_inference.infer_shapes(proto)
    for value in shaped.graph.output:
        if _is_tensor(value) and not value.type.tensor_type.HasField("shape"):
            value.type.tensor_type.shape.SetInParent()
    return shaped


def _is_tensor(value: Any) -> bool:
    return value.type.WhichOneof("value") == "tensor_type"


def output_of(proto: Any, output: str | None, name: str) -> str:
    """Return the name of the tensor that is the representation: the one asked for, or the one output.

    Raises:
        HoldfastError: several outputs to choose from, or a name that no tensor has.
    """
    outputs = [value.name for value in proto.graph.output]
    if output is None and len(outputs) != 1:
        raise Ambiguous(f"{name!r} has several outputs; give ?output= one of: {', '.join(outputs)}")
    chosen = outputs[0] if output is None else output
    tensors = [tensor for node in proto.graph.node for tensor in node.output if tensor]
    if chosen not in tensors:
        raise unknown(f"tensor of {name}", chosen, tensors)
    return chosen


def cut(proto: Any, output: str, onnx: Any) -> None:
    """Let a model compute one tensor and nothing that comes after it; in place."""
    graph = proto.graph
    if [value.name for value in graph.output] != [output]:
        # The type of what is inside is only noted by some exporters
        typed = {value.name: value for value in (*graph.value_info, *graph.output)}
        if output not in typed:
            with suppress(Exception):  # onnx's own; a tensor of no stated type will do
                found = onnx.shape_inference.infer_shapes(proto).graph
                typed |= {value.name: value for value in found.value_info}
        untyped = onnx.helper.make_tensor_value_info(output, onnx.TensorProto.FLOAT, None)
        last = onnx.ValueInfoProto.FromString(typed.get(output, untyped).SerializeToString())
        graph.ClearField("output")
        graph.output.append(last)
    # From the end: a node is wanted for what it gives, and what it reads is wanted then
    wanted, unread = {output}, []
    for place in range(len(graph.node) - 1, -1, -1):
        if wanted.intersection(graph.node[place].output):
            wanted.update(_reads(graph.node[place]))
        else:
            unread.append(place)
    # Places fall, so that none is moved by what is deleted before it
    for place in unread:
        del graph.node[place]
    forget_unread(graph)


def forget_unread(graph: Any) -> None:
    """Drop weights that nothing reads, among the inputs too, where old files list them; in place.

    Args:
        graph: an onnx GraphProto.
    """
    read = {name for node in graph.node for name in _reads(node)} | {value.name for value in graph.output}
    unread = {tensor.name for tensor in graph.initializer} - read
    for entries in (graph.initializer, graph.input):
        # From behind, so that places stay true
        for place in reversed([place for place, entry in enumerate(entries) if entry.name in unread]):
            del entries[place]


def _reads(node: Any) -> Iterator[str]:
    """Yield the names that a node reads, those of the graphs in it too."""
    yield from node.input
    for attribute in node.attribute:
        # Graphs inside, such as branches of an If, read names of this one
        for graph in (attribute.g, *attribute.graphs):
            yield from (value.name for value in graph.output)
            for inner in graph.node:
                yield from _reads(inner)


@dataclass(frozen=True)
class Images:
    """What a file takes.

    Attributes:
        name: of its input.
        shape: (channels, height, width).
        layout: the order of its axes.
        batch: how many images it takes at a time; 0: any number.
        levels: whether it takes whole numbers from 0 to 255, those of a picture of 8 bits.
    """

    name: str
    shape: tuple[int, int, int]
    layout: str
    batch: int
    levels: bool

    @property
    def own_shape(self) -> tuple[int, ...]:
        """The shape of an image in the order of the file."""
        channels, height, width = self.shape
        return (height, width, channels) if self.layout == "nhwc" else self.shape

    def own(self, x: Tensor) -> Tensor:
        """Return images [B, C, H, W] in the order of the file."""
        return x.permute(0, 2, 3, 1) if self.layout == "nhwc" else x


def images_of(graph: Graph, name: str, size: tuple[int, int] | None, layout: str | None) -> Images:
    """Return what a graph takes; its size is the file's, or the one that is asked for where the file leaves it open.

    Args:
        graph: the graph.
        name: of the file, for errors.
        size: (height, width) that is asked for.
        layout: that is asked for; None: by the sizes, channels last where only the last axis can be they.

    Raises:
        HoldfastError: no input, or several, or one that is no batch of images of real numbers or 8 bits.
    """
    if len(graph.sources) != 1 or len(graph.sources[0].sizes) != 4:
        got = ", ".join(f"{source.name} {list(source.sizes)}" for source in graph.sources) or "none"
        raise Unsupported(f"{name!r}: expected one input [batch, channel, height, width], got {got}")
    (source,) = graph.sources
    batch, shape, order = shape_of(source.name, source.sizes, name, size, layout)
    _check_type(source, name)
    return Images(source.name, shape, order, batch, source.kind == UINT8)


def shape_of(
    tensor: str, sizes: Sequence[int], name: str, size: tuple[int, int] | None, layout: str | None
) -> tuple[int, tuple[int, int, int], str]:
    """Return how many images an input takes, 0 for any number, their (channels, height, width), and their layout.

    Args:
        tensor: name of the input.
        sizes: of its axes, 0 for one that is open.
        name: of the file, for errors.
        size: (height, width) that is asked for, where the file leaves it open.
        layout: that is asked for; None: by the sizes, channels last where only the last axis can be they.

    Raises:
        HoldfastError: an input that is no batch of images.
    """
    if len(sizes) != 4:
        raise Unsupported(f"{name!r}: expected one input [batch, channel, height, width], got {tensor} {list(sizes)}")
    batch, *sides = sizes
    order = layout or _layout(sides)
    channels, height, width = (sides[2], sides[0], sides[1]) if order == "nhwc" else sides
    if channels < 1:
        raise Unsupported(
            f"{name!r}: expected one input [batch, channel, height, width], got {tensor} {list(sizes)}; "
            "where channels come last, add ?layout=nhwc"
        )
    height, width = size or (height, width)
    if min(height, width) < 1:
        raise Missing(f"{name!r} leaves the image size open: give ?resize=256&crop=224, or ?size=H or ?size=HxW")
    return batch, (channels, height, width), order


def _layout(sides: list[int]) -> str:
    first, *_, last = sides
    return "nhwc" if last in (1, 3) and first not in (1, 3) else "nchw"


def _check_type(source: Source, name: str) -> None:
    if source.kind not in (FLOAT, UINT8, FLOAT16, DOUBLE):
        kind = TYPE_NAMES.get(source.kind, f"ONNX's type {source.kind}")
        raise Unsupported(
            f"{name!r}: expected an input of real numbers, or of uint8 for pixels from 0 to 255, got {source.name} of "
            f"{kind}; export it with one of these"
        )


def sample(count: int, shape: tuple[int, int, int]) -> Tensor:
    """Return random pictures of 8 bits in [0, 1], [count, C, H, W]: coarse shapes, some noise, no two alike."""
    random = torch.Generator().manual_seed(0)
    # 5 x 5 colours, enlarged: shapes that survive pooling, where noise alone would average out
    coarse = torch.rand(count, shape[0], 5, 5, generator=random)
    x = torch.nn.functional.interpolate(coarse, shape[1:], mode="bilinear", align_corners=False)
    x = 0.7 * x + 0.3 * torch.rand(count, *shape, generator=random)
    return (LEVELS * x).round() / LEVELS
