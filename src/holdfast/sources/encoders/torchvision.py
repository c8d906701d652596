"""`torchvision:` torchvision's image classifiers, without their last linear layer."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn
from typing_extensions import override

from holdfast.core.encoder import Encoder
from holdfast.core.encoder_source import EncoderSource
from holdfast.core.geometry import Geometry
from holdfast.core.source_spec import Options
from holdfast.runtime.errors import Missing, unknown
from holdfast.runtime.names import list_registered_models
from holdfast.runtime.optional import optional
from holdfast.sources.encoders.shared.assemble import Preprocessing, assemble
from holdfast.sources.encoders.shared.checkpoint import read_checkpoint
from holdfast.sources.encoders.shared.equip import apply_metadata, equip, resolve_layer
from holdfast.sources.encoders.shared.layer import check_layer
from holdfast.sources.encoders.shared.naming import Choice, read_choice
from holdfast.sources.encoders.shared.options import Common, read
from holdfast.sources.encoders.shared.original import Original, verify_preprocessing
from holdfast.sources.encoders.shared.pictures import interpolation
from holdfast.sources.encoders.shared.stored import weights_files
from holdfast.sources.encoders.shared.weights import check_weights, fetching, fix_seed, no_pickle

_AS_PUBLISHED = {name: {"transform_input": True, "init_weights": False} for name in ("googlenet", "inception_v3")}
"""Arguments that torchvision itself gives a network whose weights are published, and no other network.

A test compares every network of torchvision with what its own builder makes of published weights.
"""

_SIDE_HEADS = ("aux1", "aux2", "AuxLogits")
"""Classifiers of inner layers, of the same two networks; only their training reads them."""


@dataclass(frozen=True)
class Torchvision(EncoderSource):
    """Torchvision's image classifiers, without their last linear layer."""

    about = "torchvision's classifiers, penultimate features: torchvision:resnet50@IMAGENET1K_V2"
    extra = "torchvision"

    def names(self) -> tuple[str, ...]:
        """Return the models of the package that is installed."""
        return list_registered_models("torchvision")

    @override
    def check(self, name: str, options: Options) -> None:
        _, common, models, model_name, _ = self._parse_options(name, options)
        check_layer(common.layer, lambda: models.get_model(model_name, weights=None))

    def open(self, name: str, options: Options) -> Encoder:
        """Open `torchvision:resnet50@IMAGENET1K_V2`; without "@" torchvision's default weights.

        The representation is the input of the last `nn.Linear`; mean, std and geometry are those of the weights' own
        transforms (torchvision.models.Weights.transforms), also with `?weights=random`. A file that
        `?weights=moco_v2.pth.tar` names may be a checkpoint of any format of `shared/formats.py`, and
        `&layer=projection` the head that it brings.

        Raises:
            HoldfastError: an unknown model or weights entry, weights that cannot be fetched, no linear layer.
        """
        choice, common, models, model_name, enum = self._parse_options(name, options)
        source = f"transforms of torchvision {type(enum).__name__}.{enum.name}"
        # the network, with those weights or others in their place
        # What torchvision's builder gives a network of published weights, but without these
        fresh: dict[str, Any] = {"weights": None, **_AS_PUBLISHED.get(model_name, {})}
        if "init_weights" in fresh:  # slow, and random weights alone are left as they are
            fresh["init_weights"] = common.weights == "random"
        if model_name.startswith("vit_"):  # the one family whose size is fixed when it is built
            fresh["image_size"] = (common.size or enum.transforms().crop_size)[0]
        with fix_seed(common.seed), fetching(options.spec), no_pickle():
            network = models.get_model(model_name, **({"weights": enum} if common.weights == "default" else fresh))
        # Gone before weights are filled, whose files may have them or not
        for head in _SIDE_HEADS:
            if getattr(network, head, None) is not None:
                setattr(network, head, None)
                network.aux_logits = False
        # The last one is the classifier
        linear = [place for place, module in network.named_modules() if isinstance(module, nn.Linear)]
        ours = preprocessing(enum.transforms(), source)
        weights = str(enum)
        if common.weights != "default":
            weights = f"random, seed {common.seed}" if common.weights == "random" else common.weights
        origin: dict[str, object] = {"source": f"torchvision:{model_name}", "weights": weights}
        if common.weights not in ("default", "random"):
            checkpoint = read_checkpoint(common.weights, network, linear[-1:], choice, aside=_SIDE_HEADS)
            equip(network, linear[-1] if linear else None, checkpoint, common.layer)
            origin |= checkpoint.origin
            ours = apply_metadata(ours, checkpoint, common)
        # its representation: the input of the classifier
        common = resolve_layer(common, linear[-1] if linear else None)
        if not linear and not common.layer:
            raise Missing(
                f"{options.spec}: no nn.Linear whose input could be the representation; give ?layer= and ?pool="
            )
        layer = f"{linear[-1]}.input" if linear else None
        return assemble(network, common, ours, origin, layer=layer)

    def files(self, name: str, options: Options) -> tuple[Path, ...] | None:
        """Return the files of weights; None of those that are downloaded."""
        return weights_files(self._parse_options(name, options)[1].weights)

    def _parse_options(self, name: str, options: Options) -> tuple[Choice, Common, Any, str, Any]:
        """Return the options, the package's models, the name of one, and the entry of its weights."""
        choice, common = read_choice(options), read(options)
        models = optional("torchvision.models", "torchvision", "torchvision", options.spec)
        model_name, _, entry = name.partition("@")
        names = models.list_models(module=models)
        if model_name not in names:
            raise unknown("torchvision model", model_name, names)
        # the entry of the weights says the preprocessing, also of random weights
        choices = models.get_model_weights(model_name)
        if (entry or "DEFAULT") not in choices.__members__:
            raise unknown(f"weights of torchvision's {model_name}", entry, choices.__members__)
        check_weights(common.weights)
        return choice, common, models, model_name, choices[entry or "DEFAULT"]


def preprocessing(preset: Any, source: str) -> Preprocessing:
    """Return an ImageClassification preset as pixels, compared with itself."""
    # One side for a square, or both
    height, width = (*preset.crop_size, *preset.crop_size)[:2]
    (resize,) = preset.resize_size
    geometry = Geometry((height, width), 3, resize, interpolation(preset.interpolation.value), source)
    return verify_preprocessing(
        original(preset), Preprocessing(preset.mean, preset.std, source, (3, height, width), geometry)
    )


def original(preset: Any) -> Original:
    """Return a preset as what pictures are compared with."""
    return Original(f"torchvision's {type(preset).__name__}", preset)
