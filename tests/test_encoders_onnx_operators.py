"""Operators of trained networks in ONNX files, one small file each: the representations are onnxruntime's."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor

from holdfast.core import Encoder
from holdfast.runtime.errors import Unsupported
from holdfast.sources.encoders import open_encoder, write

make = helper.make_node
DRAW = np.random.default_rng(0)
Weights = dict[str, Any]


def real(*shape: int) -> np.ndarray:
    return DRAW.normal(size=shape).astype(np.float32)


def saved(path: Path, nodes: Sequence[Any], weights: Weights, opset: int) -> Path:
    """Write a model from x [b, 3, 8, 8] to reps."""
    import onnx

    image = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["b", 3, 8, 8])
    reps = helper.make_tensor_value_info("reps", TensorProto.FLOAT, ["b", None])
    stored = [numpy_helper.from_array(value, name) for name, value in weights.items()]
    graph = helper.make_graph(nodes, "tiny", [image], [reps], initializer=stored)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8), path)
    return path


def images() -> Tensor:
    """Pixels below 0 and above 1 too, so that clips and ranges are reached."""
    return 4 * torch.rand(5, 3, 8, 8, generator=torch.Generator().manual_seed(0)) - 2


def same(path: Path, tolerance: float = 1e-5) -> Encoder:
    """Return the encoder, after a comparison with onnxruntime as the file says it, nothing fused."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    encoder = open_encoder(f"{path}?mean=0&std=1")
    (theirs,) = onnxruntime.InferenceSession(path, options).run(None, {"x": images().numpy()})
    torch.testing.assert_close(encoder(images()), torch.tensor(theirs), atol=tolerance, rtol=tolerance)
    x = images().requires_grad_(True)
    (gradient,) = torch.autograd.grad(encoder(x).square().sum(), x)
    assert bool(gradient.isfinite().all())
    assert bool(gradient.any())
    return encoder


