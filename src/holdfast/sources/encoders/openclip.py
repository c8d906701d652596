"""`openclip:` the image towers of OpenCLIP."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from typing_extensions import override

from holdfast.core.encoder import Encoder
from holdfast.core.encoder_source import EncoderSource, TextTower
from holdfast.core.geometry import Geometry
from holdfast.core.source_spec import Options
from holdfast.runtime.errors import Mismatch, Missing, Unsupported, unknown
from holdfast.runtime.names import list_configured_models
from holdfast.runtime.optional import optional
from holdfast.sources.encoders.shared.assemble import Preprocessing, assemble
from holdfast.sources.encoders.shared.equip import load
from holdfast.sources.encoders.shared.layer import check_layer
from holdfast.sources.encoders.shared.naming import Choice, read_choice
from holdfast.sources.encoders.shared.options import Common, read
from holdfast.sources.encoders.shared.original import Original, verify_preprocessing
from holdfast.sources.encoders.shared.pictures import interpolation
from holdfast.sources.encoders.shared.stored import weights_files
from holdfast.sources.encoders.shared.texts import too_long
from holdfast.sources.encoders.shared.weights import check_weights, fetching, fix_seed, no_pickle


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
                raise Unsupported(f"{spec}: expected a tower that pools patches, got {kind}; name one, ?layer=visual.…")
            visual.output_tokens = True  # gives (pooled, tokens)

    def forward(self, x: Float[Tensor, "batch 3 height width"]) -> Tensor:
        """Run the tower up to its pooling."""
        visual = self.model.visual
        # [B, T, D], or a map of a timm trunk
        return visual.trunk.forward_features(x) if self.of_timm else visual(x)[1]


@dataclass(frozen=True)
class Openclip(EncoderSource):
    """The image towers of OpenCLIP."""

    about = "OpenCLIP image towers: openclip:ViT-B-32/laion2b_s34b_b79k"
    extra = "openclip"

    def names(self) -> tuple[str, ...]:
        """Return the models of the package that is installed."""
        return list_configured_models("open_clip")

    @override
    def check(self, name: str, options: Options) -> None:
        asked = self._parse_options(name, options)
        check_layer(asked.common.layer, asked.architecture)

    def open(self, name: str, options: Options) -> Encoder:
        """Open `openclip:ViT-B-32/laion2b_s34b_b79k`, or `openclip:ViT-B-32?weights=random` (or a path).

        The representation is `encode_image`, not normalised; mean, std and geometry are the model's own preprocessing
        configuration (`visual.preprocess_cfg`): that of the weights which are named, also of
        `openclip:ViT-B-32/openai?weights=FILE`, else the one that all weights of this model share. With `pool=none` the
        patches are those that the tower pools, not projected.

        Raises:
            HoldfastError: an unknown model or weights, none named, weights that cannot be fetched, of which the model
                would compute something else than they were trained for, or whose preprocessing is not known.
        """
        asked = self._parse_options(name, options)
        common = asked.common
        model, facts = asked.model(options.spec, common.size)
        weights = {"default": asked.tag, "random": f"random, seed {common.seed}"}.get(common.weights, common.weights)
        origin = {"source": f"openclip:{asked.model_name}", "weights": weights, **facts}
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
        asked = self._parse_options(name, options)
        model = asked.model(options.spec, None)[0].eval()
        with fetching(options.spec), no_pickle():
            tokenizer = asked.open_clip.get_tokenizer(asked.model_name)

        @torch.no_grad()
        def embed(texts: Sequence[str]) -> Tensor:
            tokens = tokenizer(list(texts))
            full = tokens[:, -1] != 0  # of what is longer, the tokenizer drops the end
            if full.any():
                raise too_long(options.spec, texts[int(full.nonzero()[0])], tokens.shape[1] - 1)
            return model.encode_text(tokens).float()

        return embed

    def files(self, name: str, options: Options) -> tuple[Path, ...] | None:
        """Return the files of weights; None of those that are downloaded."""
        return weights_files(self._parse_options(name, options).common.weights)

    def _parse_options(self, name: str, options: Options) -> "_Asked":
        """Return the options, the package, the name of a model, and the tag of its weights."""
        choice, common = read_choice(options), read(options)
        open_clip = optional("open_clip", "open_clip_torch", "openclip", options.spec)
        model_name, _, tag = name.partition("/")
        if model_name not in open_clip.list_models():
            raise unknown("OpenCLIP model", model_name, open_clip.list_models())
        # the weights: a tag of the package, a file, or random
        tags = open_clip.list_pretrained_tags_by_model(model_name)
        if tag and tag not in tags:
            raise unknown(f"weights of OpenCLIP's {model_name}", tag, tags)
        if common.weights == "default" and not tag:
            raise Missing(
                f"{options.spec}: expected openclip:{model_name}/WEIGHTS with one of {', '.join(tags) or '(none)'}; "
                "or ?weights=random, or ?weights=path.safetensors"
            )
        check_weights(common.weights)
        return _Asked(open_clip, model_name, tag, tags, choice, common)


@dataclass(frozen=True)
class _Asked:
    """What a spec asks for.

    Attributes:
        open_clip: the package.
        model_name: one of its models.
        tag: the weights of it that are named; "": none.
        tags: all that it knows.
        choice: which copy in a file.
        common: the options.
    """

    open_clip: Any
    model_name: str
    tag: str
    tags: Sequence[str]
    choice: Choice
    common: Common

    def architecture(self) -> Any:
        """Return both towers without weights, or memory for them."""
        return self.open_clip.create_model(self.model_name, pretrained_text=False, device="meta")

    def model(self, spec: str, size: tuple[int, int] | None) -> tuple[Any, dict[str, object]]:
        """Return both towers with their weights, and what the record says of them."""
        weights, facts = self.common.weights, {"open_clip": self.open_clip.__version__}
        if self.tag and weights != "default":
            facts["configuration"] = f"of the weights {self.tag}"
        self._check_activation(spec)
        given: dict[str, Any] = {"pretrained": self.tag}
        if weights != "default":
            # Without weights of the package nothing else says the preprocessing
            given = {"pretrained_text": False, "force_preprocess_cfg": self._preprocess_cfg(spec)}
        with fix_seed(self.common.seed), fetching(spec), no_pickle():
            model = self.open_clip.create_model(self.model_name, force_image_size=_side(size), **given)
        if weights not in ("default", "random"):
            facts |= load(model, weights, self.choice).origin
        return model, facts

    def _check_activation(self, spec: str) -> None:
        """Refuse weights of which OpenCLIP itself only warns that the model has another activation than they need."""
        config = self.open_clip.get_model_config(self.model_name)
        if self.tag and self._config(self.tag).get("quick_gelu") and not config.get("quick_gelu"):
            raise Mismatch(
                f"{spec}: the weights {self.tag} were trained with QuickGELU, which {self.model_name} does not have; "
                f"write openclip:{self.model_name}-quickgelu/{self.tag}"
            )

    def _config(self, tag: str) -> Mapping[str, Any]:
        return self.open_clip.get_pretrained_cfg(self.model_name, tag)

    def _preprocess_cfg(self, spec: str) -> dict[str, Any]:
        """Return mean, std and geometry of the weights that are named, else of all, where they agree."""
        keys = ("mean", "std", "interpolation", "resize_mode")
        # All that decides pixels; other entries do not
        known = {tag: {key: self._config(tag).get(key) for key in keys} for tag in self.tags}
        said = [known[self.tag]] if self.tag else list(known.values())
        if said and any(config != said[0] for config in said):
            if self.common.weights != "random" and self.common.mean is None:
                raise Missing(
                    f"{spec}: the weights of {self.model_name} differ in preprocessing; say whose this file follows, "
                    f"such as openclip:{self.model_name}/{self.tags[0]}?weights=..., or give mean, std and resize"
                )
            return {}
        return said[0] if said else {}


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
    return verify_preprocessing(
        original(config), Preprocessing(config["mean"], config["std"], source, (3, height, width), geometry)
    )


def original(config: dict[str, Any]) -> Original:
    """Return OpenCLIP's own transform of evaluation for a configuration."""
    transform = optional("open_clip.transform", "open_clip_torch", "openclip", "a preprocessing of OpenCLIP")
    run = transform.image_transform_v2(transform.PreprocessCfg(**config), is_train=False)
    return Original(f"OpenCLIP's transform (resize_mode {config['resize_mode']})", run)
