"""Weights of ONNX files: they are parameters, and come back into a file of the same kind."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from holdfast.runtime.errors import Conflict, Mismatch
from holdfast.sources.encoders import open_encoder, write
from holdfast.sources.encoders.shared.copies import save, trainable

pytestmark = pytest.mark.filterwarnings(  # raised inside exporters and converters
    "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning"
)


def model(path: Path, nodes: list[Any], constants: dict[str, np.ndarray], opset: int = 17) -> str:
    """Write a model from x [b, 3, 4, 4] to y and return its spec."""
    import onnx

    helper, real = onnx.helper, onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", real, ["b", 3, 4, 4])],
        [helper.make_tensor_value_info("y", real, ["b", None])],
        [onnx.numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    onnx.save(proto, path)
    return f"onnx:{path}?mean=0&std=1"


def made_of(kind: str, path: Path) -> str:
    """Return the spec of a small network of one kind."""
    from onnx.helper import make_node

    rng = np.random.default_rng(0)
    real = lambda *shape: rng.standard_normal(shape).astype(np.float32)  # noqa: E731
    flat = make_node("Flatten", ["x"], ["f"])
    if kind == "gemm":  # not transposed, square, and with a factor
        nodes = [flat, make_node("Gemm", ["f", "w", "c"], ["y"], alpha=1.0)]
        return model(path, nodes, {"w": real(48, 48), "c": real(48)})
    if kind == "matmul":
        nodes = [flat, make_node("MatMul", ["f", "w"], ["m"]), make_node("Add", ["m", "c"], ["y"])]
        return model(path, nodes, {"w": real(48, 5), "c": real(5)})
    if kind == "batchnorm":
        norm = make_node("BatchNormalization", ["x", "s", "c", "m", "v"], ["n"])
        ones, zeros = np.ones(3, np.float32), np.zeros(3, np.float32)  # s equals v, c equals m
        return model(path, [norm, make_node("Flatten", ["n"], ["y"])], {"s": ones, "c": zeros, "m": zeros, "v": ones})
    if kind == "shared":  # two nodes read one weight
        nodes = [flat, make_node("MatMul", ["f", "w"], ["m"]), make_node("MatMul", ["m", "w"], ["y"])]
        return model(path, nodes, {"w": real(48, 48)})
    assert kind == "half"  # float16 behind a Cast
    nodes = [make_node("Cast", ["h"], ["w"], to=1), make_node("Conv", ["x", "w"], ["z"])]
    return model(path, [*nodes, make_node("Flatten", ["z"], ["y"])], {"h": real(2, 3, 2, 2).astype(np.float16)})


@pytest.mark.parametrize("kind", ["gemm", "matmul", "batchnorm", "shared", "half"])
def test_every_weight_is_learned_and_written(tmp_path: Path, kind: str) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    spec = made_of(kind, tmp_path / "net.onnx")
    encoder = open_encoder(spec)
    student, x = trainable(encoder), torch.rand(3, 3, 4, 4)
    student.module.eval()
    student(x).square().sum().backward()
    learned = dict(student.module.named_parameters())
    assert learned
    with torch.no_grad():
        for value in learned.values():
            assert value.grad is not None
            assert value.grad.abs().max() > 0
            value += torch.randn_like(value)
    expected = student(x).detach()
    assert (expected - encoder(x)).abs().max() > 0.1
    # as weights
    save(student, tmp_path / "w.safetensors", {})
    assert torch.equal(open_encoder(f"{spec}&weights={tmp_path / 'w.safetensors'}")(x), expected)
    # as a file
    write(spec, student, tmp_path / "again.onnx")
    (theirs,) = onnxruntime.InferenceSession(tmp_path / "again.onnx").run(None, {"x": x.numpy()})
    torch.testing.assert_close(torch.tensor(theirs), expected, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(open_encoder(str(tmp_path / "again.onnx"))(x), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("words", ["size=4&resize=squash", "resize=6&crop=4&interpolation=bicubic"])
def test_preprocessing_is_written(tmp_path: Path, words: str) -> None:
    spec = made_of("half", tmp_path / "net.onnx").replace("mean=0&std=1", f"mean=0.1,0.2,0.3&std=0.5,0.5,0.25&{words}")
    encoder = open_encoder(spec)
    write(spec, encoder, tmp_path / "again.onnx")
    again = open_encoder(str(tmp_path / "again.onnx"))
    assert again.geometry is not None
    assert encoder.geometry is not None
    assert again.geometry.in_words == encoder.geometry.in_words
    assert (again.mean, again.std) == (encoder.mean, encoder.std)


def test_scalars_and_masks_are_no_weights(tmp_path: Path) -> None:
    from onnx.helper import make_node

    nodes = [
        make_node("Flatten", ["x"], ["f"]), make_node("MatMul", ["f", "w"], ["m"]),
        make_node("Mul", ["m", "half"], ["h"]), make_node("Add", ["h", "mask"], ["y"]),
    ]  # fmt: skip
    mask = np.array([0, -1e9], np.float32)
    constants = {"w": np.ones((48, 2), np.float32), "half": np.float32(0.5), "mask": mask}
    encoder = open_encoder(model(tmp_path / "net.onnx", nodes, constants))
    assert [list(value.shape) for value in encoder.module.parameters()] == [[48, 2]]


def test_weights_of_another_network_are_refused(tmp_path: Path) -> None:
    spec = made_of("gemm", tmp_path / "net.onnx")
    other = open_encoder(made_of("matmul", tmp_path / "other.onnx"))
    save(other, tmp_path / "w.safetensors", {})
    with pytest.raises(Mismatch):
        open_encoder(f"{spec}&weights={tmp_path / 'w.safetensors'}")
    with pytest.raises(Conflict, match="weights=random"):
        open_encoder(f"{spec}&weights=random")
