"""Small ONNX graphs of one operator, in the variants that exporters write; what each means is ONNX Runtime's answer."""

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.equal.family import Case, Family
from benchmarks.equal.onnx_files import HALF_PLACE, LIMIT, PLACE, UNIT, case, pictures

SIDE = 8
SHAPE = (3, SIDE, SIDE)
"""Of an image."""

RUNTIME = "com.microsoft"


@dataclass(frozen=True)
class OneOperator:
    """A graph from x [N, 3, 8, 8] to r, by one operator and what it needs.

    Attributes:
        name: of the variant.
        opset: of the graph.
        steps: (operator, inputs, outputs, attributes, domain) of each node.
        constants: by name.
    """

    name: str
    opset: int
    steps: tuple[tuple[str, list[str], list[str], dict[str, Any], str], ...]
    constants: dict[str, Any] = field(default_factory=dict)

    def model(self) -> Any:
        """Return it as an onnx ModelProto, whose output y is r flattened."""
        from onnx import TensorProto, helper, numpy_helper

        nodes = [helper.make_node(op, ins, outs, domain=domain, **attrs) for op, ins, outs, attrs, domain in self.steps]
        nodes.append(helper.make_node("Flatten", ["r"], ["y"], axis=1))
        images = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", *SHAPE])
        flat = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", "D"])
        stored = [numpy_helper.from_array(np.asarray(value), key) for key, value in self.constants.items()]
        graph = helper.make_graph(nodes, "one", [images], [flat], stored)
        domains = {domain for *_, domain in self.steps if domain}
        imports = [helper.make_opsetid("", self.opset), *(helper.make_opsetid(domain, 1) for domain in domains)]
        return helper.make_model(graph, opset_imports=imports, ir_version=8)


def made(
    name: str, opset: int, *steps: str | tuple[str, dict[str, Any]], domain: Any = "", **constants: Any
) -> OneOperator:
    """Return a graph of steps such as "Clip x low high > r", or ("Elu x > r", attributes); "-" is an input left out."""
    read = []
    for step in steps:
        text, attributes = step if isinstance(step, tuple) else (step, {})
        (op, *inputs), outputs = (part.split() for part in text.split(" > "))
        read.append((op, ["" if name == "-" else name for name in inputs], outputs, attributes, domain))
    return OneOperator(name, opset, tuple(read), constants)


def graphs() -> Iterator[OneOperator]:
    """Yield all variants."""
    for family in (
        _functions, _arithmetic, _logic, _reductions, _along, _convolutions, _pools, _norms, _resizes, _samplings,
        _pads, _parts, _shapes, _products, _places, _integers, _of_runtime,
    ):  # fmt: skip
        yield from family()


RANDOM = np.random.default_rng(0)


def _real(*shape: int) -> np.ndarray[Any, Any]:
    return RANDOM.normal(size=shape).astype(np.float32)


def _whole(*values: int) -> np.ndarray[Any, Any]:
    return np.array(values, np.int64)


def _functions() -> Iterator[OneOperator]:
    for op in (
        "Abs", "Acos", "Asin", "Asinh", "Atan", "Atanh", "Ceil", "Cos", "Cosh", "Erf", "Exp", "Floor", "Identity",
        "Log", "Neg", "Reciprocal", "Relu", "Round", "Sigmoid", "Sign", "Sin", "Sinh", "Softplus", "Softsign", "Sqrt",
        "Tan", "Tanh", "HardSwish",
    ):  # fmt: skip
        yield made(op, 17, f"{op} x > r")
    attributes: tuple[tuple[str, int, dict[str, Any]], ...] = (
        ("Elu", 17, {"alpha": 0.5}), ("Celu", 17, {"alpha": 0.5}), ("Selu", 17, {}), ("LeakyRelu", 17, {"alpha": 0.2}),
        ("ThresholdedRelu", 17, {"alpha": 0.4}), ("HardSigmoid", 17, {"alpha": 0.3, "beta": 0.4}), ("Mish", 18, {}),
        ("Shrink", 17, {"bias": 0.1, "lambd": 0.3}), ("Gelu", 20, {}), ("Gelu", 20, {"approximate": "tanh"}),
        ("Clip", 6, {"min": 0.2, "max": 0.7}),
    )  # fmt: skip
    for op, opset, values in attributes:
        yield made(f"{op} {values}", opset, (f"{op} x > r", values))
    yield made("Clip, one end", 11, "Clip x - h > r", h=np.float32(0.5))
    yield made("PRelu, channels", 17, "PRelu x s > r", s=_real(3, 1, 1))
    yield made("PRelu, one", 17, "PRelu x s > r", s=_real(1))
    yield made("Dropout 6", 6, ("Dropout x > r", {"ratio": 0.3}))
    yield made("Dropout 13", 13, "Dropout x p > r", p=np.float32(0.3))


