"""Under which names a weights file keeps an encoder: behind which wrappers and prefixes, and in which copy."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from holdfast.core.source_spec import Options, boolean, take
from holdfast.runtime.errors import Ambiguous, Missing, UnknownName
from holdfast.sources.encoders.shared.formats import Format
from holdfast.sources.encoders.shared.heads import within

WRAPPERS = ("module", "_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module", "_forward_module")
"""What wraps a network or a part of it: data-parallel training, torch.compile, FSDP, checkpointing, DeepSpeed."""

AVERAGES = (
    "state_dict_ema", "model_ema", "ema_state_dict", "ema_model", "ema", "averaged", "averaged_model", "swa_model",
    "avg_model", "teacher",
)  # fmt: skip
"""What a running mean of the weights is kept under."""

TABLES = (
    "state_dict", "model_state_dict", "model_state", "model", "module", "net", "network", "state", "weights", "params",
)  # fmt: skip
"""What training scripts keep weights under; where the first and "model" hold different ones, timm takes the first."""

PREFIXES = ("backbone", "encoder", "trunk", "base_model", "student", "online", "online_network", "online_encoder")
"""What else stands before the names of an encoder, in any order and number."""

COUNTER = "n_averaged"
"""The tensor beside the weights of `torch.optim.swa_utils.AveragedModel`."""

_WORDS = frozenset((*AVERAGES, *TABLES, *PREFIXES, *WRAPPERS))  # the last stay where bare names would be the same


@dataclass(frozen=True)
class Choice:
    """Which of several copies in a file the user wants.

    Attributes:
        prefix: how its names begin; None: it is found.
        ema: whether it is the running mean; None: where there is one.
    """

    prefix: str | None = None
    ema: bool | None = None


def read_choice(options: Options, file: str | None = None) -> Choice:
    """Take `prefix=` and `ema=`; a source takes them before the common options.

    Args:
        options: what stood behind the `?`.
        file: of weights; None: the one that `weights=` names.

    Raises:
        HoldfastError: either without a file of weights.
    """
    choice = Choice(take(options, "prefix", str, None), take(options, "ema", boolean, None))
    if choice != Choice() and (file or options.get("weights", "default")) in ("default", "random"):
        raise Missing(f"spec {options.spec!r}: prefix= and ema= choose among weights in a file; add weights=FILE")
    return choice


@dataclass(frozen=True)
class Place:
    """Where a file keeps an encoder.

    Attributes:
        root: how all names of its format begin.
        format: how the encoder's names go on.
        inside: the encoder's tensors by the names of the network.
        averaged: whether it is a running mean of the weights.
        chosen: which copy it is, where there are several or it is a mean; "" where there is nothing to say.
        beside: prefixes of the other copies.
    """

    root: str
    format: Format
    inside: Mapping[str, Tensor]
    averaged: bool = False
    chosen: str = ""
    beside: tuple[str, ...] = ()

    @property
    def prefix(self) -> str:
        """What stands before the encoder's own names."""
        return self.root + self.format.encoder


def bare(name: str) -> str:
    """Return a name without what wraps a network or a part of it.

    Example:
        >>> bare("module._orig_mod.layer1._checkpoint_wrapped_module.0.weight")
        'layer1.0.weight'
    """
    return ".".join(part for part in name.split(".") if part not in WRAPPERS)


def by_bare_names(names: Iterable[str]) -> dict[str, str]:
    """Return bare name -> name; the names as they are where two would become one."""
    listed = list(names)
    found = {bare(name): name for name in listed}
    return found if len(found) == len(listed) else {name: name for name in listed}


