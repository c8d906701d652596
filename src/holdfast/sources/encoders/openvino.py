"""`openvino:` networks as OpenVINO runs them: its own .xml files, ONNX and LiteRT ones; no gradient."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from holdfast.core.encoder import Encoder
from holdfast.core.encoder_source import EncoderSource
from holdfast.core.outside import Call
from holdfast.core.source_spec import Options, one_of, take
from holdfast.runtime.doors import regular
from holdfast.runtime.optional import optional
from holdfast.sources.encoders.shared.options import Common
from holdfast.sources.encoders.shared.runtime import (
    BY_FILE,
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

PRECISIONS = {"default": None, "f32": "f32", "bf16": "bf16", "f16": "f16"}
"""What it may compute in; by default what it thinks is fastest on the device, which may be bfloat16."""


@dataclass(frozen=True)
class Openvino(EncoderSource):
    """Networks as OpenVINO runs them: its own .xml files, ONNX and LiteRT ones."""

    about = "a file as OpenVINO runs it (.xml, .onnx, .tflite), no gradient: openvino:encoder.xml?mean=0&std=1"
    extra = "openvino"
    suffix = ".xml"
    differentiable = False

    def check(self, name: str, options: Options) -> None:
        """Look up the file and the options."""
        self._parse_options(name, options)

    def files(self, name: str, options: Options) -> list[Path]:
        """Return the file, and the one of weights beside it."""
        return _files(check_file("OpenVINO", name))

    def open(self, name: str, options: Options) -> Encoder:
        """Open `openvino:file.xml?mean=0.5&std=0.5`; `output=` names the output that is the representation.

        Mean and std are the options; how pictures become the input is said there or assumed, as for `onnx:`. `device=`
        is one of those that OpenVINO finds, `precision=default|f32|bf16|f16` what it computes in.

        Raises:
            HoldfastError: a file that OpenVINO does not open, an unknown device or output, an input that is no batch of
                images, no mean and std.
        """
        asked, common, device, precision = self._parse_options(name, options)
        package = optional("openvino", "openvino", "openvino", options.spec)
        # One core for all sessions of this file: it caches what it compiles
        core = package.Core()
        hint = PRECISIONS[precision]
        settings = {} if hint is None else {"INFERENCE_PRECISION_HINT": hint}
        try:
            model = core.read_model(regular(name))
            compiled = core.compile_model(model, device, settings)
        except Exception as error:  # of its own
            raise refuse(name, "OpenVINO", error) from error
        given = only_input([_input(port) for port in compiled.inputs], name)
        outputs = [_name(port, f"output {number}") for number, port in enumerate(compiled.outputs)]
        place = outputs.index(choose_output(outputs, asked.output, name))
        origin = {
            "source": f"openvino:{name}",
            "weights": name,
            "runtime": f"OpenVINO {package.__version__}, {device}, precision {precision}",
        }
        computes = str(compiled.get_property("INFERENCE_PRECISION_HINT").to_string())
        if quantised := _describe_rounding({op.get_type_name() for op in model.get_ops()}, computes):
            origin |= {"quantised": quantised}
        start = partial(_start, core, model, device, settings, place)
        return assemble_runtime(name, _files(Path(name)), Opened(start, given, Common(name), origin), asked, common)

    def _parse_options(self, name: str, options: Options) -> tuple[Asked, Common, str, str]:
        device = take(options, "device", str, "CPU")
        precision = take(options, "precision", one_of(*PRECISIONS), "default")
        asked, common = read_asked(options)
        check_file("OpenVINO", name)
        return asked, common, device, precision


def _describe_rounding(operators: set[str], computes: str) -> str:
    """Return in words in which numbers a model computes; "" where they are of float32."""
    if "FakeQuantize" in operators:
        return BY_FILE
    return "" if computes == "f32" else f"numbers are of {computes}"


def _start(core: Any, model: Any, device: str, settings: Any, place: int) -> Call:
    compiled = core.compile_model(model, device, settings)

    def call(x: np.ndarray) -> np.ndarray:
        return np.array(compiled(x)[compiled.outputs[place]])  # a copy: its memory is its own

    return call


def _name(port: Any, otherwise: str) -> str:
    # A port may have several names, or none
    return next(iter(sorted(port.get_names())), otherwise)


def _input(port: Any) -> Input:
    sizes = tuple(size.get_length() if size.is_static else 0 for size in port.get_partial_shape())
    return Input(_name(port, "input"), sizes, np.dtype(port.get_element_type().to_dtype()).name)


def _files(path: Path) -> list[Path]:
    """Return a file, and its weights, as OpenVINO names them."""
    weights = path.with_suffix(".bin")
    return [path, weights] if path.suffix == ".xml" and weights.is_file() else [path]