def _arithmetic() -> Iterator[OneOperator]:
    for op in ("Add", "Sub", "Mul", "Div", "Pow"):
        yield made(f"{op} a channel", 17, f"{op} x c > r", c=np.abs(_real(3, 1, 1)) + 0.5)
        yield made(f"{op} from a number", 17, f"{op} c x > r", c=np.float32(1.5))
    for op in ("Max", "Min", "Sum", "Mean"):
        yield made(f"{op} of three", 13, f"{op} x c x > r", c=_real(1, 3, 1, 8))
    yield made("Pow 2", 13, "Pow x c > r", c=np.float32(2))
    yield made("Mod of reals", 13, ("Mod x c > r", {"fmod": 1}), c=np.float32(0.3))


def _logic() -> Iterator[OneOperator]:
    for op in ("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"):
        yield made(f"{op}, Where", 17, f"{op} x c > b", "Where b x d > r", c=np.float32(0.5), d=_real(3, 1, 1))
    yield made(
        "Not, And, Or, Xor", 17, "Greater x c > b", "Less x d > s", "Not b > n", "And s n > a", "Or a b > o",
        "Xor o n > e", ("Cast e > r", {"to": 1}), c=np.float32(0.7), d=np.float32(0.3),
    )  # fmt: skip
    yield made(
        "Cast to integers", 17, "Mul x k > m", ("Cast m > i", {"to": 7}), ("Cast i > r", {"to": 1}), k=np.float32(9)
    )
    yield made("Cast to half", 17, ("Cast x > h", {"to": 10}), ("Cast h > r", {"to": 1}))


def _reductions() -> Iterator[OneOperator]:
    ops = (
        "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd",
        "ReduceSum", "ReduceSumSquare",
    )  # fmt: skip
    for op, (axes, keepdims) in product(ops, (((2, -1), 0), ((-2, -1), 0), ((-1,), 1), ((1,), 0))):
        values = {"keepdims": keepdims}
        yield made(f"{op} 11, {axes}", 11, (f"{op} x > r", {"axes": list(axes), **values}))
        yield made(f"{op} 18, {axes}", 18, (f"{op} x a > r", values), a=_whole(*axes))
    for op, (axis, last) in product(("ArgMax", "ArgMin"), ((1, 0), (-1, 1))):
        values = {"axis": axis, "select_last_index": last}
        yield made(f"{op}, {axis}", 13, (f"{op} x > i", values), ("Cast i > r", {"to": 1}))


def _along() -> Iterator[OneOperator]:
    for axis, exclusive, reverse in product((1, -1), (0, 1), (0, 1)):
        values = {"exclusive": exclusive, "reverse": reverse}
        yield made(f"CumSum {axis}, {values}", 14, ("CumSum x a > r", values), a=np.int64(axis))
    for op, opset, axis in product(("Softmax", "LogSoftmax", "Hardmax"), (11, 13), (1, -1, 2)):
        yield made(f"{op} {opset}, {axis}", opset, (f"{op} x > r", {"axis": axis}))
    for largest in (0, 1):
        yield made(f"TopK, largest {largest}", 11, ("TopK x k > r i", {"axis": -1, "largest": largest}), k=_whole(3))
    yield made("TopK 1", 9, ("TopK x > r i", {"axis": 1, "k": 2}))
    yield made("TopK 10", 10, ("TopK x k > r i", {"axis": 1}), k=_whole(2))


