"""Chains of steps in ONNX files that are one operation: what is folded is the same function, what is not, stays."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from onnx import helper
from torch import Tensor, nn

from holdfast.core import Encoder, Margin
from holdfast.parts.certifiers.crown import Crown
from holdfast.parts.certifiers.interval import Interval
from holdfast.parts.threats.linf import Linf
from holdfast.sources.encoders import open_encoder, write
from holdfast.sources.onnx import specialise
from holdfast.sources.onnx.network import Operation
from test_encoders_onnx_operators import images, real, same, saved

make = helper.make_node
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")

FLAT = [make("Flatten", ["y"], ["reps"])]


def number(value: float) -> np.ndarray[Any, Any]:
    return np.array(value, np.float32)


SCALE = {"s": np.array([2.0, -0.5, 1.5, 0.25], np.float32)[:, None, None], "t": real(1, 4, 1, 1)}
WEIGHTS: dict[str, Any] = {
    "w": real(4, 3, 3, 3), "one": real(4, 3, 1, 1), "b": real(4), **SCALE, "p": real(3, 1, 1), "q": real(1, 3, 1, 1),
    "g": real(4), "m": real(4), "v": real(4) ** 2 + 0.5, "half": number(0.5), "six": number(6), "zero": number(0),
    "deep": real(6, 1, 3, 3), "minus": number(-1), "a": 0.2 * SCALE["s"], "u": 0.3 + real(1, 1, 1) ** 2,
    "two": real(2, 1, 3, 3), "r": real(6, 1, 1), "map": real(1, 1, 8, 8), "kernel": real(4, 3, 2, 2),
}  # fmt: skip
CONV = make("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1])
NORM = ["g", "b", "m", "v"]

FOLDED: dict[str, tuple[list[Any], list[str]]] = {
    "mul, add": ([CONV, make("Mul", ["c", "s"], ["k"]), make("Add", ["k", "t"], ["y"])], ["Conv"]),
    "constants first, no bias": (
        [make("Conv", ["x", "w"], ["c"], pads=[0, 1, 2, 1]), make("Mul", ["s", "c"], ["k"]),
         make("Add", ["t", "k"], ["y"])], ["Conv"]),
    "sub, div": ([CONV, make("Sub", ["c", "t"], ["k"]), make("Div", ["k", "s"], ["y"])], ["Conv"]),
    "from a constant": ([CONV, make("Sub", ["t", "c"], ["k"]), make("Mul", ["k", "half"], ["y"])], ["Conv"]),
    "batch norm": ([CONV, make("BatchNormalization", ["c", *NORM], ["y"], epsilon=0.1)], ["Conv"]),
    "batch norm, mul, batch norm": (
        [CONV, make("BatchNormalization", ["c", *NORM], ["k"]), make("Mul", ["k", "s"], ["l"]),
         make("BatchNormalization", ["l", *NORM], ["y"])], ["Conv"]),
    "of groups": (
        [make("Conv", ["x", "deep"], ["c"], group=3, pads=[1, 1, 1, 1]), make("Mul", ["c", "r"], ["k"]),
         make("Add", ["r", "k"], ["y"])], ["Conv"]),
    "mul before, padded": ([make("Mul", ["x", "p"], ["k"]), make("Conv", ["k", "w", "b"], ["y"], pads=[1, 1, 1, 1])],
                           ["Conv"]),
    "mean and std before": (
        [make("Sub", ["x", "q"], ["k"]), make("Div", ["k", "p"], ["l"]), make("Conv", ["l", "w"], ["y"])], ["Conv"]),
    "before, of groups": (
        [make("Mul", ["x", "p"], ["k"]), make("Add", ["q", "k"], ["l"]), make("Conv", ["l", "deep"], ["y"], group=3)],
        ["Conv"]),
    "before, one pixel": (
        [make("Sub", ["q", "x"], ["k"]), make("Conv", ["k", "one", "b"], ["c"], auto_pad="SAME_UPPER"),
         make("Mul", ["c", "s"], ["y"])], ["Conv"]),
    "before, padded as much as is none": (
        [make("Add", ["x", "half"], ["k"]), make("Conv", ["k", "w", "b"], ["y"], auto_pad="VALID")], ["Conv"]),
    "relu, min, max": (
        [make("Relu", ["x"], ["k"]), make("Min", ["k", "six"], ["l"]), make("Max", ["l", "zero"], ["y"])], ["Clip"]),
    "max, min": ([make("Max", ["half", "x"], ["k"]), make("Min", ["six", "k"], ["y"])], ["Clip"]),
    "clips that overlap": (
        [make("Clip", ["x", "minus", "half"], ["k"]), make("Clip", ["k", "zero", "six"], ["l"]),
         make("Min", ["l", "six"], ["y"])], ["Clip"]),
    "relu of relu": ([make("Relu", ["x"], ["k"]), make("Relu", ["k"], ["y"])], ["Clip"]),
    "prelu by abs": (
        [CONV, make("Relu", ["c"], ["k"]), make("Abs", ["c"], ["l"]), make("Sub", ["c", "l"], ["d"]),
         make("Mul", ["a", "d"], ["e"]), make("Mul", ["e", "half"], ["f"]), make("Add", ["k", "f"], ["y"])],
        ["Conv", "PRelu"]),
    "prelu as Keras has it": (
        [CONV, make("Relu", ["c"], ["k"]), make("Neg", ["c"], ["l"]), make("Relu", ["l"], ["d"]),
         make("Mul", ["a", "d"], ["e"]), make("Sub", ["k", "e"], ["y"])], ["Conv", "PRelu"]),
    "prelu by min and max": (
        [make("Min", ["x", "zero"], ["d"]), make("Mul", ["d", "p"], ["e"]), make("Neg", ["e"], ["f"]),
         make("Max", ["x", "zero"], ["k"]), make("Add", ["f", "k"], ["y"])], ["PRelu"]),
    "all of it": (
        [CONV, make("Mul", ["c", "s"], ["k"]), make("Add", ["k", "t"], ["l"]), make("Relu", ["l"], ["d"]),
         make("Min", ["d", "six"], ["y"])], ["Conv", "Clip"]),
}  # fmt: skip
"""Chains -> what is left of them."""

LEFT: dict[str, list[Any]] = {
    "read twice": [CONV, make("Mul", ["c", "s"], ["k"]), make("Add", ["k", "c"], ["y"])],
    "a shift before a padded convolution": [
        make("Add", ["x", "q"], ["k"]), make("Conv", ["k", "w", "b"], ["y"], pads=[1, 1, 1, 1])],
    "a shift before one that is padded by its size": [
        make("Add", ["x", "q"], ["k"]), make("Conv", ["k", "w", "b"], ["y"], auto_pad="SAME_LOWER")],
    "a factor for each pixel": [CONV, make("Mul", ["c", "map"], ["y"])],
    "a divided constant": [make("Exp", ["x"], ["k"]), make("Div", ["p", "k"], ["l"]), make("Conv", ["l", "w"], ["y"])],
    "a sum that is spread": [make("ReduceMean", ["x"], ["k"], axes=[1]), make("Conv", ["k", "two"], ["c"]),
                             make("Add", ["c", "map6"], ["y"])],
    "limits for each channel": [make("Relu", ["x"], ["k"]), make("Min", ["k", "p"], ["y"])],
    "no prelu: another slope above": [
        make("Relu", ["x"], ["k"]), make("Abs", ["x"], ["l"]), make("Mul", ["l", "p"], ["e"]),
        make("Add", ["k", "e"], ["y"])],
    "no prelu: of two values": [
        make("Relu", ["x"], ["k"]), make("Mul", ["x", "p"], ["z"]), make("Abs", ["z"], ["l"]),
        make("Sub", ["z", "l"], ["d"]), make("Mul", ["q", "d"], ["e"]), make("Add", ["k", "e"], ["y"])],
}  # fmt: skip
"""What looks like a chain, and is none."""


def of(nodes: Sequence[Any], path: Path) -> Path:
    read = {name for node in nodes for name in node.input}
    weights = WEIGHTS | {"map6": real(1, 2, 6, 6)}
    return saved(path, [*nodes, *FLAT], {name: weights[name] for name in weights if name in read}, 13)


def steps(encoder: Encoder) -> list[str]:
    return [m.op for m in encoder.modules() if isinstance(m, Operation) and m.op != "Flatten"]


def without(monkeypatch: pytest.MonkeyPatch, path: Path) -> Encoder:
    """Return the encoder of a file as it is, nothing folded."""
    with monkeypatch.context() as patched:
        patched.setattr(specialise, "fold", lambda plan, shapes: None)
        return open_encoder(f"{path}?mean=0&std=1")


def gradient(encoder: Encoder, x: Tensor) -> Tensor:
    x = x.clone().requires_grad_()
    (found,) = torch.autograd.grad(encoder(x).square().sum(), x)
    return found


@pytest.mark.parametrize("chain", FOLDED)
def test_a_chain_is_one_operation(chain: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`same` holds what it gives against ONNX Runtime, and opening it does so node by node."""
    nodes, left = FOLDED[chain]
    path = of(nodes, tmp_path / "m.onnx")
    folded, plain = same(path), without(monkeypatch, path)
    assert steps(folded) == left
    assert len(steps(plain)) == len(nodes)
    torch.testing.assert_close(gradient(folded, images()), gradient(plain, images()), atol=1e-3, rtol=1e-4)


