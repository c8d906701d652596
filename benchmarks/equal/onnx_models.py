"""Models that come with the onnx package, one or a few operators each, against the numbers that come with them."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.equal.family import Case, Family
from holdfast.sources.onnx.compare import distance
from holdfast.sources.onnx.file import package
from holdfast.sources.onnx.graph import as_tensor, inline_functions, read_graph
from holdfast.sources.onnx.operator import OPERATORS, NotRead
from holdfast.sources.onnx.specialise import evaluate_constants

ROUNDING, ROUNDING_OF_BFLOAT16 = 1e-3, 2.0**-6
"""Difference, as a share of the largest number, that onnx's own tests allow; and two units of bfloat16."""

Data = tuple[Any, Sequence[Any], Sequence[Any]]
"""A model, its inputs, and its outputs."""


def cases() -> Iterator[Case]:
    """Yield a comparison for each set of data of each model: of the tests of operators, and of converted networks."""
    for name, data in (*_of_operators(), *_in_files()):
        yield _case(f"{_of(data[0])}: {name}", *data)


def _of_operators() -> Iterator[tuple[str, Data]]:
    from onnx.backend.test.case.node import collect_testcases

    for test in collect_testcases(None):
        for inputs, outputs in test.data_sets or ():
            yield test.name.removeprefix("test_"), (test.model, inputs, outputs)


def _in_files() -> Iterator[tuple[str, Data]]:
    import onnx

    for file in sorted((Path(onnx.__file__).parent / "backend/test/data").glob("*/*/model.onnx")):
        for folder in sorted(file.parent.glob("test_data_set_*")):
            inputs, outputs = (_read(folder, kind) for kind in ("input", "output"))
            if outputs:
                yield file.parent.name.removeprefix("test_"), (onnx.load(file), inputs, outputs)


def _of(model: Any) -> str:
    """Return the one operator of a model."""
    (op, *others) = {node.op_type for node in model.graph.node if node.op_type != "Constant"} or {"Constant"}
    return "several operators" if others else op


def _read(folder: Path, kind: str) -> list[Any]:
    """Return the tensors of a set of data; None for what is no tensor."""
    import onnx

    found = []
    for place in range(len(list(folder.glob(f"{kind}_*.pb")))):
        try:
            found.append(onnx.numpy_helper.to_array(onnx.load_tensor(str(folder / f"{kind}_{place}.pb"))))
        except Exception:  # a sequence, a map
            found.append(None)
    return found


def _case(name: str, model: Any, inputs: Sequence[Any], outputs: Sequence[Any]) -> Case:
    """Return how far operators are from the outputs where the inputs are constants."""
    try:
        given, theirs = _arrays(inputs), _arrays(outputs)
    except TypeError:
        return Case(name, None, "its data are no tensors of torch")
    try:
        ours = _computed(model, given)
    except NotRead as error:
        return Case(name, None, str(error))
    allowed = ROUNDING_OF_BFLOAT16 if "bf16" in name or "BFLOAT16" in name else ROUNDING
    apart = _apart(ours, theirs)
    apart = apart if apart <= allowed else _apart(ours, _by_runtime(model, given) or theirs)
    return Case(name, apart / allowed)


def _computed(model: Any, inputs: Sequence[Any]) -> list[Any]:
    """Return the outputs that Holdfast's operators work out.

    Raises:
        NotRead: an operator, or a kind of one, that is refused.
    """
    onnx = package("reading ONNX files")
    known = onnx.ModelProto()
    known.CopyFrom(model)
    for value, array in zip(model.graph.input, inputs, strict=False):
        if array is not None:
            known.graph.initializer.append(onnx.numpy_helper.from_array(array, value.name))
    known.graph.ClearField("input")
    graph = read_graph(inline_functions(known, onnx), onnx)
    values = evaluate_constants(graph)
    if not values.keys() >= set(graph.outputs):
        lacking = any((node.domain, node.op) not in OPERATORS and node.op != "If" for node in graph.nodes)
        raise NotRead("an operator that is not read" if lacking else "a kind of an operator that is not read")
    return [values[output] for output in graph.outputs]


def _by_runtime(model: Any, inputs: Sequence[Any]) -> Sequence[Any] | None:
    """Return what ONNX Runtime gives, with which some data of the package disagree; None where it cannot."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options)
        return session.run(None, dict(zip((value.name for value in session.get_inputs()), inputs, strict=True)))
    except Exception:  # it has no kernel for this
        return None


def _apart(ours: Sequence[Any], theirs: Sequence[Any]) -> float:
    """Return the largest difference; infinite where something else than tensors of these shapes came."""
    apart = 0.0
    for one, array in zip(ours, theirs, strict=True):
        if not isinstance(one, torch.Tensor) or tuple(one.shape) != array.shape:
            return float("inf")
        apart = max(apart, distance(one, as_tensor(array)))
    return apart


def _arrays(values: Sequence[Any]) -> list[Any]:
    """Return tensors as arrays, None as it is.

    Raises:
        TypeError: something else.
    """
    import onnx

    found = []
    for value in values:
        array = onnx.numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value
        if not (array is None or (isinstance(array, (np.ndarray, np.generic)) and array.dtype.kind in "fiubV")):
            raise TypeError
        found.append(None if array is None else np.array(array, order="C"))
    return found


FAMILY = Family(
    "Models of the onnx package",
    "the operators that `onnx:` reads",
    "the numbers that come with each: tests of all operators, and networks; or with ONNX Runtime's where it disagrees",
    f"of the rounding that is allowed, {ROUNDING} of the largest number, {ROUNDING_OF_BFLOAT16:.2g} in bfloat16",
    1.0,
    ("onnx", "onnxruntime"),
    cases,
)