def _convolutions() -> Iterator[OneOperator]:
    for values in (
        {}, {"pads": [1, 1, 1, 1]}, {"pads": [0, 0, 1, 1], "strides": [2, 2]}, {"pads": [2, 1, 0, 1]},
        {"dilations": [2, 2]}, {"auto_pad": "SAME_UPPER", "strides": [2, 2]}, {"auto_pad": "VALID"},
        {"auto_pad": "SAME_LOWER", "strides": [3, 2]}, {"auto_pad": "SAME_UPPER", "dilations": [2, 1]},
    ):  # fmt: skip
        yield made(f"Conv {values}", 17, ("Conv x w b > r", values), w=_real(6, 3, 3, 3), b=_real(6))
    yield made("Conv, depthwise", 17, ("Conv x w > r", {"group": 3}), w=_real(6, 1, 3, 3))
    yield made(
        "Conv of one axis",
        17,
        "Reshape x s > t",
        ("Conv t w > r", {"pads": [2, 0]}),
        s=_whole(0, 3, -1),
        w=_real(4, 3, 3),
    )
    deep = {"pads": [1, 1, 0, 1, 1, 0]}
    yield made(
        "Conv of three axes", 17, "Unsqueeze x a > t", ("Conv t w > r", deep), a=_whole(2), w=_real(4, 3, 3, 3, 3)
    )
    for values in (
        {}, {"strides": [2, 2]}, {"strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 1]},
        {"strides": [3, 2], "output_shape": [25, 17]}, {"strides": [2, 2], "auto_pad": "SAME_UPPER"},
        {"strides": [2, 2], "auto_pad": "SAME_LOWER"}, {"pads": [0, 1, 1, 0], "strides": [2, 1]}, {"dilations": [2, 2]},
        {"strides": [2, 2], "output_shape": [15, 15], "auto_pad": "SAME_UPPER"},
    ):  # fmt: skip
        yield made(f"ConvTranspose {values}", 11, ("ConvTranspose x w b > r", values), w=_real(3, 4, 3, 3), b=_real(4))
    yield made("ConvTranspose, groups", 11, ("ConvTranspose x w > r", {"group": 3}), w=_real(3, 2, 3, 3))


def _pools() -> Iterator[OneOperator]:
    variants: tuple[dict[str, Any], ...] = (
        {"kernel_shape": [2, 2]}, {"kernel_shape": [3, 3], "strides": [2, 2]},
        {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]},
        {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [0, 0, 1, 1]},
        {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1},
        {"kernel_shape": [3, 2], "strides": [3, 2], "auto_pad": "SAME_UPPER"},
        {"kernel_shape": [3, 2], "strides": [3, 2], "auto_pad": "SAME_LOWER"},
        {"kernel_shape": [5, 5], "strides": [3, 3], "pads": [2, 2, 2, 2], "ceil_mode": 1},
    )  # fmt: skip
    for values in variants:
        yield made(f"MaxPool {values}", 17, ("MaxPool x > r", values))
        for counted in (0, 1):
            yield made(
                f"AveragePool {counted} {values}", 17, ("AveragePool x > r", {"count_include_pad": counted, **values})
            )
        if "ceil_mode" not in values:
            yield made(f"LpPool {values}", 17, ("LpPool x > r", {"p": 3, **values}))
    yield made("MaxPool, dilated", 17, ("MaxPool x > r", {"kernel_shape": [2, 2], "dilations": [2, 3]}))
    yield made("AveragePool 19, dilated", 19, ("AveragePool x > r", {"kernel_shape": [2, 2], "dilations": [2, 2]}))
    for op in ("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"):
        yield made(op, 17, f"{op} x > r")
    both = {"kernel_shape": [2, 2], "strides": [2, 2]}
    yield made("MaxPool, MaxUnpool", 17, ("MaxPool x > m i", both), ("MaxUnpool m i > r", both))


