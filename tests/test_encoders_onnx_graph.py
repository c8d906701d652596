"""Any tensor of an ONNX file as the representation, and the linear head at its end."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor

from holdfast.parts.probes.trained import Trained
from holdfast.runtime.errors import BadData, Conflict, Mismatch, NotFinite, UnknownName, Unsupported
from holdfast.sources.encoders import open_encoder, write

make = helper.make_node
DRAW = np.random.default_rng(0)
KERNEL = DRAW.normal(size=(6, 3, 3, 3)).astype(np.float32)
MATRIX = DRAW.normal(size=(4, 6)).astype(np.float32)
BIAS = DRAW.normal(size=4).astype(np.float32)

TRUNK = [
    make("Conv", ["x", "kernel"], ["wide"]), make("Relu", ["wide"], ["rectified"]),
    make("GlobalAveragePool", ["rectified"], ["pooled"]), make("Flatten", ["pooled"], ["features"]),
]  # fmt: skip
HEADS: dict[str, tuple[list[Any], dict[str, np.ndarray]]] = {
    "gemm": (
        [make("Gemm", ["features", "m", "b"], ["logits"], transB=1, alpha=0.5, beta=2.0)],
        {"m": 2 * MATRIX, "b": BIAS / 2},
    ),
    "gemm without bias, then add": (
        [make("Gemm", ["features", "m"], ["product"]), make("Add", ["b", "product"], ["logits"])],
        {"m": MATRIX.T, "b": BIAS},
    ),
    "matmul, add, softmax": (
        [make("MatMul", ["features", "m"], ["product"]), make("Add", ["product", "b"], ["sum"]),
         make("Softmax", ["sum"], ["logits"])],
        {"m": MATRIX.T, "b": BIAS},
    ),
    "a matrix in float16 behind cast": (
        [make("Cast", ["half"], ["m"], to=TensorProto.FLOAT),
         make("Gemm", ["features", "m", "b"], ["logits"], transB=1)],
        {"half": MATRIX.astype(np.float16), "b": BIAS},
    ),
}  # fmt: skip


def saved(path: Path, nodes: Sequence[Any], weights: dict[str, np.ndarray], output: str = "logits") -> Path:
    import onnx

    image = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["b", 3, 8, 8])
    result = helper.make_tensor_value_info(output, TensorProto.FLOAT, ["b", None])
    stored = [numpy_helper.from_array(np.ascontiguousarray(value), name) for name, value in weights.items()]
    graph = helper.make_graph(nodes, "tiny", [image], [result], initializer=stored)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def classifier(folder: Path, kind: str = "gemm") -> Path:
    nodes, weights = HEADS[kind]
    return saved(folder / "m.onnx", [*TRUNK, *nodes], {"kernel": KERNEL, **weights})


def images() -> Tensor:
    return torch.rand(5, 3, 8, 8, generator=torch.Generator().manual_seed(0))


def by_hand(x: Tensor) -> Tensor:
    return torch.nn.functional.conv2d(x, torch.tensor(KERNEL)).relu().mean((2, 3))


def test_any_tensor_is_a_representation(tmp_path: Path) -> None:
    path = classifier(tmp_path)
    logits, features = open_encoder(f"{path}?mean=0&std=1"), open_encoder(f"{path}?mean=0&std=1&output=features")
    torch.testing.assert_close(features(images()), by_hand(images()))
    torch.testing.assert_close(logits(images()), by_hand(images()) @ torch.tensor(MATRIX).T + torch.tensor(BIAS))
    assert (logits.origin["layer"], features.origin["layer"]) == ("tensor logits", "tensor features")
    assert logits.fingerprint != features.fingerprint
    assert sum(p.numel() for p in features.parameters()) == KERNEL.size  # what comes after is not there
    assert open_encoder(f"{path}?mean=0&std=1&output=wide&pool=avg")(images()).shape == (5, 6)


def test_old_files_that_list_weights_among_inputs(tmp_path: Path) -> None:
    import onnx

    path = classifier(tmp_path)
    model = onnx.load(path)
    model.ir_version = 3
    for tensor in model.graph.initializer:
        model.graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
    onnx.save(model, path)
    torch.testing.assert_close(open_encoder(f"{path}?mean=0&std=1&output=features")(images()), by_hand(images()))


def test_names_that_no_tensor_has(tmp_path: Path) -> None:
    path = classifier(tmp_path)
    for name in ("feature", "x", "kernel"):
        with pytest.raises(UnknownName, match=f"'{name}'"):
            open_encoder(f"{path}?mean=0&std=1&output={name}")
    with pytest.raises(UnknownName, match=r"'features'\?"):
        open_encoder(f"{path}?mean=0&std=1&output=feature")
    with pytest.raises(Unsupported, match="pool=avg"):
        open_encoder(f"{path}?mean=0&std=1&output=rectified")


@pytest.mark.parametrize("kind", HEADS)
def test_the_head_of_a_file(kind: str, tmp_path: Path) -> None:
    path = classifier(tmp_path, kind)
    reps = open_encoder(f"{path}?mean=0&std=1&output=features")(images())
    head = Trained(str(path)).fit(reps, torch.zeros(len(reps), dtype=torch.int64))
    torch.testing.assert_close(head.scores(reps), reps @ torch.tensor(MATRIX).T + torch.tensor(BIAS), atol=5e-3, rtol=0)
    assert head.classes.tolist() == [0, 1, 2, 3]


def test_files_that_end_otherwise(tmp_path: Path) -> None:
    reps, label = torch.zeros(1, 6), torch.tensor([0])
    trunk = saved(tmp_path / "trunk.onnx", TRUNK, {"kernel": KERNEL}, "features")
    with pytest.raises(Unsupported, match="Flatten"):
        Trained(str(trunk)).fit(reps, label)
    turned = make("Transpose", ["features"], ["turned"], perm=[1, 0])
    computed = [*TRUNK, turned, make("MatMul", ["features", "turned"], ["logits"])]
    with pytest.raises(Unsupported, match="MatMul"):
        Trained(str(saved(tmp_path / "product.onnx", computed, {"kernel": KERNEL}))).fit(reps, label)
    with pytest.raises(Mismatch, match="output=features"):
        Trained(str(classifier(tmp_path))).fit(torch.zeros(1, 4), label)
    with pytest.raises(Conflict, match="layer"):
        Trained(str(classifier(tmp_path)), "fc").fit(reps, label)
    with pytest.raises(BadData):
        Trained(str(tmp_path / "absent.onnx")).fit(reps, label)
    nodes, weights = HEADS["gemm"]
    broken = {"kernel": KERNEL, **weights, "b": np.full(4, np.nan, np.float32)}
    with pytest.raises(NotFinite, match="'b'"):
        Trained(str(saved(tmp_path / "nan.onnx", [*TRUNK, *nodes], broken))).fit(reps, label)


def test_labels_that_the_head_does_not_know(tmp_path: Path) -> None:
    head = Trained(str(classifier(tmp_path))).fit(torch.zeros(1, 6), torch.tensor([0]))
    with pytest.raises(Mismatch, match=r"\[7\]"):
        head.ranks(torch.zeros(1, 6), torch.tensor([7]))


def test_what_is_written_ends_at_the_representation(tmp_path: Path) -> None:
    import onnx

    spec = f"onnx:{classifier(tmp_path)}?mean=0&std=1&output=features"
    encoder = open_encoder(spec)
    with torch.no_grad():
        for weight in encoder.parameters():
            weight.mul_(2)
    write(spec, encoder, tmp_path / "again.onnx")
    torch.testing.assert_close(open_encoder(str(tmp_path / "again.onnx"))(images()), 2 * by_hand(images()))
    assert [value.name for value in onnx.load(tmp_path / "again.onnx").graph.output] == ["features"]
