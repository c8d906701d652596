"""`hf:` vision models of the Hugging Face hub or of a local folder, through transformers."""

import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from holdfast.core.encoder import Encoder
from holdfast.core.encoder_source import EncoderSource, TextTower
from holdfast.core.source_spec import Options, boolean, take
from holdfast.runtime.errors import Conflict, Mismatch, Missing
from holdfast.runtime.optional import optional
from holdfast.sources.encoders.shared.assemble import Preprocessing, assemble
from holdfast.sources.encoders.shared.hf_processor import describe_processor, preprocessing
from holdfast.sources.encoders.shared.layer import POOLS, check_layer
from holdfast.sources.encoders.shared.options import Common, read
from holdfast.sources.encoders.shared.texts import too_long
from holdfast.sources.encoders.shared.weights import check_weights, fetching, fix_seed, no_pickle, read_safetensors

NO_PROCESSOR = "none: the spec says how pictures become the input"

_CHOICES = "?pool=cls, mean, avg, flatten or none (of the last hidden state), or ?layer="


class _Vision(nn.Module):
    """Runs a transformers model on pixels alone and returns one of its outputs.

    Args:
        model: a vision model, or a dual encoder with `get_image_features`.
        output: "pooler_output", "last_hidden_state", or None to run it for a tapped layer.
        resized: whether images have another size than the model was built for.
    """

    def __init__(self, model: Any, output: str | None, *, resized: bool):
        super().__init__()
        self.model, self.output = model, output
        run = model.get_image_features if _is_dual(model) else model.forward
        # Position embeddings are resized only when asked, and only by models that can
        resizes = resized and "interpolate_pos_encoding" in inspect.signature(run).parameters
        self.extra: dict[str, Any] = {"interpolate_pos_encoding": True} if resizes else {}

    def forward(self, x: Float[Tensor, "batch channel height width"]) -> Any:
        # Masked autoencoders shuffle patches by this noise: increasing numbers keep their order
        masked = {"noise": self._in_order(x)} if _is_mae(self.model) else {}
        run = self.model.get_image_features if _is_dual(self.model) else self.model
        outputs = run(pixel_values=x, **masked, **self.extra)
        if self.output is None:
            return outputs
        value = outputs if isinstance(outputs, Tensor) else getattr(outputs, self.output, None)
        if value is None:
            raise Missing(f"{type(self.model).__name__} gives no {self.output}; give {_CHOICES}")
        return value.flatten(1) if self.output == "pooler_output" else value  # ResNets pool to [B, C, 1, 1]

    def _in_order(self, x: Tensor) -> Tensor:
        patches = self.model.embeddings.patch_embeddings.num_patches
        return torch.arange(patches, device=x.device, dtype=x.dtype).expand(len(x), -1)


def _is_dual(model: Any) -> bool:
    return hasattr(model, "get_image_features")


def _is_mae(model: Any) -> bool:
    return model.config.model_type == "vit_mae"


