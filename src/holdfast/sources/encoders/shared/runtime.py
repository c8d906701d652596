"""What sources of encoders outside torch have in common: how they want their images, and what becomes of it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import torch

from holdfast.core.encoder import Encoder
from holdfast.core.geometry import BY_CALLER
from holdfast.core.outside import BYTES, Call, Outside, Wanted
from holdfast.core.source_spec import Options, one_of, positive, take
from holdfast.runtime.doors import digest_file
from holdfast.runtime.errors import (
    Ambiguous,
    BadData,
    Conflict,
    Missing,
    Unsupported,
    first_line,
    unknown,
)
from holdfast.runtime.guess import path_meant
from holdfast.sources.encoders.shared.assemble import Preprocessing, assemble
from holdfast.sources.encoders.shared.options import Common, read
from holdfast.sources.encoders.shared.pictures import PICTURES
from holdfast.sources.onnx.file import LAYOUTS, shape_of
from holdfast.sources.onnx.metadata import make_preprocessing

TAKES = ("mean", "std", *PICTURES)
"""Common options that make sense of something that only maps images to vectors."""

REAL, WHOLE = ("float16", "float32", "float64"), ("uint8", "int8")
"""Types that images may have: real numbers, and those of 8 bits."""

AS_GIVEN = "pixels in [0, 1], as the function is given them"
BYTES_GIVEN = "pixels from 0 to 255, as the function is given them"

COLOURS = {"bgr": "blue, green, red"}

BY_IMAGE, BY_FILE, WEIGHTS = (
    "activations are rounded to 8 bits by scales of each batch (dynamic int8)",
    "activations are rounded to 8 bits as the file says (static int8)",
    "weights are rounded to 8 bits",
)
"""What the record says of builds that are quantised, in `quantised`."""


@dataclass(frozen=True)
class Asked:
    """What a spec asks for beside the common options.

    Attributes:
        layout: order of the axes of images; None: by their sizes.
        channels: order of the colours that it takes.
        output: name of the output that is the representation; None: the one output.
    """

    layout: str | None
    channels: Literal["rgb", "bgr"]
    output: str | None


@dataclass(frozen=True)
class Input:
    """What a runtime says of the input of a file.

    Attributes:
        name: of the input.
        sizes: of its axes, 0 for one that is open.
        dtype: of its numbers, as NumPy calls it.
        quantisation: (scale, zero) of whole numbers; None: none is stated.
    """

    name: str
    sizes: tuple[int, ...]
    dtype: str
    quantisation: tuple[float, int] | None = None


@dataclass(frozen=True)
class Opened:
    """A file that a runtime has opened.

    Attributes:
        start: starts it anew.
        input: what it takes.
        said: what its metadata say of preprocessing.
        origin: facts for the record.
    """

    start: Callable[[], Call]
    input: Input
    said: Common
    origin: Mapping[str, object]


def read_asked(options: Options) -> tuple[Asked, Common]:
    """Take the options of a file in a runtime; the source has taken its own before."""
    asked = Asked(
        take(options, "layout", lambda word: one_of(*LAYOUTS)(word.lower()), None),
        cast(Any, take(options, "channels", lambda word: one_of("rgb", "bgr")(word.lower()), "rgb")),
        take(options, "output", str, None),
    )
    return asked, read(options, takes=TAKES)


def read_wanted(options: Options) -> tuple[Wanted, Common]:
    """Take the options of code that says nothing of itself; the source has taken its own before.

    Raises:
        HoldfastError: pixels as bytes that are to be normalised, and what `read` raises.
    """
    layout = cast(Any, take(options, "layout", lambda word: one_of(*LAYOUTS)(word.lower()), "nchw"))
    channels = cast(Any, take(options, "channels", lambda word: one_of("rgb", "bgr")(word.lower()), "rgb"))
    dtype = take(options, "dtype", one_of(*REAL, "uint8"), "float32")
    batch = take(options, "batch", positive, None)
    common = read(options, takes=TAKES)
    if dtype == "uint8" and common.mean is not None:
        raise Conflict(f"{options.spec}: dtype=uint8 is pixels from 0 to 255 as they are; leave out mean, std")
    return Wanted(layout, channels, dtype, batch, BYTES if dtype == "uint8" else None), common


def assemble_given(network: Outside, common: Common, origin: Mapping[str, object], spec: str, what: str) -> Encoder:
    """Return the encoder of code that says nothing of itself; nothing is done to pixels unless the spec says so.

    Args:
        network: the code.
        common: options of the spec.
        origin: facts for the record.
        spec: for errors.
        what: the code, in words.

    Raises:
        HoldfastError: words about pictures that are not all of them.
    """
    # The code is the whole pipeline
    mean, std = common.mean or (0.0,), common.std or (1.0,)
    source = BY_CALLER if common.mean else BYTES_GIVEN if network.wanted.quantisation else AS_GIVEN
    if not common.pictures.given:
        return Encoder(network, mean=mean, std=std, name=common.name, origin={**origin, "normalisation": source})
    if common.size is None or common.pictures.resize is None:
        raise Missing(
            f"{spec}: {what} says nothing of pictures; give all of it, as in resize=256&crop=224 or "
            "resize=squash&size=224"
        )
    # Grey ones are for networks that take one channel, which the code is asked once
    channels = len(mean) if len(mean) > 1 else _channels(network, common.size)
    return assemble(network, common, Preprocessing(mean, std, source, (channels, *common.size), None), origin)


def _channels(network: Outside, size: tuple[int, int]) -> Literal[1, 3]:
    """Return 3 where a function takes colours, else 1."""
    try:
        network(torch.full((1, 3, *size), 0.5))
    except Exception:  # whatever it raises; `assemble` says what it raises on grey pictures too
        return 1
    return 3


def check_file(kind: str, name: str) -> Path:
    """Return the path of a file that is there.

    Raises:
        HoldfastError: none.
    """
    if not Path(name).is_file():
        raise Missing(f"{kind} file {name!r} does not exist; {path_meant(name)}")
    return Path(name)


def choose_output(outputs: Sequence[str], wanted: str | None, name: str) -> str:
    """Return the name of the output that is the representation: the one asked for, or the one output.

    Raises:
        HoldfastError: several outputs to choose from, or a name that none has.
    """
    if wanted is None and len(outputs) != 1:
        raise Ambiguous(f"{name!r} has several outputs; give ?output= one of: {', '.join(outputs)}")
    if wanted is not None and wanted not in outputs:
        raise unknown(f"output of {name}", wanted, outputs)
    return wanted or outputs[0]


def only_input(inputs: Sequence[Input], name: str) -> Input:
    """Return the one input of a file.

    Raises:
        HoldfastError: none, or several.
    """
    if len(inputs) != 1:
        got = ", ".join(f"{entry.name} {list(entry.sizes)}" for entry in inputs) or "none"
        raise Unsupported(f"{name!r}: expected one input [batch, channel, height, width], got {got}")
    return inputs[0]


def assemble_runtime(name: str, files: Sequence[Path], opened: Opened, asked: Asked, common: Common) -> Encoder:
    """Return the encoder of a file that a runtime has opened.

    Args:
        name: of the file, for errors.
        files: all that decide what it computes.
        opened: what the runtime says of it.
        asked: options of the spec.
        common: the same.

    Raises:
        HoldfastError: an input that is no batch of images, no mean and std from anywhere, vectors that are none.
    """
    # What it takes: a type, sizes, an order of the axes
    given, said = opened.input, opened.said
    if given.dtype not in (*REAL, *WHOLE):
        raise Unsupported(
            f"{name!r}: expected an input of real numbers, or of 8 bits, got {given.name} of {given.dtype}; export it "
            "with one of these"
        )
    batch, shape, layout = shape_of(given.name, given.sizes, name, common.size or said.pictures.size, asked.layout)
    preprocessing, quantisation = _pixels(make_preprocessing(said, shape, name), given, common, name)
    wanted = Wanted(cast(Any, layout), asked.channels, given.dtype, batch or None, quantisation)
    # Its content, and whatever else decides what it computes
    facts = [digest_file(path) for path in files], sorted(opened.origin.items()), asked.output
    network = Outside(opened.start, wanted, repr(facts).encode())
    return assemble(network, common, preprocessing, {**opened.origin, **describe_wanted(wanted)}, root=network)


def describe_wanted(wanted: Wanted) -> dict[str, object]:
    """Return what the record says of how something outside torch wants its images, where that is not usual."""
    origin: dict[str, object] = {"gradient": "none: it runs outside torch"}
    if wanted.layout == "nhwc":
        origin["layout"] = "NHWC: channels last"
    if wanted.channels in COLOURS:
        origin["channels"] = COLOURS[wanted.channels]
    if wanted.dtype != "float32":
        origin["pixels"] = f"as {wanted.dtype}"
    if wanted.batch is not None:
        origin["batch"] = wanted.batch
    return origin


def _pixels(
    preprocessing: Preprocessing, given: Input, common: Common, name: str
) -> tuple[Preprocessing, tuple[float, int] | None]:
    """Return the preprocessing of a file, and which numbers stand for normalised pixels."""
    if given.dtype in REAL:
        return preprocessing, None
    # Where nobody says more: pixels of 8 bits, which int8 has from -128 on
    if common.mean is None and preprocessing.mean is None:
        source = f"its input is {given.dtype}: pixels from 0 to 255"
        scale, zero = BYTES
        shifted = zero + np.iinfo(given.dtype).min
        return replace(preprocessing, mean=0.0, std=1.0, source=source), (scale, int(shifted))
    if given.quantisation is None:
        raise Conflict(
            f"{name!r} takes {given.dtype}, pixels from 0 to 255 as they are, and states no scale of normalised ones; "
            "leave mean and std out"
        )
    return preprocessing, given.quantisation


def refuse(name: str, kind: str, error: Exception) -> BadData:
    """Return the error for a file that its runtime does not open."""
    return BadData(f"{name!r} is no {kind} file that its runtime opens: {first_line(error)}")