def locate(
    state: Mapping[str, Tensor], wanted: Collection[str], formats: Sequence[Format], choice: Choice, path: str
) -> Place | None:
    """Return where a file keeps an encoder; None where none of its names is wanted.

    Args:
        state: the file's tensors by their bare names.
        wanted: the network's names.
        formats: how files may go on, the special before the general.
        choice: what the user wants.
        path: of the file, for errors.

    Raises:
        HoldfastError: what the user wants is not there, or copies differ and nothing tells which is meant.
    """
    start = "" if choice.prefix is None else _resolve_prefix(choice.prefix, state, path)
    copies: dict[frozenset[int], Place] = {}
    # The beginnings that may hold the encoder, as tables of what stands behind them
    most, parts = 1, {root: within(state, start + root) for root in _roots(within(state, start))}
    for form in formats:  # of places that hold the same tensors, the first is taken
        for root, part in parts.items():
            inside = form.encoder_of({name: value for name, value in part.items() if name != COUNTER})
            covered = wanted & inside.keys()
            # More of the network's names wins; as many make it one more copy
            if len(covered) >= most:
                copies, most = copies if len(covered) == most else {}, len(covered)
                place = Place(start + root, form, inside)
                averaged = _is_average(place.prefix) or f"{place.root}{COUNTER}" in state
                # By the identity of tensors: a file may name one copy twice
                copies.setdefault(frozenset(id(inside[name]) for name in covered), replace(place, averaged=averaged))
    return _choose_copy(list(copies.values()), choice, path) if copies else None


def _is_average(prefix: str) -> bool:
    return any(word in AVERAGES for word in prefix.split("."))


def _resolve_prefix(prefix: str, state: Mapping[str, Tensor], path: str) -> str:
    root = "".join(f"{part}." for part in bare(prefix).split(".") if part)
    if not any(name.startswith(root) for name in state):
        firsts = ", ".join(dict.fromkeys(name.partition(".")[0] for name in state))
        raise UnknownName(f"weights file {path!r}: none of its names begins with {root!r}; they begin with {firsts}")
    return root


def _roots(names: Iterable[str]) -> list[str]:
    """Return all beginnings of names that are known words alone, the shortest first."""
    found = {""}
    for name in names:
        start = ""
        # The last part is the tensor's own name
        for part in name.split(".")[:-1]:
            if part not in _WORDS:
                break
            start += f"{part}."
            found.add(start)
    return sorted(found, key=lambda root: (root.count("."), root))


def _choose_copy(copies: list[Place], choice: Choice, path: str) -> Place:
    """Return the copy that is meant: a running mean where there is one, as timm does, unless the user wants another."""
    means = [copy for copy in copies if copy.averaged]
    plain = [copy for copy in copies if not copy.averaged]
    kept = {None: means or plain, True: means, False: plain}[choice.ema]
    if not kept:
        wanted, got = ("the weights themselves", "their running mean") if means else ("a running mean", "weights")
        raise Missing(f"weights file {path!r}: expected {wanted}, got {got} alone; leave out ema=")
    # Equal copies are one, whatever they are called
    kept = sorted(_different(kept), key=lambda copy: _order(copy.prefix))
    first = kept[0]
    # timm prefers state_dict to model, where both are there
    if (rivals := kept[1:]) and [_order(copy.prefix) for copy in kept] != [0, 1]:
        places = " and at ".join(repr(copy.prefix) for copy in (first, *rivals))
        raise Ambiguous(
            f"weights file {path!r} holds different weights of this network at {places}; say which: "
            f"prefix={(first.prefix or rivals[0].prefix).removesuffix('.')}"
        )
    others = [copy for copy in (means if first in plain else plain) if copy is not first]
    said = []
    if first.averaged:
        said.append("a running mean of the weights" + "".join(f"; ema=false: {_at(copy)}" for copy in others[:1]))
    elif others:
        said.append(f"not the running mean; ema=true: {_at(others[0])}")
    said += [f"not {_at(copy)}" for copy in kept if copy is not first]
    # Prefixes that the chosen one begins with hold it, and are not beside it
    beside = tuple(copy.prefix for copy in copies if not first.prefix.startswith(copy.prefix))
    return replace(first, chosen="; ".join(said), beside=beside)


def _at(copy: Place) -> str:
    return copy.prefix.removesuffix(".") or "the others"


def _order(prefix: str) -> int:
    """Return the place of a prefix among the tables that timm looks for; behind them all others."""
    return {"state_dict": 0, "model": 1}.get(prefix.partition(".")[0], 2)


def _different(copies: list[Place]) -> list[Place]:
    """Return the copies that hold different values, of equal ones the first."""
    kept: list[Place] = []
    for copy in copies:
        if not any(_equal(copy.inside, other.inside) for other in kept):
            kept.append(copy)
    return kept


def _equal(first: Mapping[str, Tensor], second: Mapping[str, Tensor]) -> bool:
    # Tensors that only one of them has say nothing
    return all(name not in second or torch.equal(value, second[name]) for name, value in first.items())