@pytest.mark.parametrize("chain", LEFT)
def test_what_is_no_chain_stays(chain: str, tmp_path: Path) -> None:
    encoder = same(of(LEFT[chain], tmp_path / "m.onnx"))
    assert steps(encoder) == [node.op_type for node in LEFT[chain]]


def test_a_chain_that_is_cut_ends_at_the_tensor_asked_for(tmp_path: Path) -> None:
    nodes, _ = FOLDED["mul, add"]
    path = of(nodes, tmp_path / "m.onnx")
    shifted, scaled = (open_encoder(f"{path}?mean=0&std=1&output={name}&pool=flatten") for name in ("y", "k"))
    shift = torch.tensor(WEIGHTS["t"]).expand(5, 4, 8, 8).flatten(1)
    torch.testing.assert_close(shifted(images()) - scaled(images()), shift, atol=1e-4, rtol=1e-4)


def test_factors_are_learned_under_their_names_and_written(tmp_path: Path) -> None:
    nodes, _ = FOLDED["batch norm, mul, batch norm"]
    path = of(nodes, tmp_path / "m.onnx")
    spec = f"onnx:{path}?mean=0&std=1"
    student = open_encoder(spec).requires_grad_(True)
    learned = {name.rpartition(".")[2]: value for name, value in student.module.named_parameters()}
    assert set(learned) == {"w", "b", "s", "g"}  # mean and variance are none
    loss = student(images()).square().sum()
    for name, value in zip(learned, torch.autograd.grad(loss, list(learned.values())), strict=True):
        assert bool(value.any()), name
    with torch.no_grad():
        for value in learned.values():
            value += 0.1
    write(spec, student, tmp_path / "again.onnx")
    torch.testing.assert_close(same(tmp_path / "again.onnx")(images()), student(images()), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("certifier", [Crown(), Interval()])
@pytest.mark.parametrize("chain", ["all of it", "prelu by abs", "mean and std before", "batch norm, mul, batch norm"])
def test_bounds_are_no_looser(chain: str, certifier: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nodes, _ = FOLDED[chain]
    path = of(nodes, tmp_path / "m.onnx")
    x, ball = images()[:3].clamp(0, 1), Linf(0.05)
    radii = torch.full((3,), ball.radius)
    encoders = [open_encoder(f"{path}?mean=0&std=1") if folded else without(monkeypatch, path) for folded in (1, 0)]
    size = encoders[0](x).shape[1]
    draw = torch.Generator().manual_seed(0)
    margin = Margin(torch.randn(3, 2, size, generator=draw).double(), torch.zeros(3, 2).double())
    folded, plain = (certifier(encoder, margin, x, ball, radii).lower for encoder in encoders)
    assert bool((folded >= plain - 1e-5 * plain.abs()).all())
    # and no image of the ball is below them
    for scale in (0.05, 0.02):
        near = (x + scale * torch.randn(x.shape, generator=draw).sign()).clamp(0, 1)
        value = (margin.weights @ encoders[1](near).double()[:, :, None])[:, :, 0]
        assert bool((value >= folded).all())


class Small(nn.Module):
    """Two convolutions, each with a batch norm and a ReLU6."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU6(),
            nn.Conv2d(8, 4, 3, groups=4, bias=False), nn.BatchNorm2d(4), nn.ReLU6(), nn.Flatten(),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x)


def test_an_exported_network_keeps_the_names_of_its_weights(tmp_path: Path) -> None:
    """So that a state dict of the network that was exported still fits."""
    torch.manual_seed(0)
    network = Small()
    network.train()(torch.rand(16, 3, 8, 8))  # so that the batch norms have statistics
    network.eval()
    torch.onnx.export(
        network, (torch.rand(2, 3, 8, 8),), tmp_path / "m.onnx", dynamo=False, opset_version=17, input_names=["x"],
        output_names=["reps"], dynamic_axes={"x": {0: "b"}}, do_constant_folding=False,
        training=torch.onnx.TrainingMode.PRESERVE,
    )  # fmt: skip
    encoder = same(tmp_path / "m.onnx")
    assert steps(encoder) == ["Conv", "Clip", "Conv", "Clip"]
    assert {name.removeprefix("network.network.") for name, _ in encoder.module.named_parameters()} == {
        name for name, _ in network.named_parameters()
    }
