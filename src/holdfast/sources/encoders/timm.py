"""`timm:` timm's image models, their pooled features."""

import contextlib
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from holdfast.core.encoder import Encoder
from holdfast.core.encoder_source import EncoderSource
from holdfast.core.geometry import Geometry
from holdfast.core.source_spec import Options
from holdfast.runtime.errors import BadValue, Missing, unknown
from holdfast.runtime.names import list_registered_models
from holdfast.runtime.optional import optional
from holdfast.sources.encoders.shared.assemble import Preprocessing, assemble
from holdfast.sources.encoders.shared.checkpoint import LAYERS, Checkpoint, read_checkpoint
from holdfast.sources.encoders.shared.equip import apply_metadata, equip, resolve_layer
from holdfast.sources.encoders.shared.layer import check_layer
from holdfast.sources.encoders.shared.naming import Choice, read_choice
from holdfast.sources.encoders.shared.options import Common, read
from holdfast.sources.encoders.shared.original import Original, verify_preprocessing
from holdfast.sources.encoders.shared.pictures import interpolation
from holdfast.sources.encoders.shared.stored import weights_files
from holdfast.sources.encoders.shared.weights import check_weights, fetching, fill, fix_seed, misfits, no_pickle


class _Unpooled(nn.Module):
    """Gives what a model pools.

    Args:
        model: of timm.
    """

    def __init__(self, model: Any):
        super().__init__()
        self.model = model

    def forward(self, x: Float[Tensor, "batch channel height width"]) -> Tensor:
        """Run the model up to its pooling."""
        return self.model.forward_features(x)


@dataclass(frozen=True)
class Timm(EncoderSource):
    """Timm's image models, their pooled features."""

    about = "timm's models, pooled features: timm:resnet18, timm:hf-hub:org/name, timm:local-dir:path"
    extra = "timm"

    def names(self) -> tuple[str, ...]:
        """Return the models of the package that is installed."""
        return list_registered_models("timm")

    def check(self, name: str, options: Options) -> None:
        """Look up the model, the options, the layer and the weights."""
        _, common, timm = self._parse_options(name, options)
        if ":" not in name:
            check_layer(common.layer, lambda: timm.create_model(name, pretrained=False))

    def open(self, name: str, options: Options) -> Encoder:
        """Open `timm:resnet18`, `timm:resnet18.a1_in1k`, `timm:hf-hub:org/name` or `timm:local-dir:path`.

        The representation is what the model gives with `num_classes=0`; mean, std and geometry are timm's data config
        of the model (`timm.data.resolve_data_config`). `size=` also moves models of a fixed input size to that size.
        A file that `?weights=moco_v3.pth.tar` names may be a checkpoint of any format of `shared/formats.py`, or of
        one that timm converts for this model, and `&layer=projection` the head that it brings. With `pool=none` the
        patches are those of `forward_features`.

        Raises:
            HoldfastError: an unknown model, a folder without config.json, weights that cannot be fetched.
        """
        choice, common, timm = self._parse_options(name, options)
        resolve = optional("timm.data", "timm", "timm", options.spec).resolve_data_config

        # the network without its classifier
        def build(**given: Any) -> Any:
            with fix_seed(common.seed), fetching(options.spec), no_pickle():
                return timm.create_model(name, **{"num_classes": 0, **given})

        default = common.weights == "default"
        network = build(pretrained=True) if default else _as_published(build, common.weights == "random")
        ours = preprocessing(resolve({}, model=network))
        origin: dict[str, object] = {"source": f"timm:{name}", "weights": _weights(network, common)}
        origin["timm"] = timm.__version__
        heads = _classifiers(network)
        if common.weights not in ("default", "random"):
            checkpoint = read_checkpoint(common.weights, network, heads, choice)
            # Some authors' networks differ from timm's of that name, in the number of heads for one
            if given := checkpoint.find_build_arguments(name.partition(".")[0]):
                network = _as_published(partial(build, **given))
            if misfits(network, checkpoint.state):
                _resize(network, common)  # they were trained at that size, not moved to it
            # Without heads first: the network has none, and timm converts what it has
            checkpoint = _convert_names(network, _without_heads(network, checkpoint, build))
            _fill(network, heads, checkpoint, common.layer)
            ours = apply_metadata(ours, checkpoint, common)
            origin |= checkpoint.origin
        _resize(network, common)
        common = resolve_layer(common, heads[0] if heads else None)
        if common.pool == "none" and common.layer is None:
            return assemble(_Unpooled(network), common, ours, origin, output="forward_features", root=network)
        return assemble(network, common, ours, origin, output="pooled features (num_classes=0)")

    def files(self, name: str, options: Options) -> tuple[Path, ...] | None:
        """Return the files of weights; None of a folder's or the hub's."""
        return None if ":" in name else weights_files(self._parse_options(name, options)[1].weights)

    def _parse_options(self, name: str, options: Options) -> tuple[Choice, Common, Any]:
        """Return the options and the package, once it knows the model."""
        choice, common = read_choice(options), read(options)
        timm = optional("timm", "timm", "timm", options.spec)
        if ":" not in name and Path(name).is_file():
            raise BadValue(
                f"{options.spec}: expected the name of a model, got a file; write timm:NAME?weights={name}, with the "
                "name of its network, such as resnet50"
            )
        if "/" in name and not name.startswith(("hf-hub:", "local-dir:")):
            raise BadValue(
                f"{options.spec}: write timm:hf-hub:{name} for the hub or timm:local-dir:{name} for a folder"
            )
        if ":" not in name and not timm.is_model(name.partition(".")[0]):
            raise unknown("timm model", name, timm.list_models())
        # a folder in the format of timm
        folder = name.removeprefix("local-dir:")
        if folder != name and not (Path(folder) / "config.json").is_file():
            raise Missing(f"{options.spec}: expected a folder with config.json and model.safetensors, got {folder!r}")
        check_weights(common.weights)
        return choice, common, timm


