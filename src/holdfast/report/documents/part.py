"""A part, a profile, or both: what it asks, its formula, its parameters, where it was published."""

import inspect
import re
from collections.abc import Iterator, Mapping
from typing import Any

from rich.text import Text

from holdfast.auditing.profile_files import profile_names
from holdfast.core import registry
from holdfast.report.bibliography import spell_out
from holdfast.report.document import Block, Document, Heading, Verbatim
from holdfast.report.documents import profile
from holdfast.report.parts import TAKEN, VECTORS, catalogue, read_headline
from holdfast.report.table import Table
from holdfast.runtime.errors import HoldfastError, UnknownName, unknown
from holdfast.runtime.guess import format_suggestions
from holdfast.runtime.outline import function_doc, method_doc

FACTS = {"Question": "question", "How to read it": "how_to_read", "Source": "reference", "Better": "better"}
"""What a part may say of itself: titles, and the constants of its class."""


def document(name: str) -> Document:
    """Return what there is to say of all that has a name: a measure may be called like its profile."""
    if name.partition(":")[0] == VECTORS:
        return [*_explain_vectors()]
    parts = [(kind, registry.find_outline(kind, name)) for kind in registry.KINDS if name in registry.names(kind)]
    own = name in profile_names() or name.endswith(".toml")
    if not parts and not own:
        raise _unknown(name)
    shown = [*profile.document(name), *([Text("")] if parts else [])] if own else []
    return [*shown, *(block for kind, part in parts for block in _explain(kind, name, part))]


def _explain_vectors() -> Iterator[Block]:
    """Yield what stored vectors are opened of."""
    lines = catalogue([VECTORS])[VECTORS]
    yield Heading(
        Text.assemble((f"{VECTORS}:", "bold"), " vectors that are stored, in the place of an encoder\n"), level=1
    )
    about = function_doc(f"holdfast.sources.{VECTORS}.open", "open_vectors")
    for paragraph in about.partition("\n\nRaises:")[0].split("\n\n"):
        yield from _read_paragraph(paragraph)
    yield Table(("", ""), [[Text(name, "bold"), line] for name, line in lines.items()], words=(0, 1))


def _unknown(name: str) -> HoldfastError:
    """Return the error for a name that nothing has; with the encoders that have it, if any."""
    from holdfast.sources.encoders import opens

    encoders = [f"{source}:{name}" for source in registry.names("encoders") if name in opens(source)]
    if encoders:
        return UnknownName(f"unknown part {name!r}{format_suggestions(encoders)} which are encoders")
    parts = (part for kind in registry.KINDS for part in registry.names(kind))
    return unknown("part", name, {*profile_names(), *parts, VECTORS})


def _explain(kind: str, name: str, part: Any) -> Iterator[Block]:
    """Yield what a part is, what it asks, and its parameters."""
    yield Heading(Text.assemble((name, "bold"), f" ({kind.rstrip('s')}): {read_headline(kind, name)}\n"), level=1)
    # A source is explained by what it opens
    opens = kind in TAKEN
    about = _read_opening(kind, name, part) if opens else inspect.getdoc(part) or ""
    for paragraph in about.partition("\n\nRaises:")[0].split("\n\n"):
        yield from _read_paragraph(paragraph)
    if opens:
        yield Text.assemble(("All take: ", "bold"), TAKEN[kind])
        return
    for title, key in FACTS.items():
        if isinstance(text := getattr(part, key, None), str):
            yield Text.assemble((f"{title}: ", "bold"), f"{spell_out(text)}\n")
    if parameters := inspect.signature(part).parameters.values():
        meanings = _read_meanings(part)
        rows = [[Text(each.name, "bold"), _describe(each, meanings)] for each in parameters]
        yield Heading("Parameters")
        yield Table(("", ""), rows, words=(0, 1))


def _read_opening(kind: str, name: str, part: Any) -> str:
    """Return what a source says of what it opens; of Holdfast's own it is read, not imported."""
    module = registry.home(kind, name)
    return method_doc(module, "open") if module is not None else inspect.getdoc(part.open) or ""


def _read_paragraph(paragraph: str) -> Iterator[Block]:
    """Yield a paragraph of a docstring; its lines are joined, for a terminal is not as wide as the source."""
    title, _, rest = paragraph.partition("\n")
    if title == "Attributes:":  # are told with their defaults
        return
    if title.endswith(":") and rest.startswith(" "):
        yield Text(title)
        yield Verbatim(f"{rest}\n")
    elif paragraph.startswith(" "):
        yield Verbatim(f"{paragraph}\n")
    else:
        # Of an enumeration each entry begins a line, and what belongs to it is indented
        entries = re.split(r"\n(?! )", paragraph) if "\n " in paragraph else [paragraph]
        *others, last = (spell_out(" ".join(entry.split())) for entry in entries)
        yield from map(Text, [*others, f"{last}\n"])


def _read_meanings(part: type) -> dict[str, str]:
    """Return what a class, and those above it, say of their parameters."""
    meanings: dict[str, str] = {}
    for above in part.__mro__:
        entries = inspect.cleandoc(above.__doc__ or "").partition("Attributes:\n")[2].partition("\n\n")[0]
        for entry in re.split(r"\n    (?=\w)", entries):
            name, _, meaning = entry.partition(":")
            meanings.setdefault(name.strip(), " ".join(meaning.split()))
    return meanings


def _describe(parameter: inspect.Parameter, meanings: Mapping[str, str]) -> Text:
    """Return what a parameter means, and its default."""
    default = "required" if parameter.default is parameter.empty else f"default: {parameter.default!r}"
    return Text.assemble(f"{meanings.get(parameter.name, '')} ".lstrip(), (f"({default})", "dim"))
