"""`ort:` any graph that ONNX Runtime runs, as it is deployed: int8, fused, on any of its providers; no gradient."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from holdfast.core.encoder import Encoder
from holdfast.core.encoder_source import EncoderSource
from holdfast.core.outside import Call
from holdfast.core.source_spec import Options, one_of, positive, take
from holdfast.runtime.doors import regular
from holdfast.runtime.errors import UnknownName
from holdfast.runtime.optional import optional
from holdfast.sources.encoders.shared.options import Common
from holdfast.sources.encoders.shared.runtime import (
    BY_FILE,
    BY_IMAGE,
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
from holdfast.sources.onnx.metadata import metadata

TYPES = {"float": "float32", "double": "float64"}
"""ONNX Runtime's words for types that NumPy calls otherwise."""

PLACE = "location"
"""Key of what says in which file a tensor lies."""

OPTIMISATIONS = {"all": "ENABLE_ALL", "extended": "ENABLE_EXTENDED", "basic": "ENABLE_BASIC", "off": "DISABLE_ALL"}
"""What it may do to a graph before it runs it; fused and reordered operators round otherwise."""


@dataclass(frozen=True)
class Ort(EncoderSource):
    """Any graph that ONNX Runtime runs, as it is deployed: int8, fused, on any of its providers."""

    about = "an ONNX file as ONNX Runtime runs it, int8 builds too, no gradient: ort:encoder.onnx?mean=0&std=1"
    extra = "onnx"
    differentiable = False

    def check(self, name: str, options: Options) -> None:
        """Look up the file and the options."""
        self._parse_options(name, options)

    def files(self, name: str, options: Options) -> list[Path]:
        """Return the file, and those of weights beside it."""
        return _read(check_file("ONNX", name))[0]

    def open(self, name: str, options: Options) -> Encoder:
        """Open `ort:file.onnx?mean=0.5&std=0.25`; `output=` names the output that is the representation.

        Mean, std and how pictures become the input: the options, or metadata of the file by the same names, as for
        `onnx:`. `layout=` and `channels=bgr` as there. An input of uint8 gets pixels from 0 to 255. `provider=CUDA` is
        one of those that ONNX Runtime has, `optimisation=all|extended|basic|off` what it may do to the graph,
        `threads=` how many it takes.

        Raises:
            HoldfastError: a file that ONNX Runtime does not open, an unknown provider or output, an input that is no
                batch of images, no mean and std.
        """
        asked, common, provider, optimisation, threads = self._parse_options(name, options)
        runtime = optional("onnxruntime", "onnxruntime", "onnx", options.spec)
        providers = {word.removesuffix("ExecutionProvider").lower(): word for word in runtime.get_available_providers()}
        if provider.lower() not in providers:
            raise UnknownName(
                f"{options.spec}: expected a provider that this ONNX Runtime has, got {provider!r}; known: "
                f"{', '.join(word.removesuffix('ExecutionProvider') for word in providers.values())}"
            )
        # Threads as many as torch has, so that audits in several processes do not crowd each other
        settings = runtime.SessionOptions()
        settings.graph_optimization_level = getattr(
            runtime.GraphOptimizationLevel, f"ORT_{OPTIMISATIONS[optimisation]}"
        )
        settings.intra_op_num_threads = threads or torch.get_num_threads()
        settings.log_severity_level = 4  # what it prints is none of ours
        session = partial(runtime.InferenceSession, regular(name), settings, [providers[provider.lower()]])
        try:
            first = session()
        except Exception as error:  # of its own
            raise refuse(name, "ONNX", error) from error
        given = only_input([Input(i.name, _sizes(i.shape), _type(i.type)) for i in first.get_inputs()], name)
        output = choose_output([value.name for value in first.get_outputs()], asked.output, name)
        # Metadata as `onnx:` reads them
        entries = first.get_modelmeta().custom_metadata_map
        said = metadata([SimpleNamespace(key=key, value=value) for key, value in entries.items()], name)
        files, quantised = _read(Path(name))
        origin = {
            "source": f"ort:{name}",
            "weights": name,
            "runtime": f"ONNX Runtime {runtime.__version__}, {provider}, optimisation {optimisation}",
        } | ({"quantised": quantised} if quantised else {})
        opened = Opened(partial(_start, session, given.name, output), given, said, origin)
        return assemble_runtime(name, files, opened, asked, common)

    def _parse_options(self, name: str, options: Options) -> tuple[Asked, Common, str, str, int | None]:
        provider = take(options, "provider", str, "CPU")
        optimisation = take(options, "optimisation", one_of(*OPTIMISATIONS), "all")
        threads = take(options, "threads", positive, None)
        asked, common = read_asked(options)
        check_file("ONNX", name)
        return asked, common, provider, optimisation, threads


def _start(session: Any, given: str, output: str) -> Call:
    running = session()

    def call(x: np.ndarray) -> Any:
        return running.run([output], {given: x})[0]

    return call


def _sizes(shape: list[Any]) -> tuple[int, ...]:
    # Open axes are names, or None
    return tuple(size if isinstance(size, int) else 0 for size in shape)


def _type(kind: str) -> str:
    word = kind.removeprefix("tensor(").removesuffix(")")
    return TYPES.get(word, word)


def _read(path: Path) -> tuple[list[Path], str]:
    """Return a file with those of weights beside it that it names, and how it is quantised; "" where it is not."""
    onnx = optional("onnx", "onnx", "onnx", f"ort:{path}")
    try:
        model = onnx.load(regular(str(path)), load_external_data=False)
    except Exception:  # a format of ONNX Runtime's own, which holds its weights, or no network: it says so itself
        return [path], ""
    beside = {entry.value for tensor in _tensors(model.graph) for entry in tensor.external_data if entry.key == PLACE}
    files = [path, *sorted(path.parent / name for name in beside)]
    return files, _describe_rounding({node.op_type for node in model.graph.node})


def _describe_rounding(operators: set[str]) -> str:
    """Return in words how a graph of these operators is quantised; "" where it is not."""
    if operators & {"DynamicQuantizeLinear", "MatMulInteger", "ConvInteger"}:
        return BY_IMAGE
    if any(name == "QuantizeLinear" or name.startswith("QLinear") for name in operators):
        return BY_FILE
    return WEIGHTS if operators & {"DequantizeLinear", "MatMulNBits"} else ""


def _tensors(graph: Any) -> Iterator[Any]:
    """Yield the weights of a graph, and of those inside it."""
    yield from graph.initializer
    for attribute in (attribute for node in graph.node for attribute in node.attribute):
        yield attribute.t
        for inner in (attribute.g, *attribute.graphs):
            yield from _tensors(inner) if inner.node or inner.initializer else ()