def _norms() -> Iterator[OneOperator]:
    three: dict[str, Any] = {"s": _real(3), "b": _real(3)}
    for opset in (7, 9, 15):
        stats = {**three, "m": _real(3), "v": np.abs(_real(3)) + 0.1}
        yield made(
            f"BatchNormalization {opset}", opset, ("BatchNormalization x s b m v > r", {"epsilon": 1e-3}), **stats
        )
    yield made("InstanceNormalization", 17, "InstanceNormalization x s b > r", **three)
    yield made("LayerNormalization, rows", 17, ("LayerNormalization x s b > r", {"axis": -1}), s=_real(8), b=_real(8))
    yield made("LayerNormalization, pictures", 17, ("LayerNormalization x s > r", {"axis": 1}), s=_real(*SHAPE))
    for opset in (18, 21):
        yield made(f"GroupNormalization {opset}", opset, ("GroupNormalization x s b > r", {"num_groups": 3}), **three)
    for p, axis in product((1, 2), (1, -1)):
        yield made(f"LpNormalization {p}, {axis}", 17, ("LpNormalization x > r", {"p": p, "axis": axis}))
    yield made("LRN", 17, ("LRN x > r", {"size": 3, "alpha": 0.1, "beta": 0.6, "bias": 1.5}))
    yield made("MeanVarianceNormalization", 13, "MeanVarianceNormalization x > r")
    yield made("RMSNormalization", 23, "RMSNormalization x s > r", s=_real(8))


PLACES = ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")


def _resizes() -> Iterator[OneOperator]:
    def scaled(*scales: float) -> np.ndarray[Any, Any]:
        return np.array([1, 1, *scales], np.float32)

    key = "coordinate_transformation_mode"
    for mode, place, scale in product(("linear", "cubic"), PLACES, (2.0, 0.5, 1.5)):
        values = {"mode": mode, key: place}
        yield made(f"Resize 13 {mode}, {place}, {scale}", 13, ("Resize x - s > r", values), s=scaled(scale, scale))
    rules = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
    for rule, place, scale in product(rules, (*PLACES, "tf_half_pixel_for_nn"), (2.0, 1.5, 0.6)):
        values = {"mode": "nearest", "nearest_mode": rule, key: place}
        name = f"Resize 11 nearest {rule}, {place}, {scale}"
        yield made(name, 11, ("Resize x e s > r", values), s=scaled(scale, scale), e=np.zeros(0, np.float32))
    for opset, mode, sizes, smooth in product((18, 19), ("nearest", "linear", "cubic"), ((5, 11), (16, 4)), (0, 1)):
        if smooth and mode == "nearest":
            continue
        values = {"mode": mode, "axes": [2, 3], "antialias": smooth}
        name = f"Resize {opset} {mode}, {sizes}, antialias {smooth}"
        yield made(name, opset, ("Resize x - - z > r", values), z=_whole(*sizes))
    for policy in ("not_larger", "not_smaller"):
        values = {"mode": "linear", "axes": [2, 3], "keep_aspect_ratio_policy": policy}
        yield made(f"Resize 18, {policy}", 18, ("Resize x - - z > r", values), z=_whole(5, 11))
    for a, outside in product((-0.5, -0.75), (0, 1)):
        values = {"mode": "cubic", "cubic_coeff_a": a, "exclude_outside": outside}
        yield made(f"Resize cubic {a}, {outside}", 13, ("Resize x - s > r", values), s=scaled(2, 0.7))
    for mode in ("nearest", "linear"):
        yield made(f"Upsample 9 {mode}", 9, ("Upsample x s > r", {"mode": mode}), s=scaled(2, 3))
        yield made(f"Upsample 7 {mode}", 7, ("Upsample x > r", {"mode": mode, "scales": [1.0, 1.0, 2.0, 2.0]}))
        yield made(f"Resize 10 {mode}", 10, ("Resize x s > r", {"mode": mode}), s=scaled(2, 1.5))