def _as_published(build: Callable[..., Any], random: bool = False) -> Any:
    """Return the network that timm makes where it has weights for it, with random ones or zeros in their place.

    Some networks differ in what no weights say (the ε of fbnetc_100's BatchNorm), so timm is asked for this one.
    """
    # An overlay stands for a download: timm builds as for published weights and fills in these
    state = build(pretrained=False).state_dict() if random else _zeros(build)
    return build(pretrained=True, pretrained_cfg_overlay={"state_dict": state, "source": ""})


def _zeros(build: Callable[..., Any], **given: Any) -> dict[str, Tensor]:
    """Return a network's tensors by name, of the right kinds and shapes, in no memory to speak of."""
    with torch.device("meta"):
        shapes = build(pretrained=False, **given).state_dict()
    # One zero in memory for each, shown in its shape
    return {name: torch.zeros((), dtype=value.dtype).expand(value.shape) for name, value in shapes.items()}


def _without_heads(network: Any, checkpoint: Checkpoint, build: Callable[..., Any]) -> Checkpoint:
    """Return a checkpoint without what the model has for its classes alone, beside the classifiers that timm names."""
    if checkpoint.state.keys() <= network.state_dict().keys():
        return checkpoint
    # What the network with its classes has, and the one without them has not
    extra = _zeros(build, num_classes=None).keys() - network.state_dict().keys()
    return replace(checkpoint, state={name: value for name, value in checkpoint.state.items() if name not in extra})


def _convert_names(network: Any, checkpoint: Checkpoint) -> Checkpoint:
    """Return a checkpoint in timm's own names and sizes, where it is in others that timm knows for this model."""
    # timm's own conversion of a family, such as of names of other repositories
    convert = getattr(import_module(type(network).__module__), "checkpoint_filter_fn", None)
    if convert is None or not misfits(network, checkpoint.state):
        return checkpoint
    # Tried on a copy; only a result that fits counts
    with contextlib.suppress(Exception):  # raised where it does not know the names; `fill` says what does not fit
        state = dict(convert(dict(checkpoint.state), network))
        if not misfits(network, state):
            return replace(checkpoint, state=state, converted=f"by timm, as {convert.__module__.split('.')[-1]}")
    return checkpoint


def _resize(network: Any, common: Common) -> None:
    patch = getattr(getattr(network, "patch_embed", None), "patch_size", None)
    if common.size is not None and isinstance(patch, tuple) and len(patch) == 2:
        sides = list(zip(common.size, patch, strict=True))
        # The next sizes that have no rest
        below, above = ("x".join(str(max(side // step + more, 1) * step) for side, step in sides) for more in (0, 1))
        if any(side % step for side, step in sides):
            raise BadValue(
                f"{common.name}: expected a size of whole patches of {patch[0]}x{patch[1]} pixels, for others at the "
                f"edge are not read, got {common.size[0]}x{common.size[1]}; take size={below} or size={above}"
            )
    if common.size is not None and hasattr(network, "set_input_size"):
        # Position embeddings and windows follow the size
        network.set_input_size(img_size=common.size)


def _classifiers(network: Any) -> tuple[str, ...]:
    heads = network.pretrained_cfg.get("classifier") or ()  # num_classes=0 has removed it from the network
    return (heads,) if isinstance(heads, str) else tuple(heads)


def _fill(network: Any, heads: tuple[str, ...], checkpoint: Checkpoint, layer: str | None) -> None:
    """Fill the network; heads stay away where the representation lies in front of them."""
    if heads and layer is not None and (layer in LAYERS or f"{layer}.".startswith(tuple(f"{head}." for head in heads))):
        equip(network, heads[0], checkpoint, layer)
    else:
        fill(network, checkpoint.state, f"weights file {checkpoint.path!r}")


def _weights(network: Any, common: Common) -> str:
    if common.weights == "default":
        config = network.pretrained_cfg
        return f"timm {config.get('architecture')}.{config.get('tag')}".rstrip(".")
    return f"random, seed {common.seed}" if common.weights == "random" else common.weights


def preprocessing(config: dict[str, Any]) -> Preprocessing:
    """Return timm's data config as pixels, compared with its own transform; `Geometry` cannot say borders."""
    channels, height, width = config["input_size"]
    source, share, mode = "timm data config", config["crop_pct"], config["crop_mode"]
    # Rounded down, as timm's transform does
    high, wide = math.floor(height / share), math.floor(width / share)
    # Other crop modes, or a frame that is no square, have no `Geometry`
    geometry = None
    if mode == "squash":
        resize = None if share == 1 else (high, wide)
        geometry = Geometry((height, width), channels, resize, interpolation(config["interpolation"]), source)
    elif mode == "center" and high == wide:
        geometry = Geometry((height, width), channels, high, interpolation(config["interpolation"]), source)
    ours = Preprocessing(config["mean"], config["std"], source, (channels, height, width), geometry)
    if channels not in (1, 3):  # which no pictures have
        return replace(ours, geometry=None)
    return verify_preprocessing(original(config), ours)


def original(config: dict[str, Any]) -> Original:
    """Return timm's own transform of evaluation for a data config."""
    transform = optional("timm.data", "timm", "timm", "a preprocessing of timm").create_transform(**config)
    mode = "L" if config["input_size"][0] == 1 else "RGB"
    return Original(f"timm's transform (crop_mode {config['crop_mode']})", lambda x: transform(x.convert(mode)))
