"""`tflite:` networks as phones get them, run by LiteRT; no gradient."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch

from holdfast.core.encoder import Encoder
from holdfast.core.encoder_source import EncoderSource
from holdfast.core.outside import Call
from holdfast.core.source_spec import Options, positive, take
from holdfast.runtime.doors import regular
from holdfast.runtime.optional import optional
from holdfast.sources.encoders.shared.options import Common
from holdfast.sources.encoders.shared.runtime import (
    BY_FILE,
    WEIGHTS,
    Asked,
    Input,
    Opened,
    assemble_runtime,
    check_file,
    choose_output,
    only_input,
    read_asked,
    refuse,
)

Details = dict[str, Any]
"""What LiteRT says of an input or an output."""


@dataclass(frozen=True)
class Tflite(EncoderSource):
    """Networks as phones get them, run by LiteRT."""

    about = "a .tflite file as LiteRT runs it, int8 builds too, no gradient: tflite:encoder.tflite?mean=0.5&std=0.5"
    extra = "litert"
    suffix = ".tflite"
    differentiable = False

    def check(self, name: str, options: Options) -> None:
        """Look up the file and the options."""
        self._parse_options(name, options)

    def files(self, name: str, options: Options) -> list[Path]:
        """Return the file."""
        return [check_file("LiteRT", name)]

    def open(self, name: str, options: Options) -> Encoder:
        """Open `tflite:file.tflite?mean=0.5&std=0.5`; `output=` names the output that is the representation.

        Mean and std are the options; how pictures become the input is said there or assumed, as for `onnx:`. Whole
        numbers of 8 bits as input get pixels from 0 to 255 as they are, or, where mean and std are given, normalised
        ones by the scale that the file states. Those of an output are turned into what they stand for. Batches are of
        the file's size. `threads=` says how many LiteRT takes.

        Raises:
            HoldfastError: a file that LiteRT does not open, an unknown output, an input that is no batch of images, no
                mean and std.
        """
        asked, common, threads = self._parse_options(name, options)
        package = optional("ai_edge_litert.interpreter", "ai-edge-litert", "litert", options.spec)
        make = partial(package.Interpreter, model_path=regular(name), num_threads=threads or torch.get_num_threads())
        try:
            first = make()
            first.allocate_tensors()
        except Exception as error:  # of its own
            raise refuse(name, "LiteRT", error) from error
        given = only_input([_input(entry) for entry in first.get_input_details()], name)
        outputs = {entry["name"]: entry["index"] for entry in first.get_output_details()}
        output = outputs[choose_output(list(outputs), asked.output, name)]
        origin = {"source": f"tflite:{name}", "weights": name, "runtime": f"LiteRT {version('ai-edge-litert')}"}
        if quantised := _describe_rounding(list(map(_type, first.get_tensor_details()))):
            origin |= {"quantised": quantised}
        opened = Opened(partial(_start, make, output), given, Common(name), origin)
        return assemble_runtime(name, [Path(name)], opened, asked, common)

    def _parse_options(self, name: str, options: Options) -> tuple[Asked, Common, int | None]:
        threads = take(options, "threads", positive, None)
        asked, common = read_asked(options)
        check_file("LiteRT", name)
        return asked, common, threads


def _describe_rounding(kinds: Sequence[str]) -> str:
    """Return in words how a file with tensors of these types is quantised; "" where it is not."""
    whole, real = (sum(kind in names for kind in kinds) for names in (("int8", "uint8"), ("float32", "float16")))
    if not whole:
        return "weights are of float16" if "float16" in kinds else ""
    # Where activations are real, those of the weights alone are whole
    return BY_FILE if whole > real else f"{WEIGHTS}, and activations by scales of each batch"


def _type(details: Details) -> str:
    return np.dtype(details["dtype"]).name


def _input(details: Details) -> Input:
    sizes = tuple(max(int(size), 0) for size in details["shape_signature"])
    # An open number of images would be of the size that the file was written with
    sizes = (int(details["shape"][0]), *sizes[1:])
    return Input(details["name"], sizes, _type(details), _quantisation(details))


def _quantisation(details: Details) -> tuple[float, int] | None:
    scale, zero = details["quantization"]
    return (float(scale), int(zero)) if scale else None


def _start(make: Any, output: int) -> Call:
    interpreter = make()
    interpreter.allocate_tensors()
    (given,) = interpreter.get_input_details()
    (got,) = (entry for entry in interpreter.get_output_details() if entry["index"] == output)
    # Whole numbers of an output stand for scale · (q - zero)
    scale, zero = _quantisation(got) or (1.0, 0)

    def call(x: np.ndarray) -> np.ndarray:
        interpreter.set_tensor(given["index"], x)
        interpreter.invoke()
        # A copy: its own memory is written again by the next call
        values = np.array(interpreter.get_tensor(output))
        return values if values.dtype.kind == "f" else scale * (values.astype(np.float32) - zero)

    return call
