"""Architectures that come with the onnx package, with random weights put in, against ONNX Runtime."""

import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.equal.family import Case, Family
from benchmarks.equal.onnx_files import LIMIT, UNIT, case, normalised, pictures

SHAPE = (3, 224, 224)
GAIN, VARIANCE = 1, 4
"""Which inputs of a BatchNormalization are about 1, and above 0."""


def cases() -> Iterator[Case]:
    """Yield a comparison for each architecture."""
    import onnx
    import onnxruntime

    x = pictures(1, SHAPE)
    for file in sorted((Path(onnx.__file__).parent / "backend/test/data/light").glob("*.onnx")):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / file.name
            onnx.save(filled(onnx.load(file)), path)
            session = onnxruntime.InferenceSession(path)
            (theirs,) = session.run(None, {session.get_inputs()[0].name: normalised(x).numpy()})[:1]
            yield case(file.stem.removeprefix("light_"), path, x, torch.tensor(theirs))


def filled(model: Any) -> Any:
    """Return a model in which weights of a network in training stand for those that it leaves open."""
    from onnx import numpy_helper

    graph, draw = model.graph, np.random.default_rng(0)
    shapes = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    read: dict[str, set[tuple[str, int]]] = defaultdict(set)
    for node in graph.node:
        for place, name in enumerate(node.input):
            read[name].add((node.op_type, place))
    kept = []
    for node in graph.node:
        if node.op_type != "ConstantOfShape":
            kept.append(node)
            continue
        (weight,), shape = node.output, [int(side) for side in shapes[node.input[0]]]
        spread = np.sqrt(2 / np.prod(shape[1:])) if len(shape) > 1 else 0.1
        values = spread * draw.normal(size=shape)
        if ("BatchNormalization", VARIANCE) in read[weight]:
            values = 1 + np.abs(values)
        elif ("BatchNormalization", GAIN) in read[weight]:
            values = 1 + values
        graph.initializer.append(numpy_helper.from_array(values.astype(np.float32), weight))
    used = {name for node in kept for name in node.input}
    graph.ClearField("node")
    graph.node.extend(kept)
    for entries in (graph.initializer, graph.input):
        for place in reversed([place for place, entry in enumerate(entries) if entry.name not in used]):
            del entries[place]
    return model


FAMILY = Family(
    "Architectures of the onnx package",
    "`onnx:` files of nine networks, random weights put in",
    "ONNX Runtime as it optimises",
    UNIT,
    LIMIT,
    ("onnx", "onnxruntime"),
    cases,
)
