"""In which words a service is asked for the vectors of images, and where they stand in its answer."""

import base64
import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import msgspec
import numpy as np
import PIL.Image

from holdfast.core.outside import BYTES, Wanted, as_tensor, describe
from holdfast.core.source_spec import Options, one_of, take
from holdfast.runtime.errors import Ambiguous, Conflict, Failed, Missing, NotFinite, UnknownName, first_line
from holdfast.sources.encoders.shared.connection import Reply
from holdfast.storage.documents import parse_json

JSON, NPY = "application/json", "application/x-npy"

TYPES = {"float32": "FP32", "float16": "FP16", "float64": "FP64", "uint8": "UINT8"}
"""KServe's words for types that NumPy calls otherwise."""

INDEX, ERROR = "index", "error"
"""Where an entry says which image it is of, and where an answer says why it is none."""

EACH = "*"
"""In a path into an answer: every entry of a list."""


@dataclass(frozen=True)
class Question:
    """How a service is asked.

    Attributes:
        protocol: the shape of questions and answers, see `PROTOCOLS`.
        body: how images are written: npy, json or png.
        vectors: path into the answer to the vectors; "": the whole.
        fields: what else a question says, such as the name of a model.
        input: name of the input tensor, of KServe.
        output: name of the output tensor, of KServe; None: the only one.
    """

    protocol: str
    body: str
    vectors: str
    fields: Mapping[str, str | float | int] = field(default_factory=dict)
    input: str = ""
    output: str | None = None

    def write(self, images: np.ndarray) -> tuple[bytes, str]:
        """Return the question for some images, and its type of content."""
        # The numbers as they are, in a format that every library reads
        if self.body == "npy":
            file = io.BytesIO()
            np.lib.format.write_array(file, np.ascontiguousarray(images), allow_pickle=False)
            return file.getvalue(), NPY
        pictures = [_png(image) for image in images] if self.body == "png" else images
        return msgspec.json.encode({**PROTOCOLS[self.protocol].wrap(pictures, self), **self.fields}), JSON

    def read(self, reply: Reply, count: int) -> np.ndarray:
        """Return the vectors of an answer, [N, D] in float32.

        Raises:
            HoldfastError: anything else.
        """
        # By its first bytes: services call arrays application/octet-stream, or nothing at all
        if reply.body.startswith(b"\x93NUMPY"):
            values: Any = _read_npy(reply.body)
        else:
            try:
                answer = parse_json(reply.body)
            except ValueError as error:
                raise Failed(f"expected JSON, got {reply.kind}, {reply.beginning!r}") from error
            find = PROTOCOLS[self.protocol].find
            values = find(answer, self) if find and not self.vectors else walk(answer, self.vectors or "")
        vectors = as_tensor(values).numpy()
        if vectors.ndim == 1 and count == 1 and len(vectors) > 1:  # the vector of one image may come alone
            vectors = vectors[None]
        if vectors.ndim < 2 or len(vectors) != count or prod(vectors.shape[2:]) != 1 or not vectors.size:
            tokens = "; of tokens the first is ?vectors=*.0" if vectors.ndim == 3 and len(vectors) == count else ""
            raise Failed(f"expected one vector for each of {count} images, got {list(vectors.shape)}{tokens}")
        # Here, not where they are compared: an answer that is none is not kept
        if bad := int((~np.isfinite(vectors.reshape(count, -1)).all(1)).sum()):
            raise NotFinite(f"expected finite numbers, got NaN or infinity for {bad} of {count} images")
        return vectors.reshape(count, -1)


@dataclass(frozen=True)
class Protocol:
    """A shape of questions and answers.

    Attributes:
        bodies: how it writes images, the usual one first.
        wrap: makes a question of images: an array of pixels, or base64 PNGs.
        vectors: path into the answer to the vectors.
        find: finds them, where a path does not.
    """

    bodies: tuple[str, ...]
    wrap: Callable[[Any, Question], Mapping[str, object]]
    vectors: str = ""
    find: Callable[[Any, Question], Any] | None = None


def read_question(options: Options) -> tuple[Question, Wanted | None]:
    """Take from a spec how a service is asked; with pixels as PNG has them, where it takes PNG.

    Raises:
        HoldfastError: a protocol that is none, and what does not go with it.
    """
    name = take(options, "protocol", one_of(*PROTOCOLS), "holdfast")
    protocol = PROTOCOLS[name]
    body = take(options, "body", one_of(*protocol.bodies), protocol.bodies[0])
    path = take(options, "vectors", str, protocol.vectors)
    given, output = take(options, "input", str, ""), take(options, "output", str, None)
    fields = take(options, "fields", _fields, {})
    if name == "kserve" and not given:
        raise Missing(f"{options.spec}: protocol=kserve needs ?input=, the name of the tensor that takes images")
    if name != "kserve" and (given or output):
        raise Conflict(f"{options.spec}: input= and output= are names of protocol=kserve; leave them out")
    # What a PNG cannot hold: other numbers, axes and colours than its own
    if body == "png" and (clash := [key for key in ("dtype", "layout", "channels", "mean", "std") if key in options]):
        raise Conflict(f"{options.spec}: a PNG says itself what it holds; leave out {', '.join(clash)}")
    wanted = Wanted("nhwc", "rgb", "uint8", None, BYTES) if body == "png" else None
    return Question(name, body, path, fields, given, output), wanted