def _samplings() -> Iterator[OneOperator]:
    for mode, padding, corners in product(
        ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection"), (0, 1)
    ):
        yield made(
            f"GridSample {mode}, {padding}, {corners}", 16, "Shape x > n", ("Gather n first > k", {"axis": 0}),
            ("Concat k rest > z", {"axis": 0}), "Expand g z > h",
            ("GridSample x h > r", {"mode": mode, "padding_mode": padding, "align_corners": corners}),
            first=_whole(0), rest=_whole(5, 6, 2), g=RANDOM.uniform(-1.3, 1.3, (1, 5, 6, 2)).astype(np.float32),
        )  # fmt: skip


def _pads() -> Iterator[OneOperator]:
    pads = _whole(0, 0, 1, 2, 0, 0, 2, 1)
    for mode in ("constant", "reflect", "edge"):
        yield made(f"Pad 13 {mode}", 13, ("Pad x p > r", {"mode": mode}), p=pads)
        yield made(f"Pad 2 {mode}", 9, ("Pad x > r", {"mode": mode, "pads": pads.tolist()}))
    yield made("Pad, a value", 13, "Pad x p v > r", p=pads, v=np.float32(0.3))
    yield made("Pad, cut", 13, "Pad x p > r", p=_whole(0, 0, -1, 1, 0, 0, 2, -2))
    yield made("Pad 18, axes", 18, "Pad x p - a > r", p=_whole(1, 2, 0, 1), a=_whole(3, 2))
    yield made("Pad 19, wrap", 19, ("Pad x p > r", {"mode": "wrap"}), p=pads)
    yield made("CenterCropPad", 18, ("CenterCropPad x z > r", {"axes": [2, 3]}), z=_whole(5, 11))


def _parts() -> Iterator[OneOperator]:
    values = {"starts": [1, -5], "ends": [3, 2**31 - 1], "axes": [1, 3]}
    yield made("Slice 9", 9, ("Slice x > r", values))
    yield made("Slice 13", 13, "Slice x s e a > r", s=_whole(1, -5), e=_whole(3, 2**31 - 1), a=_whole(1, 3))
    for start, end, step in ((6, -9, -2), (-1, 0, -1), (0, 8, 3), (7, 2, -2)):
        ends = {"s": _whole(start), "e": _whole(end), "a": _whole(-1), "t": _whole(step)}
        yield made(f"Slice {start}:{end}:{step}", 13, "Slice x s e a t > r", **ends)
    yield made("Split, sizes", 13, ("Split x s > p r", {"axis": -1}), s=_whole(3, 5))
    yield made("Split 18, uneven", 18, ("Split x > p q r", {"axis": -1, "num_outputs": 3}))
    yield made("Split 11", 11, ("Split x > p r", {"axis": 2, "split": [2, 6]}))
    yield made("Concat of parts", 13, ("Split x > p q", {"axis": 2}), ("Concat q p x > r", {"axis": 2}))
    for mode in ("DCR", "CRD"):
        values = {"blocksize": 2, "mode": mode}
        yield made(f"DepthToSpace {mode}", 13, ("Concat x x x x > c", {"axis": 1}), ("DepthToSpace c > r", values))
    yield made("SpaceToDepth", 13, ("SpaceToDepth x > r", {"blocksize": 2}))
    yield made("Tile", 13, "Tile x t > r", t=_whole(1, 2, 1, 3))
    yield made("Trilu, upper", 14, "Trilu x k > r", k=np.int64(1))
    yield made("Trilu, lower", 14, ("Trilu x > r", {"upper": 0}))


