"""The works that parts name: found in prose as "Croce & Hein (2020a)", and written as BibTeX."""

import dataclasses
import inspect
import re
import tomllib
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import msgspec

from holdfast.core import registry
from holdfast.runtime.errors import HoldfastError
from holdfast.storage.entry import Spec
from holdfast.storage.record import MeasureEntry, Record

OWN = "holdfast"
"""The key of Holdfast itself."""


@dataclass(frozen=True)
class Work:
    """A paper, or a program.

    Attributes:
        key: by which BibTeX cites it: the first author, the year, and a letter where two would be called alike.
        authors: as on the work, in its order, a surname of several words in braces; none where they are not verified.
        title: in sentence case.
        year: of the version that is cited.
        booktitle: where it appeared, of a conference.
        journal: where it appeared, of a journal.
        arxiv: its number on arXiv.
        doi: its digital object identifier.
    """

    key: str
    title: str
    year: int
    authors: tuple[str, ...] = ()
    booktitle: str = ""
    journal: str = ""
    arxiv: str = ""
    doi: str = ""

    @property
    def label(self) -> str:
        """How prose names it: "Croce & Hein (2020a)", "Madry et al. (2018)"."""
        # a surname of several words stands in braces, as BibTeX wants it
        surnames = [re.findall(r"{(.+)}|(\S+)$", author)[-1] for author in self.authors]
        names = ["".join(surname) for surname in surnames]
        called = " & ".join(names) if len(names) < 3 else f"{names[0]} et al."
        return f"{called} ({self.year}{self.key.rpartition(str(self.year))[2]})"

    @property
    def place(self) -> str:
        """Where it appeared; "" where nowhere."""
        return self.booktitle or self.journal or (f"arXiv {self.arxiv}" if self.arxiv else "")

    def bibtex(self, note: str = "") -> str:
        """Return its entry."""
        kind = "inproceedings" if self.booktitle else "article" if self.journal else "misc"
        said = {
            "author": " and ".join(self.authors),
            "title": f"{{{self.title}}}",  # in braces of its own: styles change capitals of other titles
            "booktitle": self.booktitle,
            "journal": self.journal,
            "howpublished": "" if self.booktitle or self.journal or not self.arxiv else f"arXiv:{self.arxiv}",
            "year": str(self.year),
            "eprint": self.arxiv,
            "archiveprefix": "arXiv" if self.arxiv else "",
            "doi": self.doi,
            "note": note,
        }
        fields = {name: text.replace("&", r"\&") for name, text in said.items() if text}
        lines = [f"  {name} = {{{text}}}," for name, text in fields.items()]
        return "\n".join([f"@{kind}{{{self.key},", *lines, "}"])


@cache
def works() -> dict[str, Work]:
    """Return all of them, by what prose calls them."""
    table = tomllib.loads((files("holdfast.report") / "bibliography.toml").read_text(encoding="utf-8"))
    each = (msgspec.convert({"key": key, **row}, Work) for key, row in table.items())
    return {work.label: work for work in each}


def find_works(text: str) -> list[Work]:
    """Return the works that a text names, in its order.

    Example:
        >>> [work.key for work in find_works("APGD of Croce & Hein (2020a), after Madry et al. (2018)")]
        ['croce2020a', 'madry2018']
    """
    # docstrings break lines within a name
    one_line = " ".join(text.split())
    found = {one_line.find(label): work for label, work in works().items() if label in one_line}
    return [found[at] for at in sorted(found)]


def spell_out(text: str) -> str:
    """Return a text with the title of each work behind its name, and where it appeared.

    Example:
        >>> spell_out("Madry et al. (2018), section 2")
        'Madry et al. (2018), “Towards deep learning models resistant to adversarial attacks”, ICLR, section 2'
    """
    for work in find_works(text):
        text = text.replace(work.label, ", ".join(filter(None, (work.label, f"“{work.title}”", work.place))), 1)
    return text


def read_source(part: type) -> str:
    """Return where a part is defined, in its words: its `reference`, or "Source:" of its docstring."""
    reference = getattr(part, "reference", None)
    said = re.search(r"^Source:(.+?)(?=\n\n|\Z)", inspect.getdoc(part) or "", re.DOTALL | re.MULTILINE)
    return reference if isinstance(reference, str) else said[1].strip() if said else ""


def cite(*records: Record, among: Collection[Spec] | None = None) -> str:
    """Return BibTeX of Holdfast and of the works behind each score of records: of measures, and of all they are of.

    Args:
        records: the records.
        among: the specs of the measures that count; None: all.
    """
    cited: dict[Work, dict[str, None]] = {}
    unknown: dict[str, None] = {}
    encoders = [encoder for record in records for encoder in record.encoders]
    for name, entry in ((name, entry) for encoder in encoders for name, entry in encoder.measures.items()):
        if entry.failure or (among is not None and entry.part not in among):
            continue
        sources = [entry.reference]
        try:
            sources += _sources(entry)
        except HoldfastError:
            unknown[name] = None
        for work in (work for source in sources for work in find_works(source)):
            cited.setdefault(work, {})[name] = None
    # Holdfast first, then each work once, above it the measures that it is behind
    own = next(work for work in works().values() if work.key == OWN)
    versions = dict.fromkeys(record.holdfast.version for record in records)
    entries = [own.bibtex(f"Version {', '.join(versions)}")]
    entries += [f"% behind {', '.join(names)}\n{work.bibtex()}" for work, names in cited.items()]
    if unknown:
        entries.append(f"% parts of {', '.join(unknown)} are not known here, so what they rest on is missing")
    return "\n\n".join(entries) + "\n"


def _sources(entry: MeasureEntry) -> list[str]:
    """Return where a measure is defined, and all parts that it is made of.

    Raises:
        HoldfastError: a part that is not known here.
    """
    measure = registry.build(entry.part)
    parts = {type(part): None for whole in (measure, *measure.observations()) for part in _walk(whole)}
    return [read_source(part) for part in parts]


def _walk(value: Any) -> Iterator[Any]:
    """Yield a part, and those among its fields."""
    if isinstance(value, tuple):
        for item in value:
            yield from _walk(item)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        yield value
        for field in dataclasses.fields(value):
            yield from _walk(getattr(value, field.name))