PADS = np.array([0, 0, 1, 2, 0, 0, 2, 1])
FLAT = make("Flatten", ["y"], ["reps"])
FILES: dict[str, tuple[int, list[Any], Weights]] = {
    "batch norm behind a convolution": (
        17,
        [make("Conv", ["x", "w"], ["a"]), make("BatchNormalization", ["a", "s", "b", "m", "v"], ["y"], epsilon=1e-3)],
        {"w": real(4, 3, 3, 3), "s": real(4), "b": real(4), "m": real(4), "v": np.abs(real(4))},
    ),
    "batch norm of opset 7": (
        7,
        [make("BatchNormalization", ["x", "s", "b", "m", "v"], ["y"])],
        {"s": real(3), "b": real(3), "m": real(3), "v": np.abs(real(3))},
    ),
    "clip of opset 6": (9, [make("Clip", ["x"], ["y"], min=-0.5, max=1.0)], {}),
    "clip to constants": (17, [make("Clip", ["x", "l", "h"], ["y"])], {"l": np.float32(0), "h": np.float32(6)}),
    "clip from above": (17, [make("Clip", ["x", "", "h"], ["y"])], {"h": np.float32(0.5)}),
    "clip from below, by a Constant": (
        13,
        [make("Constant", [], ["l"], value=numpy_helper.from_array(np.array(-0.25, np.float32))),
         make("Clip", ["x", "l"], ["y"])],
        {},
    ),
    "pad of opset 2": (9, [make("Pad", ["x"], ["y"], pads=[0, 0, 1, 0, 0, 0, 2, 1], value=0.5)], {}),
    "pad by a tensor": (
        17, [make("Pad", ["x", "p", "c"], ["y"])], {"p": np.array([0, 0, 1, 0, 0, 0, 2, 1]), "c": np.float32(0.5)},
    ),
    "pad by reflection": (17, [make("Pad", ["x", "p"], ["y"], mode="reflect")], {"p": PADS}),
    "pad by the edge": (17, [make("Pad", ["x", "p"], ["y"], mode="edge")], {"p": PADS}),
    "slices backward": (
        17, [make("Slice", ["x", "s", "e", "a", "t"], ["y"])],
        {"s": np.array([5, -1]), "e": np.array([-9, 1]), "a": np.array([3, 2]), "t": np.array([-2, -1])},
    ),
    "uneven pads of a max pool, rounded up": (
        17, [make("MaxPool", ["x"], ["y"], kernel_shape=[3, 3], strides=[2, 2], pads=[0, 0, 1, 1])], {},
    ),
    "a max pool padded to the size": (
        12, [make("MaxPool", ["x"], ["y"], kernel_shape=[3, 2], strides=[3, 2], auto_pad="SAME_LOWER")], {},
    ),
    "an average without its pads": (
        17, [make("AveragePool", ["x"], ["y"], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])], {},
    ),
    "softmax of opset 11, over all that is left": (11, [make("Softmax", ["x"], ["y"], axis=1)], {}),
    "hard swish": (17, [make("HardSwish", ["x"], ["y"])], {}),
    "hard sigmoid": (17, [make("HardSigmoid", ["x"], ["y"], alpha=0.3, beta=0.4)], {}),
    "leaky relu": (17, [make("LeakyRelu", ["x"], ["y"], alpha=0.3)], {}),
    "prelu": (17, [make("PRelu", ["x", "s"], ["y"])], {"s": real(3, 1, 1)}),
    "instance norm": (17, [make("InstanceNormalization", ["x", "s", "b"], ["y"])], {"s": real(3), "b": real(3)}),
    "resized, nearest": (
        13, [make("Resize", ["x", "", "k"], ["y"], mode="nearest", coordinate_transformation_mode="asymmetric",
                  nearest_mode="floor")],
        {"k": np.array([1, 1, 2, 2], np.float32)},
    ),
    "resized, linear": (
        13, [make("Resize", ["x", "", "k"], ["y"], mode="linear", coordinate_transformation_mode="half_pixel")],
        {"k": np.array([1, 1, 2, 2], np.float32)},
    ),
    "uneven pads of a convolution": (
        17, [make("Conv", ["x", "w"], ["y"], pads=[0, 0, 1, 1], strides=[2, 2])], {"w": real(4, 3, 3, 3)},
    ),
    "a depthwise convolution padded to the size, of opset 9": (
        9, [make("Conv", ["x", "w"], ["y"], auto_pad="SAME_UPPER", group=3, strides=[2, 2])], {"w": real(3, 1, 3, 3)},
    ),
    "weights of float16 behind Cast": (
        17,
        [make("Cast", ["half"], ["w"], to=TensorProto.FLOAT), make("Conv", ["x", "w"], ["y"])],
        {"half": real(4, 3, 3, 3).astype(np.float16)},
    ),
    "slice of opset 9": (9, [make("Slice", ["x"], ["y"], axes=[1, 3], starts=[1, 2], ends=[3, 2**31])], {}),
    "weights of 8 bits, each output its scale": (
        13,
        [make("DequantizeLinear", ["q", "s", "z"], ["w"], axis=0), make("Conv", ["x", "w"], ["y"])],
        {"q": DRAW.integers(-127, 128, (4, 3, 3, 3), np.int8), "s": np.abs(real(4)) / 99, "z": np.zeros(4, np.int8)},
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", FILES)
def test_same_as_onnxruntime(kind: str, tmp_path: Path) -> None:
    opset, nodes, weights = FILES[kind]
    same(saved(tmp_path / "m.onnx", [*nodes, FLAT], weights, opset))


GELU: dict[str, list[Any]] = {
    "divided, the half last": [
        make("Div", ["x", "root2"], ["a"]), make("Erf", ["a"], ["e"]), make("Add", ["e", "one"], ["s"]),
        make("Mul", ["x", "s"], ["p"]), make("Mul", ["p", "half"], ["y"]),
    ],
    "multiplied, the half first": [
        make("Mul", ["root", "x"], ["a"]), make("Erf", ["a"], ["e"]), make("Add", ["one", "e"], ["s"]),
        make("Mul", ["x", "half"], ["h"]), make("Mul", ["h", "s"], ["y"]),
    ],
    "divided by two": [
        make("Div", ["x", "root2"], ["a"]), make("Erf", ["a"], ["e"]), make("Add", ["e", "one"], ["s"]),
        make("Mul", ["s", "x"], ["p"]), make("Div", ["p", "two"], ["y"]),
    ],
}  # fmt: skip
NUMBERS = {key: np.array(value, np.float32) for key, value in
           {"root2": 2**0.5, "root": 0.5**0.5, "one": 1, "half": 0.5, "two": 2}.items()}  # fmt: skip


def gelus(encoder: Encoder) -> int:
    return sum(getattr(module, "op", "") == "Gelu" for module in encoder.modules())


@pytest.mark.parametrize("spelling", GELU)
def test_gelu_is_recognised(spelling: str, tmp_path: Path) -> None:
    """So that it can be certified; no other function is taken for it."""
    from holdfast.numerics.bounds.trace import trace

    path = tmp_path / "m.onnx"
    encoder = same(saved(path, [*GELU[spelling], FLAT], NUMBERS, 17))
    assert gelus(encoder) == 1
    trace(encoder, (3, 8, 8))
    for name, value in (("half", 0.6), ("one", 1.1), ("root2", 1.4), ("root", 0.7), ("two", 2.1)):
        used = any(name in node.input for node in GELU[spelling])
        other = same(saved(path, [*GELU[spelling], FLAT], NUMBERS | {name: np.array(value, np.float32)}, 17))
        assert gelus(other) == (0 if used else 1)


def test_what_others_read_of_a_gelu_stays(tmp_path: Path) -> None:
    nodes = [*GELU["divided, the half last"], make("Add", ["y", "p"], ["z"]), make("Flatten", ["z"], ["reps"])]
    assert gelus(same(saved(tmp_path / "m.onnx", nodes, NUMBERS, 17))) == 0


def test_pads_follow_the_size(tmp_path: Path) -> None:
    """An odd size has other pads than the even one of the file."""
    nodes = [make("Conv", ["x", "w"], ["y"], auto_pad="SAME_UPPER", strides=[2, 2])]
    path = saved(tmp_path / "m.onnx", [*nodes, FLAT], {"w": (kernel := real(4, 3, 3, 3))}, 17)
    x = images()[..., :7, :7]
    expected = torch.nn.functional.conv2d(x, torch.tensor(kernel), stride=2, padding=1).flatten(1)
    torch.testing.assert_close(open_encoder(f"{path}?mean=0&std=1&size=7")(x), expected)


# --- activations that are rounded -----------------------------------------------------------------


def quantised(folder: Path, kind: str, opset: int = 17) -> Path:
    """Write a QDQ file: the input, a max pool of its integers, the kernel and the representation are rounded.

    Scales are powers of two, so that sums are exact and half levels are met.
    """
    zero = {
        "uint8": np.uint8(120),
        "int8": np.int8(-3),
        "uint16": np.uint16(999),
        "each": np.array([0, 128, 255], np.uint8),
    }[kind]
    scale = np.array([2**-8, 2**-6, 2**-7] if kind == "each" else 2**-10 if kind == "uint16" else 2**-6, np.float32)
    nodes = [
        make("QuantizeLinear", ["x", "s", "z"], ["xq"]), make("MaxPool", ["xq"], ["pq"], kernel_shape=[2, 2]),
        make("DequantizeLinear", ["pq", "s", "z"], ["p"]), make("DequantizeLinear", ["wq", "t", "o"], ["w"]),
        make("Conv", ["p", "w"], ["c"]), make("Flatten", ["c"], ["f"]),
        make("QuantizeLinear", ["f", "u"], ["fq"]), make("DequantizeLinear", ["fq", "u"], ["reps"]),
    ]  # fmt: skip
    weights = {
        "s": scale, "z": zero, "wq": DRAW.integers(-127, 128, (4, 3, 3, 3), np.int8), "t": np.float32(2**-7),
        "o": np.int8(0), "u": np.float32(2**-4),
    }  # fmt: skip
    if kind in ("uint16", "each"):  # no pooling: onnxruntime knows it of 8 bits and of one scale
        nodes[1:3] = [make("DequantizeLinear", ["xq", "s", "z"], ["p"])]
    return saved(folder / f"{kind}.onnx", nodes, weights, 21 if kind == "uint16" else opset)


@pytest.mark.parametrize("kind", ["uint8", "int8", "uint16", "each"])
def test_rounded_activations(kind: str, tmp_path: Path) -> None:
    """As in the file, and with the gradient of the clipping."""
    encoder = same(quantised(tmp_path, kind))
    reps = encoder(images())
    torch.testing.assert_close(reps, (16 * reps).round() / 16)
    assert len(reps.unique()) < reps.numel()
    assert "rounded as the file says" in str(encoder.origin["quantised"])


def test_the_gradient_goes_straight_through(tmp_path: Path) -> None:
    nodes = [
        make("QuantizeLinear", ["x", "s", "z"], ["q"]), make("DequantizeLinear", ["q", "s", "z"], ["y"]), FLAT,
    ]  # fmt: skip
    weights = {"s": np.float32(0.01), "z": np.uint8(100)}
    encoder = same(saved(tmp_path / "m.onnx", nodes, weights, 13))
    x = images().requires_grad_(True)
    (gradient,) = torch.autograd.grad(encoder(x).sum(), x)
    assert torch.equal(gradient, ((x > -1) & (x < 1.55)).float())


def test_scales_that_are_computed_from_the_image(tmp_path: Path) -> None:
    """Each image is a batch of its own; nothing goes back through the rounding unless it is asked for."""
    import onnxruntime

    nodes = [make("DynamicQuantizeLinear", ["x"], ["q", "d", "e"]), make("DequantizeLinear", ["q", "d", "e"], ["y"])]
    path = saved(tmp_path / "m.onnx", [*nodes, FLAT], {}, 13)
    session = onnxruntime.InferenceSession(path)
    alone = torch.cat([torch.tensor(session.run(None, {"x": image.numpy()})[0]) for image in images().split(1)])
    for option, share in (("own", 0.0), ("straight", 1.0)):
        encoder = open_encoder(f"{path}?mean=0&std=1&gradient={option}")
        torch.testing.assert_close(encoder(images()), alone)
        x = images().requires_grad_(True)
        reps = encoder(x)
        gradient = torch.autograd.grad(reps.sum(), x)[0] if reps.requires_grad else torch.zeros_like(x)
        assert float(gradient.mean()) == pytest.approx(share, abs=0.01)
        assert "rounded by scales of each image" in str(encoder.origin["quantised"])


def test_rounding_is_certified_and_not_written(tmp_path: Path) -> None:
    from holdfast.numerics.bounds.clip import Clip
    from holdfast.numerics.bounds.trace import trace

    spec = f"onnx:{quantised(tmp_path, 'uint8')}?mean=0&std=1"
    encoder = open_encoder(spec)
    clips = [node.operation for node in trace(encoder, (3, 8, 8)).nodes if isinstance(node.operation, Clip)]
    assert clips
    assert all(clip.step > 0 for clip in clips)
    with pytest.raises(Unsupported, match="rounded"):
        write(spec, encoder, tmp_path / "again.onnx")