def _shapes() -> Iterator[OneOperator]:
    yield made("Transpose", 13, ("Transpose x > r", {"perm": [0, 2, 3, 1]}))
    yield made("Reshape, 0 and -1", 13, "Reshape x s > r", s=_whole(0, 8, -1, 4))
    yield made("Reshape, -1 first", 13, "Reshape x s > r", s=_whole(-1, 12, 16))
    yield made("Flatten, the last axis", 13, ("Flatten x > f", {"axis": 3}), "Reshape f s > r", s=_whole(-1, 192))
    yield made("Unsqueeze, Squeeze", 13, "Unsqueeze x a > u", "Squeeze u a > r", a=_whole(-1, 1))
    yield made("Unsqueeze 11", 11, ("Unsqueeze x > u", {"axes": [0]}), ("Squeeze u > r", {"axes": [0]}))
    by_shape = ("Shape x > n", ("Gather n first > k", {"axis": 0}), ("Concat k m > z", {"axis": 0}), "Reshape x z > r")
    yield made("Reshape by its shape", 13, *by_shape, first=_whole(0), m=_whole(-1, 4))
    yield made("zeros by its shape", 13, "Shape x > n", "ConstantOfShape n > o", "Add x o > r")
    yield made(
        "ones by its shape, added up",
        13,
        "Shape x > n",
        ("Gather n i > k", {"axis": 0}),
        ("Cast k > f", {"to": 1}),
        "Mul x f > r",
        i=np.int64(2),
    )


def _products() -> Iterator[OneOperator]:
    yield made("Einsum", 13, ("Einsum x w > r", {"equation": "nchw,cd->ndhw"}), w=_real(3, 5))
    yield made("MatMul", 13, "MatMul x w > r", w=_real(8, 5))
    yield made("MatMul of both", 13, ("Transpose x > t", {"perm": [0, 1, 3, 2]}), "MatMul x t > r")
    for turned in (0, 1):
        values = {"alpha": 0.5, "beta": 2.0, "transB": turned}
        weights = {"w": _real(*((5, 192) if turned else (192, 5))), "c": _real(5)}
        yield made(f"Gemm {turned}", 13, "Flatten x > f", ("Gemm f w c > r", values), **weights)
    yield made(
        "Gemm, a turned",
        13,
        "Flatten x > f",
        ("Transpose f > t", {"perm": [1, 0]}),
        ("Gemm t w > r", {"transA": 1}),
        w=_real(192, 5),
    )


def _places() -> Iterator[OneOperator]:
    yield made("Gather, rows", 13, ("Gather x i > r", {"axis": 2}), i=np.array([[0, -1], [2, 5]]))
    yield made("Gather, one", 13, ("Gather x i > r", {"axis": 3}), i=np.int64(-2))
    each = ("Shape x > n", "Expand i n > e", ("GatherElements x e > r", {"axis": 3}))
    yield made("GatherElements", 13, *each, i=np.array([[[[0, 3, -1, 2, 1, 7, 5, 4]]]]))
    turned = ("Transpose x > t", {"perm": [1, 2, 3, 0]})
    yield made(
        "GatherND",
        13,
        turned,
        "GatherND t i > g",
        ("Transpose g > r", {"perm": [1, 0]}),
        i=np.array([[0, 1, 2], [2, 7, -1]]),
    )
    hot = (("ArgMax x > i", {"axis": 1, "keepdims": 0}), ("OneHot i d v > r", {"axis": 1}))
    yield made("OneHot", 13, *hot, d=np.int64(3), v=np.array([0.25, 2], np.float32))
    turned = ("Transpose x > t", {"perm": [1, 0, 2, 3]})
    for reduction in ("none", "add", "mul", "max", "min"):
        steps = (
            turned,
            ("Gather t g > u", {"axis": 0}),
            ("ScatterND t i u > q", {"reduction": reduction}),
            ("Transpose q > r", {"perm": [1, 0, 2, 3]}),
        )
        yield made(f"ScatterND {reduction}", 18, *steps, g=_whole(0), i=np.array([[2]]))
        put = (
            "Shape x > n",
            "Expand i n > e",
            "Mul x k > v",
            ("ScatterElements x e v > r", {"axis": 3, "reduction": reduction}),
        )
        yield made(
            f"ScatterElements {reduction}", 18, *put, i=np.array([[[[0, 3, -1, 2, 1, 7, 5, 4]]]]), k=np.float32(2)
        )


