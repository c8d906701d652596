"""Parts in the terminal: what there is, and what one of them asks and takes."""

import inspect
import re
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from holdfast.auditing.profile import profile, profile_names, profile_table
from holdfast.core import registry
from holdfast.core.naming import named
from holdfast.runtime.errors import unknown
from holdfast.sources import data
from holdfast.sources.encoders.zoo import NETWORKS, SHIPPED


def catalogue() -> dict[str, dict[str, str]]:
    """Return everything that can be named, kind by kind, with one line each."""

    def lines(sources: dict[str, tuple[str, str | None]]) -> dict[str, str]:
        return {f"{key}:": text + (f" [extra {extra}]" if extra else "") for key, (text, extra) in sources.items()}

    opened: dict[str, Any] = {name: registry.find("encoders", name) for name in registry.names("encoders")}
    zoo = SHIPPED | {name: network.about for name, network in NETWORKS.items()}
    known = {"encoders": lines({name: (source.about, source.extra) for name, source in opened.items()})}
    known["encoders"] |= {f"zoo:{name}": line for name, line in zoo.items()}
    known["encoders"]["series:"] = "all checkpoints in a folder, in order, series:FOLDER?pattern=*.safetensors&label="
    known["encoders"]["all take"] = "?label= layer= pool= weights=default|random|FILE seed= mean= std= size="
    known["data"] = lines(data.SOURCES)
    shaped = "balance=long_tail|uniform ratio= balance_seed="
    known["data"]["all take"] = f"?size=H|HxW channels=1|3 skip_corrupt=true {shaped}"
    for kind in registry.KINDS[1:]:
        known[kind] = {name: _first_line(registry.find(kind, name)) for name in registry.names(kind)}
    known["profiles"] = {name: profile_table(name)["description"] for name in profile_names()}
    return known


def _first_line(part: type) -> str:
    """Return the sentence that a part's file begins with; files of other packages may only have a class docstring."""
    module = inspect.getmodule(part)
    doc = (module and inspect.getdoc(module)) or inspect.getdoc(part) or ""
    return doc.split("\n")[0]


def print_part(name: str, console: Console) -> None:
    """Explain a part: what it asks, its formula, its parameters, where it was published; or what a profile asks.

    Raises:
        HoldfastError: a name that nothing has.
    """
    found = [(kind, registry.find(kind, name)) for kind in registry.KINDS if name in registry.names(kind)]
    if name in profile_names() or name.endswith(".toml"):
        _print_profile(name, console)
        if found:  # a measure may be called like its profile
            console.print()
    elif not found:
        raise unknown(
            "part", name, {*profile_names(), *(part for kind in registry.KINDS for part in registry.names(kind))}
        )
    for kind, part in found:
        console.print(Text.assemble((name, "bold"), f" ({kind.rstrip('s')}): {_first_line(part)}\n"))
        console.print(_reflowed(inspect.getdoc(part) or ""), "\n")
        if inherited := _inherited(part):
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


def _print_profile(name: str, console: Console) -> None:
    asked = profile(name)
    console.print(Text.assemble((name, "bold"), f" (profile): {asked.description}\n"))
    for title, measure in named(asked.measures).items():
        asked_of = registry.spec(measure)
        given = ", ".join(f"{key} = {_brief(value)}" for key, value in asked_of.items() if key not in ("kind", "name"))
        console.print(Text.assemble((title, "bold"), f": {given}"))


def _brief(value: Any) -> str:
    return str(value["name"]) if isinstance(value, dict) and "name" in value else str(value)


def _inherited(part: type) -> list[str]:
    """Return what classes above a part say about parameters that its own docstring does not explain."""
    own = inspect.getdoc(part) or ""
    wanted = [name for name in inspect.signature(part).parameters if f"\n    {name}: " not in own]
    said = {}
    for above in part.__mro__[1:]:
        for entry in re.split(r"\n    (?=\w)", inspect.cleandoc(above.__doc__ or "").partition("Attributes:")[2]):
            said.setdefault(entry.partition(":")[0].strip(), " ".join(entry.split()))
    return [f"    {said[name]}" for name in wanted if name in said]


def _reflowed(doc: str) -> str:
    """Join the lines of each paragraph, so that the terminal breaks them where it is wide; indented ones stay."""
    paragraphs = doc.split("\n\n")
    return "\n\n".join(p if "\n " in p else " ".join(p.split("\n")) for p in paragraphs)
