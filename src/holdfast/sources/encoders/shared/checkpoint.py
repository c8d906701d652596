"""Weights files as their authors wrote them: read as data, prefixes taken away, heads kept apart."""

import re
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from typing import Any

from torch import Tensor, nn

from holdfast.runtime.errors import HoldfastError, Mismatch, Missing, UnknownName
from holdfast.sources.encoders.shared.formats import FORMATS, PLAIN, Format
from holdfast.sources.encoders.shared.heads import head, last_linear, sequence, within
from holdfast.sources.encoders.shared.naming import PREFIXES, TABLES, WRAPPERS, Choice, Place, by_bare_names, locate
from holdfast.sources.encoders.shared.stored import read_stored

LAYERS = {
    "pooled": "what the last pooling gives, in front of any head",
    "projection": "the output of the head that the file brings",
    "projection.last": "the last linear layer of that head, applied to the pooled features",
    "prediction": "the output of the head behind the projection",
}
"""Layers that `layer=` names alike for every checkpoint, whatever its network calls them."""

_HEADS = ("projection", "prediction")


@dataclass(frozen=True)
class Checkpoint:
    """The tensors of a weights file in the names of a network.

    Attributes:
        path: the file.
        place: where it keeps them, and in which format.
        state: of the encoder without its classifier: name in the network -> tensor.
        heads: "projection" and "prediction", where the file brings them: name within the head -> tensor.
        metadata: what the file says of itself, such as "mean" and "std" (comma separated).
        wrappers: what was taken out of its names, such as "module".
        left: beginnings of names that no part of the encoder reads, such as "encoder_k" and "queue".
        converted: by whom they were brought to the network's names and sizes; "": they have them.
    """

    path: str
    place: Place
    state: dict[str, Tensor]
    heads: dict[str, dict[str, Tensor]]
    metadata: dict[str, str] = field(default_factory=dict)
    wrappers: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    converted: str = ""

    @property
    def format(self) -> Format:
        """Which format it is."""
        return self.place.format

    @property
    def origin(self) -> dict[str, object]:
        """What the record says of it: every choice that was made, and what was left out."""
        facts = {
            "format": "" if self.format.name == PLAIN.name else self.format.name,
            "prefix": self.place.prefix,
            "wrappers": ", ".join(self.wrappers),
            "copy": self.place.chosen,
            "converted": self.converted,
            "left out": ", ".join(self.left),
        }
        return {name: fact for name, fact in facts.items() if fact}

    def find_build_arguments(self, model: str) -> Mapping[str, Any]:
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
            raise Missing(f"weights file {self.path!r} brings no {name}, expected one of its layers: {has}")
        built = {
            name: head(tensors, self.format.activation, f"{self.path!r}, {name}")
            for name, tensors in self.heads.items()
        }
        if layer == "projection.last":
            return last_linear(built["projection"], f"{self.path!r}, projection")
        return sequence(built) if layer == "prediction" else built.get("projection")


def read_checkpoint(
    path: str,
    network: nn.Module,
    classifier: Collection[str] = (),
    choice: Choice | None = None,
    *,
    aside: Collection[str] = (),
) -> Checkpoint:
    """Return the weights in a file in the names of a network.

    Args:
        path: safetensors, or what torch.save wrote: a state dict, or a table that holds one.
        network: asked for its names alone.
        classifier: where it has its classifier, which a checkpoint replaces by heads of its own or leaves out.
        choice: which of several copies in the file is meant.
        aside: heads that the encoder never has, whoever keeps them.

    Raises:
        HoldfastError: no such file, one that holds more than data, names that begin as no known format's do, several
            copies of which nothing tells which is meant.
    """
    return align_checkpoint(path, *read_stored(path), network, classifier, choice, aside)


def align_checkpoint(
    path: str,
    stored: Mapping[str, Tensor],
    metadata: dict[str, str],
    network: nn.Module,
    classifier: Collection[str] = (),
    choice: Choice | None = None,
    aside: Collection[str] = (),
) -> Checkpoint:
    """Return what a file holds, which is read already, in the names of a network; see `read_checkpoint`."""
    bare = by_bare_names(stored)
    state = {name: stored[own] for name, own in bare.items()}
    own = [name for name, value in network.state_dict().items() if isinstance(value, Tensor)]
    names = by_bare_names(own)  # the network may be wrapped itself
    # Old files have no counters of batches, and heads take the place of the classifier
    wanted = {name for name in names if not name.endswith("num_batches_tracked") and not _under(name, classifier)}
    formats = [_find_format(metadata["format"])] if "format" in metadata else FORMATS
    place = locate(state, wanted, formats, choice or Choice(), path)
    if place is None:
        raise _unknown(path, state, wanted)
    checkpoint = _split(path, place, state, metadata, classifier, aside)
    taken = {part for own in stored for part in own.split(".") if part in WRAPPERS} if bare.keys() != stored else ()
    own_names = {names.get(name, name): value for name, value in checkpoint.state.items()}
    return replace(checkpoint, state=own_names, wrappers=tuple(sorted(taken)))


