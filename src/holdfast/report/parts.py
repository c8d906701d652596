"""Parts in the terminal: what there is, and what one of them asks and takes."""

import inspect
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from holdfast.auditing.profile_files import descriptions, profile_names
from holdfast.core import registry
from holdfast.core.spec_string import parse
from holdfast.runtime.errors import HoldfastError, unknown
from holdfast.runtime.guess import format_suggestions
from holdfast.runtime.outline import constant, headline

LISTED = (*registry.KINDS, "profiles")
"""Kinds of what can be named."""


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
            "all take": (
                "?label= layer= pool= weights=default|random|FILE seed= mean= std= size= "
                "resize=PIXELS|squash crop= interpolation="
            ),
        }
    if kind == "data":
        shaped = "balance=long_tail|uniform ratio= balance_seed="
        return {
            **_sources("data"),
            "all take": f"?size=H|HxW channels=1|3 skip_corrupt=true skip_duplicates=true {shaped}",
        }
    if kind == "profiles":
        return descriptions()
    return {name: _first_line(kind, name) for name in registry.names(kind)}


def _sources(kind: str) -> dict[str, str]:
    """Return a line for each source of a kind: what it opens, and the extra that it needs."""
    parts: dict[str, Any] = {name: registry.find_outline(kind, name) for name in registry.names(kind)}
    return {f"{name}:": part.about + (f" [extra {part.extra}]" if part.extra else "") for name, part in parts.items()}


def _first_line(kind: str, name: str) -> str:
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
    suffix = Path(name).suffix.lower()
    sources: list[Any] = [registry.find_outline("encoders", source) for source in registry.names("encoders")]
    return source is not None or (bool(suffix) and suffix in {source.suffix for source in sources})


def print_part(name: str, console: Console) -> None:
    """Explain a part: what it asks, its formula, its parameters, where it was published; or what a profile asks."""
    # A profile, a part, or both
    kinds = [(kind, registry.find_outline(kind, name)) for kind in registry.KINDS if name in registry.names(kind)]
    if name in profile_names() or name.endswith(".toml"):
        from holdfast.report.documents.profile import document
        from holdfast.report.media import print_document

        print_document(document(name), console)
        if kinds:  # a measure may be called like its profile
            console.print()
    elif not kinds:
        from holdfast.sources.encoders import opens

        known = {*profile_names(), *(part for kind in registry.KINDS for part in registry.names(kind))}
        encoders = [f"{source}:{name}" for source in registry.names("encoders") if name in opens(source)]
        if encoders:
            raise HoldfastError(f"unknown part {name!r}{format_suggestions(encoders)} which are encoders")
        raise unknown("part", name, known)

    # What it is, what its class says of its parameters, and their defaults
    for kind, part in kinds:
        console.print(Text.assemble((name, "bold"), f" ({kind.rstrip('s')}): {_first_line(kind, name)}\n"))
        console.print(_reflow(inspect.getdoc(part) or ""), "\n")
        if inherited := _find_inherited_docs(part):
            console.print("Further parameters:", "\n".join(["", *inherited]), "\n")
        for title, key in (("Question", "question"), ("How to read it", "how_to_read"), ("Source", "reference")):
            if isinstance(text := getattr(part, key, None), str):
                console.print(Text.assemble((f"{title}:", "bold"), f" {text}"))
        if isinstance(better := getattr(part, "better", None), str):
            console.print(Text.assemble(("Better:", "bold"), f" {better}"))
        table = Table("parameter", "default", title="Parameters", title_justify="left", box=None, pad_edge=False)
        for parameter in inspect.signature(part).parameters.values():
            default = "required" if parameter.default is parameter.empty else repr(parameter.default)
            table.add_row(parameter.name, default)
        console.print("", table)


def _find_inherited_docs(part: type) -> list[str]:
    """Return what classes above a part say about parameters that its own docstring does not explain."""
    own = inspect.getdoc(part) or ""
    unexplained = [name for name in inspect.signature(part).parameters if f"\n    {name}: " not in own]
    entries = {}
    for above in part.__mro__[1:]:
        for entry in re.split(r"\n    (?=\w)", inspect.cleandoc(above.__doc__ or "").partition("Attributes:")[2]):
            entries.setdefault(entry.partition(":")[0].strip(), " ".join(entry.split()))
    return [f"    {entries[name]}" for name in unexplained if name in entries]


def _reflow(doc: str) -> str:
    """Join the lines of each paragraph, so that the terminal breaks them where it is wide; indented ones stay."""
    paragraphs = doc.split("\n\n")
    return "\n\n".join(p if "\n " in p else " ".join(p.split("\n")) for p in paragraphs)