def walk(answer: Any, path: str) -> Any:
    """Return what stands at a path of an answer: names and numbers with "." between them, `EACH` for all of a list.

    Raises:
        HoldfastError: a path that leads nowhere.

    Example:
        >>> walk({"data": [{"index": 1, "embedding": [3]}, {"index": 0, "embedding": [2]}]}, "data.*.embedding")
        [[2], [3]]
    """
    step, _, rest = path.partition(".")
    if not path:
        return answer
    if step == EACH and isinstance(answer, list):
        return [walk(entry, rest) for entry in _in_order(answer)]
    if isinstance(answer, list) and step.isdigit() and int(step) < len(answer):
        return walk(answer[int(step)], rest)
    if isinstance(answer, dict) and step in answer:
        return walk(answer[step], rest)
    # What came instead, and what the service itself says is wrong
    got = f"the keys {', '.join(map(str, list(answer)[:8]))}" if isinstance(answer, dict) else describe(answer)
    words = f" ({_message(answer)!r})" if _message(answer) else ""
    raise Failed(f"expected {step!r} in its answer, got {got}{words}; ?vectors= is the path to the vectors")


def _message(answer: Any) -> str:
    """Return what an answer says is wrong."""
    said = answer.get(ERROR) if isinstance(answer, dict) else None
    return "".join(c for c in json.dumps(said) if c.isprintable())[:100] if said else ""


def _in_order(entries: list[Any]) -> list[Any]:
    """Return entries that say where they belong in that order, others as they are."""
    places = {place: entry for entry in entries if isinstance(place := _index(entry), int)}
    if not places:
        return entries
    # Each of them once: an image that is named twice stands for another one that is missing
    if places.keys() != set(range(len(entries))):
        raise Failed(f"expected each index from 0 to {len(entries) - 1} once in its answer, got {list(places)[:8]}")
    return [places[place] for place in range(len(entries))]


def _index(entry: Any) -> Any:
    return entry.get(INDEX) if isinstance(entry, dict) else None


def _tensor(answer: Any, question: Question) -> Any:
    """Return the output tensor of KServe's answer."""
    outputs = walk(answer, "outputs")
    named = {str(walk(entry, "name")): entry for entry in outputs} if isinstance(outputs, list) else {}
    if question.output is None and len(named) != 1:
        raise Ambiguous(f"it has several outputs, or none; give ?output= one of: {', '.join(named) or 'none'}")
    if (entry := named.get(question.output or next(iter(named)))) is None:
        raise UnknownName(f"expected the output {question.output!r}, got {', '.join(named)}; mend ?output=")
    # Its numbers may come in a row
    shape, data = walk(entry, "shape"), as_tensor(walk(entry, "data")).numpy()
    if (
        not isinstance(shape, list)
        or not all(isinstance(side, int) and side >= 0 for side in shape)
        or prod(shape) != data.size
    ):
        raise Failed(f"expected as many numbers as its shape {shape} says, got {data.size}")
    return data.reshape(shape)


def _ask_tensor(images: Any, question: Question) -> Mapping[str, object]:
    entry = {"name": question.input, "shape": list(images.shape), "datatype": TYPES[images.dtype.name]}
    outputs = [{"name": question.output}] if question.output else []
    asked = {"inputs": [{**entry, "data": images.reshape(-1).tolist()}]}
    return {**asked, "outputs": outputs} if outputs else asked


def _to_list(images: Any) -> Sequence[Any]:
    return images.tolist() if isinstance(images, np.ndarray) else images


def _instances(images: Any, question: Question) -> Mapping[str, object]:
    return {"instances": [{"b64": one} for one in images] if question.body == "png" else images.tolist()}


PROTOCOLS = {
    "holdfast": Protocol(("npy", "json", "png"), lambda images, _: {"images": _to_list(images)}, "vectors"),
    "openai": Protocol(
        ("png",),
        lambda images, _: {"input": [f"data:image/png;base64,{one}" for one in images], "encoding_format": "float"},
        "data.*.embedding",
    ),
    "jina": Protocol(("png",), lambda images, _: {"input": [{"image": one} for one in images]}, "data.*.embedding"),
    "kserve": Protocol(("json",), _ask_tensor, find=_tensor),
    "tensorflow": Protocol(("json", "png"), _instances, "predictions"),
    "huggingface": Protocol(("png",), lambda images, _: {"inputs": images[0] if len(images) == 1 else images}),
}
"""Shapes of questions and answers, by name."""


def _png(image: np.ndarray) -> str:
    """Return pixels [H, W, C] as a PNG in base64."""
    # Hardly compressed: time is dearer here than bytes
    file = io.BytesIO()
    PIL.Image.fromarray(image[..., 0] if image.shape[-1] == 1 else image).save(file, "PNG", compress_level=1)
    return base64.b64encode(file.getvalue()).decode()


def _read_npy(data: bytes) -> np.ndarray:
    """Return a `.npy` array; its size is believed only where as much was sent."""
    file = io.BytesIO(data)
    try:
        # Not by `np.load`, which makes room for whatever a header says
        version = np.lib.format.read_magic(file)
        read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}[version]
        shape, by_column, kind = read(file)
        if kind.hasobject or prod(shape) * kind.itemsize != len(data) - file.tell():
            raise ValueError(f"{list(shape)} of {kind} are not what {len(data):,} bytes hold")
        return np.frombuffer(data, kind, offset=file.tell()).reshape(shape, order="F" if by_column else "C")
    except (ValueError, KeyError, TypeError, SyntaxError) as error:
        raise Failed(f"expected a .npy array, got a damaged one: {first_line(error)}") from error


def _fields(text: str) -> dict[str, str | float | int]:
    """Convert name:value,name:value; for `take`."""
    fields: dict[str, str | float | int] = {}
    for part in text.split(","):
        key, colon, value = part.partition(":")
        if not key or not colon:
            raise ValueError("expected name:value, several with commas between them, such as model:clip,modality:image")
        # Numbers and truth values as such, for services hold them against types
        try:
            fields[key] = json.loads(value) if isinstance(json.loads(value), (int, float)) else value
        except ValueError:
            fields[key] = value
    return fields