def _find_format(name: str) -> Format:
    """Return the format whose encoder was written again, by names of its network."""
    form = next((form for form in FORMATS if form.name == name), PLAIN)
    return replace(form, encoder="", marks=(), projection="", prediction="", renamed=())


def _under(key: str, places: Collection[str]) -> bool:
    return any(key.startswith(f"{place}.") for place in places)


def _split(
    path: str,
    place: Place,
    whole: Mapping[str, Tensor],
    metadata: dict[str, str],
    classifier: Collection[str],
    aside: Collection[str],
) -> Checkpoint:
    """Return the encoder and its heads, and the beginnings of what is neither."""
    form, inside, state = place.format, dict(place.inside), within(whole, place.root)
    heads = {name: within(state, getattr(form, name)) for name in _HEADS if getattr(form, name)}
    # What stands where the network has its classifier is a head of the checkpoint
    own = next((tensors for start in classifier if (tensors := within(inside, f"{start}."))), {})
    if own and all(name.partition(".")[0] in _HEADS for name in own):  # heads that were written again
        heads = {name: within(own, f"{name}.") for name in _HEADS}
    else:
        heads = {"projection": own} | heads
    starts = tuple(start for start in (form.encoder, form.projection, form.prediction) if start)
    if "mean" in form.marks:  # the network normalises by itself
        numbers = {key: state[key].flatten().tolist() for key in ("mean", "std")}
        metadata = metadata | {key: ",".join(f"{value:.9g}" for value in values) for key, values in numbers.items()}
    # of what is beside the encoder, all is left out; what is among its tensors must fit
    others = [name for name in whole if not name.startswith(place.root) or name.startswith(place.beside)]
    inside = {name: value for name, value in inside.items() if not (place.root + name).startswith(place.beside)}
    if form.encoder:
        others += [f"{place.root}{name}" for name in state if not name.startswith(starts)]
    # Marks stand beside the encoder's own tensors, and are left out with all below them
    elif form.marks:
        others += [f"{place.root}{name}" for name in state if name.startswith(form.marks)]
        inside = {name: value for name, value in inside.items() if not name.startswith((*starts, *form.marks))}
    others += [f"{place.prefix}{name}" for name in inside if _under(name, aside)]
    inside = {name: value for name, value in inside.items() if not _under(name, (*classifier, *aside))}
    # Without those that the file does not bring
    heads = {name: tensors for name, tensors in heads.items() if tensors}
    return Checkpoint(path, place, inside, heads, metadata, left=_beginnings(others, place))


def _beginnings(names: list[str], place: Place) -> tuple[str, ...]:
    """Return how names begin, as far as the encoder's prefix goes, without the table in which all of them are."""
    table = f"{place.root.partition('.')[0]}."
    inner = [name.removeprefix(table) for name in names] if table[:-1] in TABLES else names
    # The table itself says nothing
    depth = max(place.prefix.removeprefix(table).count("."), 1)
    return tuple(dict.fromkeys(".".join(name.split(".")[:depth]) for name in inner))


def _unknown(path: str, state: Mapping[str, Tensor], wanted: Collection[str]) -> HoldfastError:
    """Return the error for a file none of whose names is one of the network's."""
    # What stands before names that end as those of the network do
    starts = Counter(name[: -len(key)] for key in wanted for name in state if name.endswith(f".{key}"))
    if not starts:
        held = ", ".join(f"{name} {list(value.shape)}" for name, value in list(state.items())[:3]) or "no tensors"
        more = f" and {len(state) - 3} more" if len(state) > 3 else ""
        return Mismatch(
            f"weights file {path!r} holds no weights of this network ({min(wanted, default='none')} and others), but "
            f"{held}{more}; give a file of the whole encoder; a head alone is one for a probe: trained[path=FILE]"
        )
    beginning = starts.most_common(1)[0][0]
    known = sorted({*(form.encoder for form in FORMATS if form.encoder), *(f"{word}." for word in PREFIXES)})
    # All ends of the beginning, "a.b.c.", "b.c.", "c.", for a wrapper may stand before a known word
    ends = ["".join(parts[i:]) for parts in [re.findall(r"[^.]*\.", beginning)] for i in range(len(parts))]
    closest = max(known, key=lambda prefix: max(SequenceMatcher(None, prefix, end).ratio() for end in ends))
    return UnknownName(
        f"weights file {path!r}: its names begin with {beginning!r}, which is not a known prefix; the closest is "
        f"{closest!r}, known are {', '.join(known)} and module. before them; where these are the encoder's weights, "
        f"say prefix={beginning.removesuffix('.')}"
    )
