"""What there is: everything that can be named, each with a line, and whether a text names an encoder."""

import inspect
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from holdfast.auditing.profile_files import descriptions
from holdfast.core import registry
from holdfast.core.source_spec import parse
from holdfast.runtime.outline import constant, headline

VECTORS = "vectors"
"""What stands before the ":" of stored vectors, which compare-index, parity and audit-index take."""

LISTED = (*registry.KINDS, VECTORS, "profiles")
"""Kinds of what can be named."""


TAKEN = {
    "encoders": (
        "?label= layer= pool= weights=default|random|FILE seed= mean= std= size= "
        "resize=PIXELS|squash crop= interpolation= resampler="
    ),
    "data": (
        "?size=H|HxW channels=1|3 skip_corrupt=true skip_duplicates=true balance=long_tail|uniform ratio= balance_seed="
    ),
    VECTORS: "?label= ids=FILE truncate=NUMBERS normalise=true quantise=int8|binary",
}
"""Options that every source of a kind takes."""


def catalogue(kinds: Iterable[str] = LISTED) -> dict[str, dict[str, str]]:
    """Return everything that can be named, kind by kind, with one line each."""
    return {kind: _entries(kind) for kind in kinds}


def _entries(kind: str) -> dict[str, str]:
    """Return what of one kind can be named, with one line each; what is Holdfast's own is read, not imported."""
    if kind == "encoders":
        trained, networks = (constant("holdfast.sources.encoders.zoo", name) for name in ("SHIPPED", "NETWORKS"))
        zoo = trained | {name: network.about for name, network in networks.items()}
        return {
            **_sources("encoders"),
            **{f"zoo:{name}": line for name, line in zoo.items()},
            "series:": "all checkpoints in a folder, in order, series:FOLDER?pattern=*.safetensors&label=",
            "all take": TAKEN[kind],
        }
    if kind == "data":
        return {**_sources("data"), "all take": TAKEN[kind]}
    if kind == VECTORS:
        return {**constant(f"holdfast.sources.{VECTORS}.open", "ABOUT"), "all take": TAKEN[kind]}
    if kind == "profiles":
        return descriptions()
    return {name: read_headline(kind, name) for name in registry.names(kind)}


def _sources(kind: str) -> dict[str, str]:
    """Return a line for each source of a kind: what it opens, and the extra that it needs."""
    parts: dict[str, Any] = {name: registry.find_outline(kind, name) for name in registry.names(kind)}
    return {f"{name}:": part.about + (f" [extra {part.extra}]" if part.extra else "") for name, part in parts.items()}


def read_headline(kind: str, name: str) -> str:
    """Return the sentence that a part's file begins with; files of others may hold several parts."""
    if (module := registry.home(kind, name)) is not None:
        return headline(module)
    part = registry.find(kind, name)
    module_of_others = inspect.getmodule(part)
    docs = (inspect.getdoc(part), module_of_others and inspect.getdoc(module_of_others))
    return next(filter(None, docs), "").split("\n")[0]


def names_encoder(text: str) -> bool:
    """Whether a text is an encoder spec: it names a source, or a file that one opens."""
    source, name, _ = parse(text)
    if source == VECTORS:
        return False
    suffix = Path(name).suffix.lower()
    sources: list[Any] = [registry.find_outline("encoders", source) for source in registry.names("encoders")]
    return source is not None or (bool(suffix) and suffix in {source.suffix for source in sources})
