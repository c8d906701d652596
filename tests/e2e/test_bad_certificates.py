"""Bad input to certificates by `holdfast verify`: one line, a status of its own, and never an answer."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from test_command_line import status_of

from holdfast.runtime.exit_status import ExitStatus


def network(weights: np.ndarray, operation: str = "Relu", shape: tuple[int | str, ...] = (1, 1, 2, 2)) -> bytes:
    """Return an ONNX file: images flattened, a matrix, an operation."""
    nodes = [
        helper.make_node("Flatten", ["x"], ["flat"]),
        helper.make_node("MatMul", ["flat", "w"], ["h"]),
        helper.make_node(operation, ["h"], ["y"]),
    ]
    inner = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    outer = helper.make_tensor_value_info("y", TensorProto.FLOAT, [shape[0], 2])
    graph = helper.make_graph(nodes, "g", [inner], [outer], [numpy_helper.from_array(weights, "w")])
    model: onnx.ModelProto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    return model.SerializeToString()


EYE = np.eye(4, 2, dtype=np.float32)
GOOD = network(EYE)

NETWORKS: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "not a readable ONNX file"), "text": (b"text", "not a readable ONNX file"),
    "half": (GOOD[: len(GOOD) // 2], "not a readable ONNX file"), "nan": (network(EYE * np.nan), "weights 'w' are NaN"),
    "infinite": (network(np.where(EYE, np.inf, 1).astype(np.float32)), "NaN or infinite in the box"),
    "unknown": (network(EYE, "Nosuch"), "Nosuch"),
    "flat": (network(EYE, shape=(1, 4)), "expected one input"),
    "dynamic": (network(EYE, shape=("b", "c", "h", "w")), "expected one input"),
    "batch": (network(EYE, shape=(2, 1, 2, 2)), "cannot be run"),
}  # fmt: skip


def query(low: str = "0.4", high: str = "0.6", inputs: int = 4, outputs: int = 2, last: str = "(<= Y_0 Y_1)") -> str:
    names = [f"X_{i}" for i in range(inputs)] + [f"Y_{i}" for i in range(outputs)]
    lines = [f"(declare-const {name} Real)" for name in names]
    lines += [f"(assert (>= X_{i} {low}))\n(assert (<= X_{i} {high}))" for i in range(inputs)]
    return "\n".join([*lines, f"(assert {last})" if last else ""])


QUERIES: dict[str, tuple[str, str]] = {
    "empty": ("", "no X_0"), "text": ("text", "expected '('"), "half": (query()[:90], "the end of the file"),
    "nan": (query("nan", "nan"), "got 'nan'"), "infinite": (query("inf", "inf"), "got 'inf'"),
    "inverted": (query("0.7", "0.3"), "got 0.7 and 0.3"), "few": (query(inputs=3), "expected 3 inputs"),
    "many": (query(inputs=9), "expected 9 inputs"), "outputs": (query(outputs=5), "expected 5 outputs"),
    "product": (query(last="(<= (* Y_0 Y_1) 0)"), "product of variables"), "deep": ("(" * 5000, "nested parentheses"),
    "nothing": (query(last=""), "a constraint on the outputs"), "mixed": (query(last="(<= X_0 Y_1)"), "(<= X_0 Y_1)"),
    "enormous": (query("-1e300", "1e300"), "NaN or infinite in the box"),
}  # fmt: skip


def refused(folder: Path, model: bytes, text: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "a.onnx").write_bytes(model)
    (folder / "a.vnnlib").write_text(text)
    files = str(folder / "a.onnx"), str(folder / "a.vnnlib")
    capsys.readouterr()
    assert status_of("verify", *files, "--quiet", "--seconds", "5") == ExitStatus.USAGE
    out, error = capsys.readouterr()
    assert out == ""
    assert len(error.strip().splitlines()) == 1, error
    assert error.startswith("error: ")
    assert words in error


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_that_cannot_be_verified(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, words = NETWORKS[name]
    refused(tmp_path, model, query(), words, capsys)


@pytest.mark.parametrize("name", QUERIES)
def test_queries_that_cannot_be_answered(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text, words = QUERIES[name]
    refused(tmp_path, GOOD, text, words, capsys)