def _integers() -> Iterator[OneOperator]:
    """Yield roundings by powers of two, so that sums are exact."""
    s, z = np.float32(2**-6), np.uint8(20)
    first = "QuantizeLinear x s z > q"
    yield made("QuantizeLinear", 13, first, "DequantizeLinear q s z > r", s=s, z=z)
    three = {"s": np.array([2**-6, 2**-5, 2**-7], np.float32), "z": np.array([0, 3, -3], np.int8)}
    axis = {"axis": 1}
    yield made(
        "QuantizeLinear, channels",
        13,
        ("QuantizeLinear x s z > q", axis),
        ("DequantizeLinear q s z > r", axis),
        **three,
    )
    yield made(
        "QuantizeLinear, 16 bits", 21, first, "DequantizeLinear q s z > r", s=np.float32(2**-10), z=np.uint16(999)
    )
    weights = {
        "w": RANDOM.integers(-9, 9, (4, 3, 3, 3)).astype(np.int8),
        "t": np.float32(2**-4),
        "o": np.int8(0),
        "u": np.float32(0.25),
    }
    yield made(
        "QLinearConv",
        13,
        first,
        ("QLinearConv q s z w t o u z > p", {"pads": [1, 1, 1, 1]}),
        "DequantizeLinear p u z > r",
        s=s,
        z=z,
        **weights,
    )
    yield made(
        "ConvInteger",
        13,
        first,
        "ConvInteger q w z > i",
        ("Cast i > r", {"to": 1}),
        s=s,
        z=z,
        w=RANDOM.integers(0, 99, (4, 3, 3, 3)).astype(np.uint8),
    )
    yield made(
        "MatMulInteger",
        13,
        first,
        "MatMulInteger q w z v > i",
        ("Cast i > r", {"to": 1}),
        s=s,
        z=z,
        w=RANDOM.integers(0, 99, (8, 5)).astype(np.uint8),
        v=np.uint8(7),
    )
    yield made("DynamicQuantizeLinear", 13, "DynamicQuantizeLinear x > q d o", "DequantizeLinear q d o > r")


def _of_runtime() -> Iterator[OneOperator]:
    for op in ("Gelu", "FastGelu", "QuickGelu"):
        yield made(f"{op} of ONNX Runtime", 17, f"{op} x > r", domain=RUNTIME)
    yield made("BiasGelu of ONNX Runtime", 17, "BiasGelu x b > r", domain=RUNTIME, b=_real(8))
    values = {"transB": 1, "alpha": 0.5}
    yield made("FusedMatMul of ONNX Runtime", 17, ("FusedMatMul x w > r", values), domain=RUNTIME, w=_real(5, 8))
    conv = ("FusedConv x w b > r", {"activation": "Relu"})
    yield made("FusedConv of ONNX Runtime", 17, conv, domain=RUNTIME, w=_real(4, 3, 3, 3), b=_real(4))


def cases() -> Iterator[Case]:
    """Yield a comparison for each graph that ONNX Runtime has a kernel for; it optimises as it does."""
    import onnx
    import onnxruntime

    options, x = onnxruntime.SessionOptions(), pictures(5, SHAPE)
    options.log_severity_level = 4
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "one.onnx"
        for graph in graphs():
            onnx.save(graph.model(), path)
            parts = x.split(1) if graph.name == "DynamicQuantizeLinear" else [x]  # its scale is that of a batch
            try:
                session = onnxruntime.InferenceSession(path, options)
                theirs = torch.cat([torch.tensor(session.run(None, {"x": part.numpy()})[0]) for part in parts])
            except Exception:
                continue
            place = HALF_PLACE if "half" in graph.name else PLACE
            yield case(graph.name, path, x, theirs, plain=True, place=place)


FAMILY = Family(
    "ONNX graphs of one operator",
    "`onnx:` files of every operator in the variants that exporters write",
    "ONNX Runtime as it optimises",
    UNIT,
    LIMIT,
    ("onnx", "onnxruntime"),
    cases,
)
