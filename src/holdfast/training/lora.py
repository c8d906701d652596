"""Low-rank adapters (LoRA): small layers beside those of a network, which learn alone and are then added to them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from re import escape
from typing import Any

import torch
from torch import Tensor, nn

from holdfast.core import Encoder, Images
from holdfast.runtime.checked import Checked, Count, Positive
from holdfast.runtime.errors import BadValue, Unsupported, first_line, unknown
from holdfast.runtime.optional import optional
from holdfast.sources.encoders.shared.weights import fix_seed

LAYERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
"""Layers that have adapters."""

ADAPTER = "default"
"""What peft calls the one adapter of a layer."""


@dataclass(frozen=True)
class Lora(metaclass=Checked):
    """W + α/r · B A in the place of W: A [r, in] and B [out, r] learn, all else stays, BatchNorm's statistics too.

    Attributes:
        targets: names or patterns of layers, linear ones and convolutions: "qkv" stands for every `….qkv`.
        rank: r.
        alpha: α.

    Source: Hu et al. (2022), "LoRA: low-rank adaptation of large language models", section 4.1.
    """

    targets: tuple[str, ...]
    rank: Count = 8
    alpha: Positive = 16.0

    def __post_init__(self) -> None:
        if not self.targets:
            raise BadValue("lora: expected targets, names of layers such as qkv, got none")

    def add_to(self, encoder: Encoder, seed: int) -> None:
        """Put adapters beside the layers of an encoder; nothing else of it learns from then on."""
        # Where it is used: importing it takes a second
        peft = optional("peft", "peft", "peft", "lora")
        network = encoder.module.get_submodule(encoder.root)
        names = _find_layers(network, self.targets)
        # One expression of whole names: peft would take each for the end of others
        asked = peft.LoraConfig(
            r=self.rank, lora_alpha=self.alpha, target_modules="|".join(map(escape, names)), bias="none"
        )
        try:
            with fix_seed(seed):
                peft.inject_adapter_in_model(asked, network, ADAPTER)
        except Exception as error:  # whatever peft makes of a user's layers
            raise Unsupported(
                f"lora: no adapter fits into {encoder.name!r}: {first_line(error)}; choose other targets"
            ) from error
        # What peft notes on a network for its own files; the layers do without
        vars(network).pop("peft_config", None)
        # peft knows the weights of the network it was given, not those around it
        for name, value in encoder.module.named_parameters():
            value.requires_grad_("lora_" in name and value.requires_grad)

    def units(self, encoder: Encoder) -> Mapping[Tensor, float]:
        """Return units of the rate for every B, which begins at 0 and so has no size of its own.

        A step η u of all entries of B moves those of W by about α/r · η u · √r · rms(A), which is to be η rms(W).
        """
        return {
            layer.lora_B[ADAPTER].weight: float(
                _rms(layer.get_base_layer().weight)
                / (layer.scaling[ADAPTER] * self.rank**0.5 * _rms(layer.lora_A[ADAPTER].weight))
            )
            for layer in _adapters(encoder.module)
        }


def check_adapters(encoder: Encoder, x: Images) -> None:
    """Refuse adapters that the network does not run, as those of layers whose weights others read."""
    learning = {name: value for name, value in encoder.module.named_parameters() if value.requires_grad}
    encoder.module.eval()  # the images must move no statistics
    with fix_seed(0):
        total = encoder(x.to(encoder.device)).sum()
    encoder.module.train()
    gradients = torch.autograd.grad(total, list(learning.values()), allow_unused=True)
    # None, and not 0: A has a gradient of 0 before the first step, for B is 0
    unused = [name for name, gradient in zip(learning, gradients, strict=True) if gradient is None]
    if unused:
        layer = unused[0].partition(".lora_")[0]
        raise Unsupported(
            f"lora: expected layers that the network runs, got {layer}, whose weights are read without it (as torch's "
            "MultiheadAttention reads its out_proj); choose other targets"
        )


def merge(encoder: Encoder) -> Encoder:
    """Add the adapters of an encoder to its weights and take them away; it is changed itself, and returned."""
    inside = {id(layer): layer for layer in _adapters(encoder.module)}
    # A list, for the loop changes what it goes through
    for module in list(encoder.module.modules()):
        for name, child in list(module.named_children()):
            if adapted := inside.get(id(child)):
                adapted.merge()
                module.register_module(name, adapted.get_base_layer())
    return encoder


def _adapters(network: nn.Module) -> list[Any]:
    """Return the layers with adapters, classes of a package that may be absent."""
    return [layer for layer in network.modules() if hasattr(layer, "lora_A") and hasattr(layer, "get_base_layer")]


def _find_layers(network: nn.Module, targets: Sequence[str]) -> list[str]:
    """Return the names of layers that a pattern matches, as a whole or from a dot on."""
    names = [name for name, layer in network.named_modules() if name and isinstance(layer, LAYERS)]
    for pattern in targets:
        if not any(_is_meant(name, pattern) for name in names):
            raise unknown("linear layer or convolution for lora", pattern, names)
    found = [name for name in names if any(_is_meant(name, pattern) for pattern in targets)]
    # By all names of all weights: what is added to one would be added to the others, which have no adapter
    places = Counter(id(value) for _, value in network.named_parameters(remove_duplicate=False))
    for name in found:
        if places[id(network.get_submodule(name).weight)] > 1:
            raise Unsupported(
                f"lora: expected layers with weights of their own, got {name}, whose weights stand in several places; "
                "choose other targets"
            )
    return found


def _is_meant(name: str, pattern: str) -> bool:
    return fnmatchcase(name, pattern) or fnmatchcase(name, f"*.{pattern}")


def _rms(value: Tensor) -> Tensor:
    return value.detach().square().mean().sqrt()
