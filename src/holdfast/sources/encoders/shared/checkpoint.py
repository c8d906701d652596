"""Weights files as their authors wrote them: read as data, prefixes taken away, heads kept apart."""

import argparse
import pickle
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from typing import Any

import torch
from torch import Tensor, nn

from holdfast.runtime.errors import HoldfastError, first_line, os_reason
from holdfast.sources.encoders.shared.formats import FORMATS, PLAIN, Format
from holdfast.sources.encoders.shared.heads import head, last_linear, sequence, within
from holdfast.sources.encoders.shared.weights import read_safetensors

LAYERS = {
    "pooled": "what the last pooling gives, in front of any head",
    "projection": "the output of the head that the file brings",
    "projection.last": "the last linear layer of that head, applied to the pooled features",
    "prediction": "the output of the head behind the projection",
}
"""Layers that `layer=` names alike for every checkpoint, whatever its network calls them."""

_CONTAINERS = ("state_dict", "model", "model_state", "model_state_dict")
_HEADS = ("projection", "prediction")


@dataclass(frozen=True)
class Checkpoint:
    """The tensors of a weights file in the names of a network.

    Attributes:
        path: the file.
        format: which one it is.
        state: of the encoder without its classifier: name in the network -> tensor.
        heads: "projection" and "prediction", where the file brings them: name within the head -> tensor.
        metadata: what the file says of itself, such as "mean" and "std" (comma separated).
        left: beginnings of names that no part of the encoder reads, such as "encoder_k" and "queue".
    """

    path: str
    format: Format
    state: dict[str, Tensor]
    heads: dict[str, dict[str, Tensor]]
    metadata: dict[str, str] = field(default_factory=dict)
    left: tuple[str, ...] = ()

    @property
    def origin(self) -> dict[str, object]:
        """What the record says of it."""
        if self.format.name == PLAIN.name:
            return {}
        facts: dict[str, object] = {"format": self.format.name}
        return facts | ({"left out": ", ".join(self.left)} if self.left else {})

    def built_with(self, model: str) -> Mapping[str, Any]:
        """Return the arguments that the authors' network of this name has and the library's has not."""
        return self.format.built_with.get(model, {})

    def head(self, layer: str | None) -> nn.Module | None:
        """Return what stands behind the pooled features where `layer` is the representation; None: nothing.

        Raises:
            HoldfastError: a named layer that the file does not bring.
        """
        name = (layer or "").partition(".")[0]
        if layer in LAYERS and name in _HEADS and name not in self.heads:
            has = ", ".join(("pooled", *self.heads))
            raise HoldfastError(f"weights file {self.path!r} brings no {name}, expected one of its layers: {has}")
        built = {
            name: head(tensors, self.format.activation, f"{self.path!r}, {name}")
            for name, tensors in self.heads.items()
        }
        if layer == "projection.last":
            return last_linear(built["projection"], f"{self.path!r}, projection")
        return sequence(built) if layer == "prediction" else built.get("projection")


def read_checkpoint(path: str, network: nn.Module, classifier: Collection[str] = ()) -> Checkpoint:
    """Return the weights in a file in the names of a network.

    Args:
        path: safetensors, or what torch.save wrote: a state dict, or a dict that holds one.
        network: asked for its names alone.
        classifier: where it has its classifier, which a checkpoint replaces by heads of its own or leaves out.

    Raises:
        HoldfastError: no such file, one that holds more than data, names that begin as no known format's do.
    """
    state, metadata = _read(path)
    wanted = {key for key in network.state_dict() if not key.endswith("num_batches_tracked")}
    wanted = {key for key in wanted if not _under(key, classifier)}
    formats = [_noted(metadata["format"])] if "format" in metadata else FORMATS
    covered = [len(wanted & _inside(state, form).keys()) if _marked(state, form) else 0 for form in formats]
    if not any(covered) and (beginning := _beginning(state, wanted)):
        raise _unknown(path, beginning)
    chosen = formats[covered.index(max(covered))] if any(covered) else PLAIN  # the first of those that cover most
    return _split(path, chosen, state, metadata, classifier)


