"""`onnx:` networks in ONNX files, as torch operations with a gradient, compared with the file when they are opened."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from holdfast.core.encoder import Encoder
from holdfast.core.encoder_source import EncoderSource
from holdfast.core.source_spec import Options, one_of, take
from holdfast.runtime.errors import Conflict, Failed, Missing, Unsupported
from holdfast.runtime.guess import path_meant
from holdfast.sources.encoders.shared.assemble import Preprocessing, assemble
from holdfast.sources.encoders.shared.options import Common, read
from holdfast.sources.encoders.shared.weights import check_weights, fill, read_safetensors
from holdfast.sources.onnx.file import LARGEST, LAYOUTS, LEVELS, Images, load, output_of, package, size
from holdfast.sources.onnx.metadata import make_preprocessing, metadata, with_preprocessing
from holdfast.sources.onnx.network import Taken
from holdfast.sources.onnx.reader import Opened, compare_with_file, open_file
from holdfast.sources.onnx.weights import with_weights

KEPT = ("output", "layer", "pool", "grid", "layout", "channels")
"""Options that say what the representation is, which a file that is written does not say of itself."""

SAME = 1e-4
"""Share of the largest value by which representations of an encoder and of what was written of it may differ."""


@dataclass(frozen=True)
class _Asked:
    """What a spec asks for beside the common options.

    Attributes:
        output: name of the tensor that is the representation; None: the one output.
        layout: order of the axes of images; None: by their sizes.
        channels: order of the colours that the file takes.
        gradient: whether it passes roundings by a scale that is computed from the image.
    """

    output: str | None
    layout: str | None
    channels: str
    gradient: str


@dataclass(frozen=True)
class Onnx(EncoderSource):
    """Networks in ONNX files, as torch operations with a gradient."""

    about = "an ONNX file, differentiable: onnx:encoder.onnx?mean=0&std=1"
    extra = "onnx"
    suffix = ".onnx"
    writes = ".onnx"

    def check(self, name: str, options: Options) -> None:
        """Look up the file, the options and the weights."""
        self._parse_options(name, options)

    def open(self, name: str, options: Options) -> Encoder:
        """Open `onnx:file.onnx?mean=0.5&std=0.25`; `output=` names the tensor that is the representation.

        It may be any that the graph computes, such as the input of a classifier at its end; else it is the one output.

        Mean, std and how pictures become the input: the options, or metadata of the file by the same names (see
        `metadata`), or assumed (see `assume_geometry`; mean and std never are). The input is [batch, channel, height,
        width], or [batch, height, width, channel] where the sizes say so or `layout=nhwc` does; `channels=bgr` gives it
        blue first; one of uint8 gets pixels from 0 to 255. Its size is the file's, or `size=` or `crop=` where the file
        leaves it open. Rounded activations (QDQ) have the gradient of their clipping; where the scale is computed from
        the image, none goes through unless `gradient=straight` asks for it.

        What was read is compared with the file itself, run by ONNX Runtime, once for each file.

        Its weights are parameters, so that it can be trained; `?weights=learned.safetensors` opens what came of it.

        Raises:
            HoldfastError: not an ONNX file, an operator that is not read here, no mean and std, metadata that cannot be
                read, an unknown tensor or several outputs to choose from, an input that is no batch of images, a
                network that computes something else than the file.
        """
        asked, common = self._parse_options(name, options)
        onnx = package(options.spec)
        proto = load(name, onnx)
        said = metadata(proto.metadata_props, name)
        # The size decides what can be worked out before any image
        opened = self._open_network(proto, name, asked, common.size or said.pictures.size, onnx)
        preprocessing, factor = _pixels(
            make_preprocessing(said, opened.images.shape, name), common, opened.images, name
        )
        # compared with its own weights, then filled with others
        _agree(opened, name, preprocessing, common, onnx)
        if common.weights != "default":
            fill(opened.network, read_safetensors(common.weights)[0], f"weights file {common.weights!r}")
        # After the comparison, in which the file gets its own order of channels
        preprocessing = replace(preprocessing, reversed=asked.channels == "bgr")
        network = Taken(opened.network, opened.images, factor)
        origin = _origin(name, proto, common, asked, opened)
        output = f"tensor {opened.network.output}"
        return assemble(network, common, preprocessing, origin, output=output, root=opened.network)

    def write(self, name: str, options: Options, encoder: Encoder, path: Path) -> None:
        """Write the file anew with the weights that the encoder has now.

        It ends at the representation, for what came after it was not learned with it. It says of itself what the
        encoder's preprocessing is. What is written is opened and compared before it counts.

        Raises:
            HoldfastError: activations that are rounded, or a file that computes something else than the encoder.
        """
        asked, _ = self._parse_options(name, options)
        onnx = package(options.spec)
        opened = self._open_network(load(name, onnx), name, asked, encoder.geometry and encoder.geometry.size, onnx)
        if opened.rounds:
            raise Unsupported(f"{name!r}: its activations are rounded; train the file that was quantised")
        if size(opened.model) >= LARGEST:
            raise Unsupported(f"{name!r}: its weights take more than 2 GiB, which one ONNX file cannot hold")
        trained: Any = encoder.module.get_submodule(encoder.root)
        written = with_weights(opened.model, trained.learnable, onnx)
        onnx.helper.set_model_props(written, with_preprocessing(opened.model.metadata_props, encoder))
        onnx.save(written, path)
        # opened again, it is the same encoder
        again = self.open(str(path), Options({k: v for k, v in options.items() if k in KEPT}, options.spec))
        # On noise, which shows any difference of what was written
        x = torch.rand(2, *opened.images.shape, generator=torch.Generator().manual_seed(0))
        with torch.no_grad():
            reps, expected = again(x), encoder(x.to(encoder.device)).cpu()
        # Relative to the largest value: representations have any scale
        if (apart := float((reps - expected).abs().max())) > SAME * float(expected.abs().max()):
            raise Failed(f"{name!r}: what was written of it differs from what was learned, by {apart:.2g}")

    def _open_network(self, proto: Any, name: str, asked: _Asked, size: tuple[int, int] | None, onnx: Any) -> Opened:
        output = output_of(proto, asked.output, name)
        straight = asked.gradient == "straight"
        return open_file(proto, output, name, onnx, size=size, layout=asked.layout, straight=straight)

    def _parse_options(self, name: str, options: Options) -> tuple[_Asked, Common]:
        asked = _Asked(
            take(options, "output", str, None),
            take(options, "layout", lambda word: one_of(*LAYOUTS)(word.lower()), None),
            take(options, "channels", lambda word: one_of("rgb", "bgr")(word.lower()), "rgb"),
            take(options, "gradient", one_of("own", "straight"), "own"),
        )
        common = read(options)
        package(options.spec)
        if not Path(name).is_file():
            raise Missing(f"ONNX file {name!r} does not exist; {path_meant(name)}")
        if common.weights == "random":
            raise Conflict(f"{options.spec}: an ONNX file holds its own weights; leave out weights=random")
        check_weights(common.weights)
        return asked, common


def _pixels(preprocessing: Preprocessing, common: Common, images: Images, name: str) -> tuple[Preprocessing, float]:
    """Return the preprocessing of a file, and what pixels are multiplied by behind it: 255 where it takes 8 bits."""
    if not images.levels:
        return preprocessing, 1.0
    mean = preprocessing.mean if common.mean is None else common.mean
    std = preprocessing.std if common.std is None else common.std
    if mean is None or std is None:
        source = "its input is uint8: pixels from 0 to 255"
        return Preprocessing(0.0, 1.0, source, preprocessing.shape, preprocessing.geometry), LEVELS
    means, stds = (torch.as_tensor(values, dtype=torch.float64).flatten().tolist() for values in (mean, std))
    # std 1 says pixels in [0, 1], which are still to be multiplied; std 1/255 has done that
    if not any(means) and all(value == 1 for value in stds):
        return preprocessing, LEVELS
    if not any(means) and all(abs(LEVELS * value - 1) < 1e-6 for value in stds):
        return preprocessing, 1.0
    raise Conflict(
        f"{name!r} takes uint8, pixels from 0 to 255 as they are, got mean {means} and std {stds}; leave both out"
    )


def _agree(opened: Opened, name: str, preprocessing: Preprocessing, common: Common, onnx: Any) -> None:
    """Compare the network with its file; see `compare_with_file`."""
    mean = preprocessing.mean if common.mean is None else common.mean
    std = preprocessing.std if common.std is None else common.std
    if mean is None or std is None:
        return  # which is refused, for want of both
    means, stds = (torch.as_tensor(values, dtype=torch.float32).reshape(-1, 1, 1) for values in (mean, std))
    # Other numbers of channels are refused where the encoder is assembled
    if len(means) in (1, opened.images.shape[0]) and len(stds) in (1, opened.images.shape[0]):
        compare_with_file(opened, name, means, stds, onnx)


def _origin(name: str, proto: Any, common: Common, asked: _Asked, opened: Opened) -> dict[str, object]:
    """Return what the record says of a file, every choice among it that was made by what the file looks like."""
    images = opened.images
    origin: dict[str, object] = {"source": f"onnx:{name}", "weights": name}
    if common.weights != "default":
        origin["learned"] = common.weights
    # The version of the usual operators; 1 where the file does not say
    origin["opset"] = next((entry.version for entry in proto.opset_import if entry.domain in ("", "ai.onnx")), 1)
    if images.layout == "nhwc":
        origin["layout"] = "NHWC: channels last"
    if images.levels:
        origin["pixels"] = "from 0 to 255, as its uint8 input takes them, not rounded"
    if opened.dynamic:
        straight = "pass as if they were only clipped" if asked.gradient == "straight" else "do not pass them"
        origin["quantised"] = f"activations are rounded by scales of each image; gradients {straight}"
    elif opened.rounds:
        origin["quantised"] = "activations are rounded as the file says; gradients pass as if they were only clipped"
    return origin
