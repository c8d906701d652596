"""Copies of an encoder that are trained, stored as tensors and filled again; the encoder itself is never touched."""

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from holdfast.core.encoder import Encoder
from holdfast.core.source_spec import parse
from holdfast.runtime.errors import BadValue, Unsupported
from holdfast.runtime.network import copy_of
from holdfast.runtime.privacy import public
from holdfast.sources.encoders.shared.weights import fill

PREFIX = "network."


def trainable(encoder: Encoder) -> Encoder:
    """Return a copy in training mode, all of whose weights have a gradient.

    Raises:
        HoldfastError: a mean over draws, a network that was traced, or whose weights are no parameters.
    """
    if encoder.draws is not None:
        raise Unsupported(
            f"encoder {encoder.name!r}: expected a network to train, got the mean of {encoder.draws} draws of one; "
            "leave draws out"
        )
    # Anywhere inside: one traced part is enough
    for module in encoder.modules():
        if isinstance(module, (torch.fx.GraphModule, torch.jit.ScriptModule)):
            raise Unsupported(
                f"encoder {encoder.name!r}: expected a torch module to train, got a traced one, which may keep weights "
                "as constants and knows no training mode; open the original network"
            )
    student = copy_encoder(encoder)
    # Whole numbers, such as counters, have no gradient
    floats = [value for value in student.module.parameters() if value.is_floating_point()]
    if not floats and any(value.is_floating_point() for value in student.module.buffers()):
        raise Unsupported(
            f"encoder {encoder.name!r}: expected weights that are parameters to train them, got buffers only; "
            "open the original network"
        )
    for value in floats:
        value.requires_grad_(True)
    student.module.train()  # the encoder around it stays in eval mode, its network does not
    return student


def state_of(encoder: Encoder) -> dict[str, Tensor]:
    """Return the weights and buffers of an encoder's network, each with memory of its own, as `network.NAME`."""
    state = encoder.module.state_dict().items()
    return {f"{PREFIX}{name}": value.detach().clone() for name, value in state if isinstance(value, Tensor)}


def copy_with_state(encoder: Encoder, state: Mapping[str, Tensor]) -> Encoder:
    """Return a copy of an encoder, frozen, with the weights and buffers that `state_of` gave."""
    twin = copy_encoder(encoder)
    tensors = {name.removeprefix(PREFIX): value for name, value in state.items() if name.startswith(PREFIX)}
    fill(twin.module, tensors, f"what was fine-tuned of {encoder.name!r}")
    return twin


def copy_encoder(encoder: Encoder, network: nn.Module | None = None) -> Encoder:
    """Return the same encoder, frozen, with a network of its own (a copy, or the one that is given), on its device."""
    module = copy_of(encoder.module) if network is None else network
    twin = Encoder(
        module,
        mean=encoder.mean,
        std=encoder.std,
        geometry=encoder.geometry,
        name=encoder.name,
        origin=encoder.origin,
        root=encoder.root,
        draws=encoder.draws,
        straight_through=encoder.straight_through,
    )
    twin.seed = encoder.seed
    return twin.to(encoder.device)


def save(encoder: Encoder, path: Path, about: Mapping[str, str]) -> None:
    """Write the weights of an encoder's network to a safetensors file, as `?weights=FILE` of its source reads them.

    Args:
        encoder: the encoder.
        path: the file.
        about: further metadata.
    """
    root = encoder.module.get_submodule(encoder.root)
    # Only tensors: a state dict may hold what modules add to it
    state = {name: value for name, value in root.state_dict().items() if isinstance(value, Tensor)}
    # On the CPU, contiguous and apart, for safetensors refuses tensors that share memory
    state = {name: value.detach().cpu().contiguous().clone() for name, value in state.items()}
    # `repr` keeps every digit
    mean, std = (",".join(map(repr, values)) for values in (encoder.mean, encoder.std))
    # Which format it came from, since names alone may fit several
    noted = {"format": str(encoder.origin["format"])} if "format" in encoder.origin else {}
    save_file(state, path, public({"mean": mean, "std": std, **noted, **about}))


def with_weights(spec: str, path: str | Path) -> str:
    """Return an encoder's spec with the weights in a file; a `file:` spec becomes that file's.

    Raises:
        HoldfastError: a path that a `file:` spec cannot say.
    """
    source, name, options = parse(spec)
    # What chose among the old weights means nothing for the new ones
    kept = {key: value for key, value in options.items() if key not in ("weights", "prefix", "ema", "seed", "label")}
    if source == "file" or (source is None and name.endswith(".safetensors")):
        if "?" in str(path):
            raise BadValue(f"expected a path without '?', which begins the options of file:PATH, got {str(path)!r}")
        # The file says mean and std itself
        kept, head = {key: value for key, value in kept.items() if key not in ("mean", "std")}, f"file:{path}"
    else:
        kept, head = {**kept, "weights": str(path)}, spec.strip().partition("?")[0]
    # Readable where it can be: only what would end the value is quoted
    texts = [f"{key}={quote(value, safe='/:.,~-_')}" for key, value in kept.items()]
    return "?".join([head, "&".join(texts)]) if texts else head