def _read(path: str) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Return (tensors by name without `module.`, metadata)."""
    try:
        with open(path, "rb") as file:
            start = file.read(10)
    except OSError as error:
        if isinstance(error, FileNotFoundError):
            return read_safetensors(path)  # says so
        raise HoldfastError(f"cannot read the weights {path!r}: {os_reason(error)}; give the path of a file") from error
    if start[8:10] == b'{"' or not start.startswith((b"PK", b"\x80")):  # torch.save writes zip archives or pickles
        state, metadata = read_safetensors(path)
    else:
        state, metadata = dict(_tensors(_unpickled(path))), {}
    bare = {re.sub(r"(^|\.)module\.", r"\1", name): value for name, value in state.items()}
    state = bare if len(bare) == len(state) else state
    return state, metadata


def _unpickled(path: str) -> object:
    try:
        with torch.serialization.safe_globals([argparse.Namespace]):  # the settings that training scripts keep
            held = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError, OSError) as error:
        raise HoldfastError(
            f"weights file {path!r} is not tensors alone, and nothing else is unpickled ({first_line(error)}); where "
            "you trust it, load it with torch and write its tensors with safetensors.torch.save_file(state_dict, path)"
        ) from error
    while isinstance(held, dict) and (name := next((n for n in _CONTAINERS if isinstance(held.get(n), dict)), None)):
        held = held[name]
    return held


def _tensors(held: object, start: str = "") -> Iterator[tuple[str, Tensor]]:
    """Yield (dotted name, tensor) of a dict of tensors and dicts; optimisers count theirs, these are passed over."""
    if isinstance(held, dict):
        for name, value in held.items():
            if isinstance(name, str) and name != "optimizer":
                yield from [(start + name, value)] if isinstance(value, Tensor) else _tensors(value, f"{start}{name}.")


def _noted(name: str) -> Format:
    """Return the format whose encoder was written again, by names of its network."""
    form = next((form for form in FORMATS if form.name == name), PLAIN)
    return replace(form, encoder="", marks=(), projection="", prediction="", renamed=())


def _marked(state: Mapping[str, Tensor], form: Format) -> bool:
    return all(any(name.startswith(mark) for name in state) for mark in form.marks)


def _inside(state: Mapping[str, Tensor], form: Format) -> dict[str, Tensor]:
    """Return the tensors of a format's encoder by the names of the network."""
    inside = within(state, form.encoder)
    for pattern, name in form.renamed:
        inside = {re.sub(pattern, name, key): value for key, value in inside.items()}
    return inside


def _under(key: str, places: Collection[str]) -> bool:
    return any(key.startswith(f"{place}.") for place in places)


def _split(
    path: str, form: Format, state: Mapping[str, Tensor], metadata: dict[str, str], classifier: Collection[str]
) -> Checkpoint:
    """Return the encoder and its heads, and the beginnings of what is neither."""
    inside, heads = (
        _inside(state, form),
        {name: within(state, getattr(form, name)) for name in _HEADS if getattr(form, name)},
    )
    own = next((tensors for place in classifier if (tensors := within(inside, f"{place}."))), {})
    if own and all(name.partition(".")[0] in _HEADS for name in own):  # heads that were written again
        heads = {name: within(own, f"{name}.") for name in _HEADS}
    else:
        heads = {"projection": own} | heads
    starts = tuple(start for start in (form.encoder, form.projection, form.prediction) if start)
    left: tuple[str, ...] = ()
    if "mean" in form.marks:  # the network normalises by itself
        numbers = {key: state[key].flatten().tolist() for key in ("mean", "std")}
        metadata = metadata | {key: ",".join(f"{value:.9g}" for value in values) for key, values in numbers.items()}
    if form.encoder or form.marks:  # of a plain file all must fit
        others = [name for name in state if not name.startswith(starts)]
        if not form.encoder:
            others = [name for name in others if name.startswith(form.marks)]
            inside = {name: value for name, value in inside.items() if not name.startswith((*starts, *form.marks))}
        depth = max(form.encoder.count("."), 1)
        left = tuple(dict.fromkeys(".".join(name.split(".")[:depth]) for name in others))
    inside = {name: value for name, value in inside.items() if not _under(name, classifier)}
    return Checkpoint(path, form, inside, {name: tensors for name, tensors in heads.items() if tensors}, metadata, left)


def _beginning(state: Mapping[str, Tensor], wanted: Collection[str]) -> str:
    """Return how most names begin that end as names of the network do; "" where none does."""
    starts = Counter(name[: -len(key)] for key in wanted for name in state if name.endswith(f".{key}"))
    return starts.most_common(1)[0][0] if starts else ""


def _unknown(path: str, beginning: str) -> HoldfastError:
    prefixes = sorted({form.encoder for form in FORMATS if form.encoder})
    ends = ["".join(parts[i:]) for parts in [re.findall(r"[^.]*\.", beginning)] for i in range(len(parts))]
    closest = max(prefixes, key=lambda prefix: max(SequenceMatcher(None, prefix, end).ratio() for end in ends))
    return HoldfastError(
        f"weights file {path!r}: its names begin with {beginning!r}, which is no known prefix; the closest is "
        f"{closest!r}, known are {', '.join(prefixes)} and module. before them; take the prefix away and write "
        "the rest with safetensors.torch.save_file"
    )
