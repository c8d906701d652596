"""`openclip:` the image towers of OpenCLIP."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from holdfast.core.encoder import Encoder
from holdfast.core.encoder_source import EncoderSource, TextTower
from holdfast.core.geometry import Geometry
from holdfast.core.spec_string import Options
from holdfast.runtime.errors import HoldfastError, unknown
from holdfast.runtime.names import configured_models
from holdfast.runtime.optional import optional
from holdfast.sources.encoders.shared.assemble import Preprocessing, assemble
from holdfast.sources.encoders.shared.equip import load
from holdfast.sources.encoders.shared.options import Common, read
from holdfast.sources.encoders.shared.original import Original, compared
from holdfast.sources.encoders.shared.pictures import interpolation
from holdfast.sources.encoders.shared.texts import too_long
from holdfast.sources.encoders.shared.weights import check_weights, fetching, no_pickle, seeded


class _EncodeImage(nn.Module):
    def __init__(self, model: Any):
        super().__init__()
        self.model = model

    def forward(self, x: Float[Tensor, "batch 3 height width"]) -> Float[Tensor, "batch dim"]:
        return self.model.encode_image(x)


class _Unpooled(nn.Module):
    """Gives what an image tower pools: tokens of patches, or a map.

    Args:
        model: of OpenCLIP.
        spec: of the encoder, for errors.
    """

    def __init__(self, model: Any, spec: str):
        super().__init__()
        self.model, visual = model, model.visual
        self.of_timm = hasattr(visual, "trunk")
        if not self.of_timm:
            if not hasattr(visual, "output_tokens") or getattr(visual, "attn_pool", None) is not None:
                kind = type(visual).__name__
                raise HoldfastError(
                    f"{spec}: expected a tower that pools patches, got {kind}; name one, ?layer=visual.…"
                )
            visual.output_tokens = True

    def forward(self, x: Float[Tensor, "batch 3 height width"]) -> Tensor:
        """Run the tower up to its pooling."""
        visual = self.model.visual
        return visual.trunk.forward_features(x) if self.of_timm else visual(x)[1]


@dataclass(frozen=True)
class Openclip(EncoderSource):
    """The image towers of OpenCLIP."""

    about = "OpenCLIP image towers: openclip:ViT-B-32/laion2b_s34b_b79k"
    extra = "openclip"

    def names(self) -> tuple[str, ...]:
        """Return the models of the package that is installed."""
        return configured_models("open_clip")

    def check(self, name: str, options: Options) -> None:
        """Look up the model, its weights and the options."""
        self._asked(name, options)

    def open(self, name: str, options: Options) -> Encoder:
        """Open `openclip:ViT-B-32/laion2b_s34b_b79k`, or `openclip:ViT-B-32?weights=random` (or a path).

        The representation is `encode_image`, not normalised; mean, std and geometry are the model's own preprocessing
        configuration (`visual.preprocess_cfg`). With `pool=none` the patches are those that the tower pools, not
        projected.

        Raises:
            HoldfastError: an unknown model or weights, none named, weights that cannot be fetched.
        """
        common, open_clip, model_name, tag = self._asked(name, options)
        pretrained = {"pretrained": tag} if common.weights == "default" else {"pretrained_text": False}
        with seeded(common.seed), fetching(options.spec), no_pickle():
            model = open_clip.create_model(model_name, force_image_size=_side(common.size), **pretrained)
        if common.weights not in ("default", "random"):
            load(model, common.weights)
        weights = {"default": tag, "random": f"random, seed {common.seed}"}.get(common.weights, common.weights)
        origin = {"source": f"openclip:{model_name}", "weights": weights, "open_clip": open_clip.__version__}
        config = model.visual.preprocess_cfg
        if common.size is not None:  # it is derived from that of a square, as for all sources
            config = {**config, "size": max(common.size)}
        config = preprocessing(config)
        if common.pool == "none" and common.layer is None:
            network = _Unpooled(model, options.spec)
            return assemble(network, common, config, origin, output="tokens of the image tower", root=model)
        return assemble(_EncodeImage(model), common, config, origin, output="encode_image", root=model)

    def texts(self, name: str, options: Options) -> TextTower:
        """Open the text tower, `encode_text`; see `EncoderSource.texts`."""
        common, open_clip, model_name, tag = self._asked(name, options)
        pretrained = {"pretrained": tag} if common.weights == "default" else {"pretrained_text": False}
        with seeded(common.seed), fetching(options.spec), no_pickle():
            model = open_clip.create_model(model_name, **pretrained).eval()
            tokenizer = open_clip.get_tokenizer(model_name)
        if common.weights not in ("default", "random"):
            load(model, common.weights)

        @torch.no_grad()
        def embed(texts: Sequence[str]) -> Tensor:
            tokens = tokenizer(list(texts))
            full = tokens[:, -1] != 0  # of what is longer, the tokenizer drops the end
            if full.any():
                raise too_long(options.spec, texts[int(full.nonzero()[0])], tokens.shape[1] - 1)
            return model.encode_text(tokens).float()

        return embed

    def _asked(self, name: str, options: Options) -> tuple[Common, Any, str, str]:
        """Return the options, the package, the name of a model, and the tag of its weights."""
        common = read(options)
        open_clip = optional("open_clip", "open_clip_torch", "openclip", options.spec)
        model_name, _, tag = name.partition("/")
        if model_name not in open_clip.list_models():
            raise unknown("OpenCLIP model", model_name, open_clip.list_models())
        # the weights: a tag of the package, a file, or random
        tags = open_clip.list_pretrained_tags_by_model(model_name)
        if common.weights == "default" and tag not in tags:
            if tag:
                raise unknown(f"weights of OpenCLIP's {model_name}", tag, tags)
            raise HoldfastError(
                f"{options.spec}: expected openclip:{model_name}/WEIGHTS with one of {', '.join(tags) or '(none)'}; "
                "or ?weights=random, or ?weights=path.safetensors"
            )
        check_weights(common.weights)
        return common, open_clip, model_name, tag


def _side(size: tuple[int, int] | None) -> int | tuple[int, int] | None:
    """Return one number for a square, since towers of ResNets know no other size."""
    return size[0] if size and size[0] == size[1] else size


def preprocessing(config: dict[str, Any]) -> Preprocessing:
    """Return OpenCLIP's configuration as pixels, compared with its own transform; `Geometry` cannot say padding."""
    source, size = "OpenCLIP preprocess_cfg", config["size"]
    height, width = (size, size) if isinstance(size, int) else size
    geometry = None
    if config["resize_mode"] == "squash" or (config["resize_mode"] == "shortest" and height == width):
        resize = None if config["resize_mode"] == "squash" else height
        geometry = Geometry((height, width), 3, resize, interpolation(config["interpolation"]), source)
    return compared(
        original(config), Preprocessing(config["mean"], config["std"], source, (3, height, width), geometry)
    )


def original(config: dict[str, Any]) -> Original:
    """Return OpenCLIP's own transform of evaluation for a configuration."""
    transform = optional("open_clip.transform", "open_clip_torch", "openclip", "a preprocessing of OpenCLIP")
    run = transform.image_transform_v2(transform.PreprocessCfg(**config), is_train=False)
    return Original(f"OpenCLIP's transform (resize_mode {config['resize_mode']})", run)
