"""`onnx:` networks in ONNX files, made differentiable by onnx2torch."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from holdfast.core.encoder import Encoder
from holdfast.core.encoder_source import EncoderSource
from holdfast.core.spec_string import Options, take
from holdfast.runtime.errors import HoldfastError, first_line
from holdfast.runtime.guess import path_meant
from holdfast.runtime.optional import optional
from holdfast.sources.encoders.shared.assemble import assemble
from holdfast.sources.encoders.shared.onnx_graph import cut, sized
from holdfast.sources.encoders.shared.onnx_mend import mended
from holdfast.sources.encoders.shared.onnx_metadata import metadata, said_by_file, with_preprocessing
from holdfast.sources.encoders.shared.onnx_quantised import rounds, teach_rounding
from holdfast.sources.encoders.shared.onnx_rewrite import rewritten
from holdfast.sources.encoders.shared.onnx_shapes import with_fixed_sizes
from holdfast.sources.encoders.shared.onnx_weights import parametrised, with_weights_of
from holdfast.sources.encoders.shared.options import Common, read
from holdfast.sources.encoders.shared.weights import check_weights, fill, read_safetensors

KEPT = ("output", "layer", "pool", "grid")
"""Options that say what the representation is, which a file that is written does not say of itself."""

SAME = 1e-4
"""Share of the largest value by which representations of an encoder and of what was written of it may differ."""


@dataclass(frozen=True)
class Onnx(EncoderSource):
    """Networks in ONNX files, made differentiable by onnx2torch."""

    about = "an ONNX file, differentiable: onnx:encoder.onnx?mean=0&std=1"
    extra = "onnx"
    suffix = ".onnx"
    writes = ".onnx"

    def check(self, name: str, options: Options) -> None:
        """Look up the file, the options and the weights."""
        self._asked(name, options)

    def open(self, name: str, options: Options) -> Encoder:
        """Open `onnx:file.onnx?mean=0.5&std=0.25`; `output=` names the tensor that is the representation.

        It may be any that the graph computes, such as the input of a classifier at its end; else it is the one output.

        Mean, std and how pictures become the input: the options, or metadata of the file by the same names (see
        `metadata`), or assumed (see `assumed`; mean and std never are). The input is [batch, channel, height, width];
        its size is the file's, or `size=` or `crop=` where the file leaves it open.

        Its weights are parameters, so that it can be trained; `?weights=learned.safetensors` opens what came of it.

        Raises:
            HoldfastError: not an ONNX file, an operator that onnx2torch does not know, no mean and std, metadata that
                cannot be read, an unknown tensor or several outputs to choose from, an input that is no batch of
                images.
        """
        output, common = self._asked(name, options)
        onnx, onnx2torch = self._packages(options.spec)
        proto = cut(_read(name, onnx), output, name, onnx)
        said = metadata(proto.metadata_props, name)
        shape = _shape(proto, name, common.size or said.pictures.size)
        # as a graph of torch modules, for images of that size
        model, graph = _converted(sized(proto, shape), name, onnx, onnx2torch)
        try:
            graph = with_fixed_sizes(graph, shape, _inputs(proto)[0].type.tensor_type.shape.dim[0].dim_value)
        except HoldfastError as error:
            raise HoldfastError(f"{name!r}: {error}") from error
        # its weights, the file's or those that were learned since
        graph = parametrised(graph, model)
        if common.weights != "default":
            fill(graph, read_safetensors(common.weights)[0], f"weights file {common.weights!r}")
        preprocessing = said_by_file(said, shape, name)
        learned = {} if common.weights == "default" else {"learned": common.weights}
        origin = {"source": f"onnx:{name}", "weights": name, **learned, "opset": proto.opset_import[0].version}
        if rounds(model):
            origin["quantised"] = (
                "activations are rounded as the file says; gradients pass as if they were only clipped"
            )
        return assemble(graph, common, preprocessing, origin, output=f"tensor {proto.graph.output[0].name}")

    def write(self, name: str, options: Options, encoder: Encoder, path: Path) -> None:
        """Write the file anew with the weights that the encoder has now, in float32 and opset 17 at most.

        It ends at the representation, for what came after it was not learned with it. It says of itself what the
        encoder's preprocessing is. What is written is opened and compared before it counts.

        Raises:
            HoldfastError: weights that the file computes from several tensors.
        """
        onnx, onnx2torch = self._packages(options.spec)
        proto = cut(_read(name, onnx), options.get("output"), name, onnx)
        shape = _shape(proto, name, encoder.geometry and encoder.geometry.size)
        model, before = _converted(sized(proto, shape), name, onnx, onnx2torch)
        if rounds(model):
            raise HoldfastError(f"{name!r}: its activations are rounded; train the file that was quantised")
        graph: Any = encoder.module.get_submodule(encoder.root)
        written = with_weights_of(graph, parametrised(before, model), model, onnx)
        onnx.helper.set_model_props(written, with_preprocessing(model.metadata_props, encoder))
        onnx.save(written, path)
        # opened again, it is the same encoder
        again = self.open(str(path), Options({k: v for k, v in options.items() if k in KEPT}, options.spec))
        x = torch.rand(2, *shape, generator=torch.Generator().manual_seed(0))
        with torch.no_grad():
            reps, expected = again(x), encoder(x.to(encoder.device)).cpu()
        if (apart := float((reps - expected).abs().max())) > SAME * float(expected.abs().max()):
            raise HoldfastError(f"{name!r}: what was written of it differs from what was learned, by {apart:.2g}")

    def _asked(self, name: str, options: Options) -> tuple[str | None, Common]:
        output, common = take(options, "output", str, None), read(options)
        self._packages(options.spec)
        if not Path(name).is_file():
            raise HoldfastError(f"ONNX file {name!r} does not exist; {path_meant(name)}")
        if common.weights == "random":
            raise HoldfastError(f"{options.spec}: an ONNX file holds its own weights; leave out weights=random")
        check_weights(common.weights)
        return output, common

    def _packages(self, spec: str) -> tuple[Any, Any]:
        onnx = optional("onnx", "onnx", "onnx", spec)
        for part in ("onnx.inliner", "onnx.reference", "onnx.version_converter"):
            optional(part, "onnx", "onnx", spec)
        onnx2torch = optional("onnx2torch", "onnx2torch", "onnx", spec)
        teach_rounding(onnx2torch)
        return onnx, onnx2torch


def _read(name: str, onnx: Any) -> Any:
    """Return the model in a file."""
    try:
        proto = onnx.load(name)
        onnx.checker.check_model(proto)
    except Exception as error:  # protobuf and onnx raise errors of their own
        raise HoldfastError(f"{name!r} is not a readable ONNX file: {first_line(error)}") from error
    for tensor in proto.graph.initializer:  # infinite ones may be masks
        values = onnx.numpy_helper.to_array(tensor)
        if values.dtype.kind == "f" and bool((values != values).any()):
            raise HoldfastError(f"{name!r}: its weights {tensor.name!r} are NaN, expected numbers; export it again")
    return proto


def _converted(proto: Any, name: str, onnx: Any, onnx2torch: Any) -> tuple[Any, Any]:
    """Return the model as onnx2torch reads it, and the graph of torch modules that it makes of it."""
    try:
        model = rewritten(proto, onnx, onnx2torch.converter.get_converter)
        graph = onnx2torch.convert(model).eval()  # in training mode BatchNorm would learn from what is tried
        return model, mended(graph)
    except HoldfastError as error:
        raise HoldfastError(f"{name!r}: {error}") from error
    except Exception as error:
        raise HoldfastError(f"{name!r}: onnx2torch cannot convert it: {first_line(error)}") from error


def _shape(proto: Any, name: str, size: tuple[int, int] | None) -> tuple[int, int, int]:
    """Return (channels, height, width) of the graph's one input that is no weight."""
    inputs = _inputs(proto)
    dims = [d.dim_value for d in inputs[0].type.tensor_type.shape.dim] if len(inputs) == 1 else []
    if len(dims) != 4 or dims[1] < 1:
        got = ", ".join(value.name for value in inputs)
        raise HoldfastError(f"{name!r}: expected one input [batch, channel, height, width], got {got} {dims}")
    height, width = size or dims[2:]
    if min(height, width) < 1:
        raise HoldfastError(f"{name!r} leaves the image size open: give ?resize=256&crop=224, or ?size=H or ?size=HxW")
    return dims[1], height, width


def _inputs(proto: Any) -> list[Any]:
    """Return the inputs of a graph that are no weights, which old files list too."""
    weights = {tensor.name for tensor in proto.graph.initializer}
    return [value for value in proto.graph.input if value.name not in weights]