@dataclass(frozen=True)
class Hf(EncoderSource):
    """Vision models of the Hugging Face hub or of a local folder, through transformers."""

    about = "Hugging Face vision models: hf:org/name or hf:./local-dir"
    extra = "hf"

    def check(self, name: str, options: Options) -> None:
        """Look up the folder, the options, the layer and the weights."""
        trust, common = self._parse_options(name, options)
        # Of the configuration alone, which is fetched for the weights too; code of others runs when it is opened
        if common.layer is not None and not trust:
            transformers = optional("transformers", "transformers", "hf", options.spec)
            with fetching(options.spec):
                config = transformers.AutoConfig.from_pretrained(str(Path(name).expanduser()))
            check_layer(common.layer, lambda: transformers.AutoModel.from_config(config))

    def open(self, name: str, options: Options) -> Encoder:
        """Open `hf:org/name` or `hf:./folder` (config.json, model.safetensors, preprocessor_config.json).

        `pool=pooler` reads the pooler output, another pooling the last hidden state (`none`: its patches). Without it:
        the image features of a dual encoder such as CLIP, else the pooler output where that is *trained*.
        Only safetensors are read; code from the hub runs only with `trust_remote_code=true`. Masked autoencoders are
        run with nothing masked and patches in order.

        Raises:
            HoldfastError: a model, processor or weights that cannot be fetched, weights that are incomplete, no
                default representation, a processor whose effect on pixels is not what it says.
        """
        trust, common = self._parse_options(name, options)
        transformers = optional("transformers", "transformers", "hf", options.spec)
        local = Path(name).expanduser().is_dir()
        # the model and its processor, without running pickles
        name = str(Path(name).expanduser()) if local else name
        bars = _without_bars(transformers) if local else nullcontext()
        with fix_seed(common.seed), fetching(options.spec), no_pickle(), bars:
            processor = _processor(transformers, name, common, trust)
            model, missing = _model(transformers, name, common, trust)
        prefix = f"{model.base_model_prefix}."  # before transformers 5 names of missing weights begin with it
        # A pooler that the weights lack is random: it is refused where it would be read
        untrained = {key for key in missing if key.removeprefix(prefix).split(".")[0] == "pooler"}
        if absent := sorted(set(missing) - untrained):
            raise Mismatch(
                f"{options.spec}: the weights lack {absent[0]} (and {len(absent) - 1} more) of {type(model).__name__}; "
                "they belong to another kind of model"
            )
        # where it is from, for the record
        origin: dict[str, object] = {
            "source": f"hf:{name}",
            "weights": {"default": f"hf {name}", "random": f"random, seed {common.seed}"}.get(
                common.weights, common.weights
            ),
            "revision": getattr(model.config, "_commit_hash", None) or "local",
            "model": type(model).__name__,
            "processor": NO_PROCESSOR if processor is None else describe_processor(processor),
            "transformers": transformers.__version__,
            "trust_remote_code": trust,
        }
        if _is_mae(model):
            origin["masking"] = f"mask_ratio {model.config.mask_ratio} set to 0, patches in order"
            model.config.mask_ratio = 0.0
        # the tensor that is the representation
        output, pool = _representation(common, bool(untrained), options.spec)
        described = "image features" if _is_dual(model) and output == "pooler_output" else output or ""
        vision = _Vision(model, output, resized=common.size is not None)
        config = _preprocessing(processor, model, common)
        size, built = common.size or config.shape[1:], _read_image_size(model)
        if built is not None and built != size:
            origin["image_size"] = f"{size[0]}x{size[1]}, and the model was built for {built[0]}x{built[1]}"
        return assemble(vision, replace(common, pool=pool), config, origin, output=described, root=model)

    def texts(self, name: str, options: Options) -> TextTower:
        """Open the text tower of a dual encoder such as CLIP, `get_text_features`; see `EncoderSource.texts`."""
        trust, common = self._parse_options(name, options)
        transformers = optional("transformers", "transformers", "hf", options.spec)
        local = Path(name).expanduser().is_dir()
        name = str(Path(name).expanduser()) if local else name
        with fix_seed(common.seed), fetching(options.spec), no_pickle(), _without_bars(transformers):
            model, missing = _model(transformers, name, common, trust)
            if not hasattr(model, "get_text_features"):
                return super().texts(name, options)
            tokenizer = transformers.AutoTokenizer.from_pretrained(name, trust_remote_code=trust)
        if missing:
            raise Mismatch(f"{options.spec}: the weights lack {missing[0]} of {type(model).__name__}")
        most = model.config.text_config.max_position_embeddings
        padded = "siglip" in model.config.model_type  # which was trained with padded texts
        padding: dict[str, Any] = {"padding": "max_length", "max_length": most} if padded else {"padding": True}
        model = model.eval()

        @torch.no_grad()
        def embed(texts: Sequence[str]) -> Tensor:
            # Counted without truncation, which would drop the end without a word
            for text, tokens in zip(texts, tokenizer(list(texts))["input_ids"], strict=True):
                if len(tokens) > most:
                    raise too_long(options.spec, text, most)
            inputs = tokenizer(list(texts), return_tensors="pt", **padding)
            outputs = model.get_text_features(**inputs)
            return (outputs if isinstance(outputs, Tensor) else outputs.pooler_output).float()

        return embed

    def _parse_options(self, name: str, options: Options) -> tuple[bool, Common]:
        trust = take(options, "trust_remote_code", boolean, False)
        common = read(options, pools=("pooler", *POOLS))
        if name.startswith((".", "/", "~")) and not Path(name).expanduser().is_dir():
            raise Missing(f"{options.spec}: folder {name!r} does not exist; for the hub write hf:org/name")
        check_weights(common.weights)
        return trust, common


