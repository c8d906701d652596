"""`onnx:` networks in ONNX files, made differentiable by onnx2torch."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jaxtyping import Float
from torch import Tensor, nn

from holdfast.core.encoder import Encoder
from holdfast.core.encoder_source import EncoderSource
from holdfast.core.spec_string import Options, take
from holdfast.runtime.errors import HoldfastError, first_line, unknown
from holdfast.runtime.optional import optional
from holdfast.sources.encoders.shared.assemble import assemble
from holdfast.sources.encoders.shared.onnx_metadata import metadata, said_by_file
from holdfast.sources.encoders.shared.onnx_rewrite import rewritten
from holdfast.sources.encoders.shared.onnx_shapes import with_fixed_sizes
from holdfast.sources.encoders.shared.options import read


class _Output(nn.Module):
    """Runs a converted graph and picks one of its outputs."""

    def __init__(self, graph: nn.Module, index: int):
        super().__init__()
        self.graph, self.index = graph, index

    def forward(self, x: Float[Tensor, "batch channel height width"]) -> Float[Tensor, "..."]:
        outputs = self.graph(x)
        return outputs[self.index] if isinstance(outputs, (tuple, list)) else outputs


@dataclass(frozen=True)
class Onnx(EncoderSource):
    """Networks in ONNX files, made differentiable by onnx2torch."""

    about = "an ONNX file, differentiable: onnx:encoder.onnx?mean=0&std=1"
    extra = "onnx"
    suffix = ".onnx"

    def open(self, name: str, options: Options) -> Encoder:
        """Open `onnx:file.onnx?mean=0.5&std=0.25`; `output=` picks one of several outputs by name.

        Mean, std and how pictures become the input: the options, or metadata of the file by the same names (see
        `metadata`), or assumed (see `assumed`; mean and std never are). The input is [batch, channel, height, width];
        its size is the file's, or `size=` or `crop=` where the file leaves it open.

        Raises:
            HoldfastError: not an ONNX file, an operator that onnx2torch does not know, no mean and std, metadata that
                cannot be read, an unknown output or several to choose from, an input that is not one batch of images.
        """
        output = take(options, "output", str, None)
        common = read(options)
        # packages and the file
        onnx = optional("onnx", "onnx", "onnx", options.spec)
        for part in ("onnx.inliner", "onnx.reference", "onnx.version_converter"):
            optional(part, "onnx", "onnx", options.spec)
        onnx2torch = optional("onnx2torch", "onnx2torch", "onnx", options.spec)
        if common.weights != "default":
            raise HoldfastError(f"{options.spec}: an ONNX file holds its own weights; leave out weights=")
        if not Path(name).is_file():
            raise HoldfastError(f"ONNX file {name!r} does not exist")
        try:
            proto = onnx.load(name)
            onnx.checker.check_model(proto)
        except Exception as error:  # protobuf and onnx raise errors of their own
            raise HoldfastError(f"{name!r} is not a readable ONNX file: {first_line(error)}") from error
        try:
            # torch modules in place of operators
            graph = onnx2torch.convert(rewritten(proto, onnx, onnx2torch.converter.get_converter))
        except HoldfastError as error:
            raise HoldfastError(f"{name!r}: {error}") from error
        except Exception as error:
            raise HoldfastError(f"{name!r}: onnx2torch cannot convert it: {first_line(error)}") from error
        # the one output, and the sizes of the input
        outputs = [value.name for value in proto.graph.output]
        if output is None and len(outputs) > 1:
            raise HoldfastError(f"{name!r} has several outputs; give ?output= one of: {', '.join(outputs)}")
        if output is not None and output not in outputs:
            raise unknown(f"output of {name}", output, outputs)
        index = outputs.index(output or outputs[0])
        said = metadata(proto.metadata_props, name)
        shape = _shape(proto, name, common.size or said.pictures.size)
        try:
            graph = with_fixed_sizes(graph, shape, _inputs(proto)[0].type.tensor_type.shape.dim[0].dim_value)
        except HoldfastError as error:
            raise HoldfastError(f"{name!r}: {error}") from error
        preprocessing = said_by_file(said, shape, name)
        origin = {"source": f"onnx:{name}", "weights": name, "opset": proto.opset_import[0].version}
        return assemble(
            _Output(graph, index), common, preprocessing, origin, output=f"output {outputs[index]}", root=graph
        )


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