def _processor(transformers: Any, name: str, common: Common, trust: bool) -> Any:
    """Return the image processor; None where there is none, and the user says all that it would."""
    try:
        return transformers.AutoImageProcessor.from_pretrained(name, trust_remote_code=trust)
    except Exception:
        # The user must then say all that it would
        if None in (common.mean, common.std, common.pictures.size, common.pictures.resize):
            raise
        return None


def _preprocessing(processor: Any, model: Any, common: Common) -> Preprocessing:
    """Return what a processor does to pictures, if the model takes what it gives."""
    channels = getattr(_vision_config(model), "num_channels", None) or 3
    # The size that the user asked for, the model's own, or the usual one
    height, width = common.size or _read_image_size(model) or (224, 224)
    shape = channels, height, width
    if processor is None:
        return Preprocessing(None, None, NO_PROCESSOR, shape, None)
    found = preprocessing(processor, shape)
    if found.shape[0] == channels:
        return found
    problem = f"{found.source} gives {found.shape[0]} channels, and {type(model).__name__} takes {channels}"
    return Preprocessing(None, None, found.source, shape, None, problem=problem)


def _read_image_size(model: Any) -> tuple[int, int] | None:
    """Return the (height, width) for which a model was built, where its configuration says it."""
    match getattr(_vision_config(model), "image_size", None):
        case int(side):
            return side, side
        case [int(height), int(width)]:
            return height, width
    return None


def _vision_config(model: Any) -> Any:
    return getattr(model.config, "vision_config", model.config)


def _model(transformers: Any, name: str, common: Common, trust: bool) -> tuple[Any, list[str]]:
    """Return (model in float32, names of parameters that the weights lack)."""
    auto, options = transformers.AutoModel, {"trust_remote_code": trust}
    if common.weights == "default":
        model, info = auto.from_pretrained(name, use_safetensors=True, output_loading_info=True, **options)
    else:
        config = transformers.AutoConfig.from_pretrained(name, **options)
        model, info = auto.from_config(config, **options), {"missing_keys": []}
        if common.weights != "random":  # through transformers, which knows older names of parameters
            state, _ = read_safetensors(common.weights)
            model, info = type(model).from_pretrained(None, config=config, state_dict=state, output_loading_info=True)
    # What was stored in half precision is audited in float32
    return model.float(), sorted(info["missing_keys"])


@contextmanager
def _without_bars(transformers: Any) -> Iterator[None]:
    """Hold back transformers' progress bars, which show even for a folder that loads in an instant."""
    log = transformers.utils.logging
    shown = log.is_progress_bar_enabled()
    log.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            log.enable_progress_bar()


def _representation(common: Common, untrained: bool, spec: str) -> tuple[str | None, str | None]:
    """Return (output of the model, pooling): what the user asked for, else the default."""
    if common.layer is not None:
        if common.pool == "pooler":
            raise Conflict(f"{spec}: pool=pooler is the model's own output; leave out layer=, or pool otherwise")
        return None, common.pool
    # Other poolings than the model's own read the last hidden state
    if common.pool not in (None, "pooler"):
        return "last_hidden_state", common.pool
    if untrained:
        raise Missing(f"{spec}: the weights hold no trained pooler; give {_CHOICES}")
    return "pooler_output", None
