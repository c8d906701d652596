"""A hook of MkDocs: puts what the code knows into the pages, so that it cannot go stale.

A page asks for it by a block, for example `<!-- facts: breakaway_risk -->`, see `blocks.py`.
"""

import ast
import dataclasses
import inspect
import json
import re
import shlex
import sys
import textwrap
import tomllib
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS))  # MkDocs loads a hook by its path alone

import blocks  # noqa: E402

ASKED = blocks.pattern(
    "facts", "measures", "profiles", "options", "function", "radii", "verdicts", "commands", "parts", "references",
    "layers", "formats", "gallery", "examples", "works", "gradients", "codes", "evidence",
)  # fmt: skip
FACTS = re.compile(r"^<!-- facts: (?!end)(\w+) -->$", re.MULTILINE)
OUTCOMES = ("holds", "fails", "not shown")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replace each block by what it asks for (MkDocs calls this for every page)."""
    return blocks.replace(ASKED, markdown, make)


def make(kind: str, name: str | None) -> str:
    """Return what a block asks for."""
    makers: dict[str, Callable[..., str]] = {
        "facts": facts, "measures": measures, "profiles": profiles, "options": options, "function": function,
        "radii": radii, "commands": commands, "parts": parts, "references": references, "verdicts": all_verdicts,
        "layers": layers, "formats": formats, "gallery": gallery, "examples": examples,
        "works": works, "gradients": gradients, "codes": codes, "evidence": evidence,
    }  # fmt: skip
    return makers[kind](name) if name else makers[kind]()


def facts(name: str) -> str:
    """Return a measure's question, formula, reading, source and parameters."""
    from holdfast.core import registry
    from holdfast.report.bibliography import spell_out

    part: Any = registry.find("measures", name)
    formula, *rest = _paragraphs(part)
    better = {"lower": "lower is more robust", "higher": "higher is more robust"}[part.better]
    labels = ", reads labels" if part().needs_labels else ""
    lines = [f"*{part.question}*", "", f"`{name}`, in {_unit(part.unit)}, {better}{labels}.", ""]
    lines += [*_set(name, " ".join(formula)), ""]
    for paragraph in rest:
        lines += [_plain(" ".join(paragraph)), ""]
    lines += [f"**How to read it.** {_plain(part.how_to_read)}", ""]
    lines += [f"**Source.** {_plain(spell_out(part.reference))}.", ""]
    said = _explained(part)
    lines += ["| parameter | default | |", "|---|---|---|"]
    for one in inspect.signature(part).parameters.values():
        usual = "required" if one.default is one.empty else _usual(one.default)
        lines.append(f"| `{one.name}` | {usual} | {_plain(said.get(one.name, ''))} |")
    return "\n".join(lines)


def gradients() -> str:
    """Return a table of the measures that work without a gradient, and of the images that each sends."""
    from holdfast.core import registry
    from holdfast.parts.attacks.square import Square

    found: dict[str, list[tuple[int, str]]] = {"always": [], "square": [], "never": []}
    for name in registry.names("measures"):
        part: Any = registry.find("measures", name)()
        fields = {field.name for field in dataclasses.fields(part)}
        for kind, one in [("always", part)] + [
            ("square", dataclasses.replace(part, **change))
            for change in ({"attack": Square()}, {"attack": Square(), "pursue": "drift"})
            if fields.issuperset(change)
        ]:
            spent = [observation.passes for observation in one.observations()]
            if not any(passes.backward or passes.bounds for passes in spent):
                found[kind].append((sum(passes.forward for passes in spent), name))
                break
        else:
            found["never"].append((0, name))
    heads = {"always": "needs no gradient", "square": "none with `attack=square`", "never": "needs a gradient"}
    lines = ["| | measures, and how many images they send |", "|---|---|"]
    for kind, measures in found.items():
        cells = [f"`{name}`" + (f" {count:,}" if count else "") for count, name in sorted(measures)]
        lines.append(f"| {heads[kind]} | {', '.join(cells)} |")
    return "\n".join(lines)


def codes() -> str:
    """Return a table of the kinds of errors, with what is to be done and an example of each."""
    from holdfast.runtime.errors import find_kinds

    lines = ["| Code | What it says, and what to do | Such as |", "|---|---|---|"]
    for kind in find_kinds():
        said, example = " ".join((kind.__doc__ or "").split()).split(" For example: ")
        lines.append(f"| `{kind.code}` | {_plain(said)} | {_plain(example)} |")
    return "\n".join(lines)


def works() -> str:
    """Return a table of the works that parts name, and of the parts that name each."""
    from holdfast.core import registry
    from holdfast.report import bibliography

    named: dict[bibliography.Work, list[str]] = {}
    for kind in registry.KINDS:
        for name in registry.names(kind):
            for work in bibliography.find_works(bibliography.read_source(registry.find(kind, name))):
                named.setdefault(work, []).append(f"`{name}`")
    lines = ["| work | key | parts |", "|---|---|---|"]
    for work in sorted(named, key=lambda work: work.key):
        at = f"[{work.place}](https://arxiv.org/abs/{work.arxiv})" if work.arxiv else _plain(work.place)
        lines.append(f"| {_plain(work.label)}, {_plain(work.title)}, {at} | `{work.key}` | {', '.join(named[work])} |")
    return "\n".join(lines)


def evidence(of: str) -> str:
    """Return which measures answer which requirements, or what these ask for and where they are written."""
    from holdfast.report.evidence import read_requirements

    if of == "documents":
        lines = []
        for key, source in read_requirements().document.items():
            asked = [one for one in read_requirements().requirement if one.document == key]
            lines.append(f"- [{source.title}]({source.url}), {source.dated}. {source.note}")
            lines += [f"    - **{one.name}**: {one.asks}." for one in asked]
        return "\n".join(lines)
    pages = pages_of_measures()
    lines = ["| requirement | question | measure or command | what it shows | what it does not show |"]
    lines.append("|---|---|---|---|---|")
    for one in read_requirements().question:
        links = [
            f"[{name.replace('_', ' ')}](measures/{pages[name]}#{name.replace('_', '-')})" for name in one.measures
        ]
        links += [f"[`{name}`]({page})" for name, page in one.commands.items()]
        cells = ["; ".join(one.requirements), one.asks, ", ".join(links), one.shows, one.hides]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _usual(default: Any) -> str:
    """Return a default as Python writes it; parts that would fill a page by what people call them."""
    written = repr(default)
    if len(written) > 500 and isinstance(default, tuple):
        return _plain("; ".join(part.title for part in default))
    return f"`{_cell(written)}`"


@cache
def _formulas() -> Mapping[str, Mapping[str, str]]:
    return tomllib.loads((DOCS / "formulas.toml").read_text(encoding="utf-8"))


def _set(name: str, says: str) -> list[str]:
    """Return a measure's formula as TeX, and the sentence that belongs to it.

    Raises:
        ValueError: the docstring says another formula than the one that was written as TeX.
    """
    formula = _formulas().get(name, {})
    if formula.get("says") != says:
        raise ValueError(
            f"docs/formulas.toml: expected what {name} says, {says!r}, got {formula.get('says')!r}; mend both"
        )
    return ["$$", formula["tex"], "$$", "", *([_plain(formula["text"])] if "text" in formula else [])]


def measures() -> str:
    """Return a table of all measures: question, labels, and the page that explains each."""
    from holdfast.core import registry

    lines = ["| measure | question | labels |", "|---|---|---|"]
    for name, page in pages_of_measures().items():
        part: Any = registry.find("measures", name)
        anchor = name.replace("_", "-")
        title = name.replace("_", " ")
        lines.append(f"| [{title}]({page}#{anchor}) | {part.question} | {'yes' if part().needs_labels else ''} |")
    return "\n".join(lines)


@cache
def pages_of_measures() -> Mapping[str, str]:
    """Return on which page below docs/measures each measure is explained, in the order of the pages."""
    order = re.findall(r"measures/(\w+\.md)", (DOCS.parent / "mkdocs.yml").read_text(encoding="utf-8"))
    pages = [DOCS / "measures" / name for name in dict.fromkeys(order)]
    return {name: page.name for page in pages for name in FACTS.findall(page.read_text(encoding="utf-8"))}


def profiles() -> str:
    """Return a table of the profiles."""
    from holdfast.auditing.profile_files import descriptions

    return _table("profile", descriptions())


def radii() -> str:
    """Return a table of the radii that are taken for images where the user names none."""
    from holdfast.auditing.balls import USUAL

    lines = ["| images | radii for | ℓ∞ | ℓ2 | who uses them |", "|---|---|---|---|---|"]
    for kind in USUAL:
        written = [kind.ball(norm, None).radius_text for norm in ("linf", "l2")]
        shape = " × ".join(map(str, kind.shape))
        lines.append(f"| {kind.images} | {shape} | {written[0]} | {written[1]} | {_plain(kind.why)} |")
    return "\n".join(lines)


def parts(kind: str) -> str:
    """Return a table of all parts of a kind, or of the sources of encoders or data."""
    from holdfast.report.parts import catalogue

    return _table("name", catalogue([kind])[kind])


def layers() -> str:
    """Return a table of the layers that every checkpoint has."""
    from holdfast.sources.encoders.shared.checkpoint import LAYERS

    return _table("layer", LAYERS)


def formats() -> str:
    """Return a table of the names that checkpoints are known by."""
    from holdfast.sources.encoders.shared.formats import FORMATS

    lines = ["| written by | encoder | projection | prediction | known by |", "|---|---|---|---|---|"]
    for one in FORMATS:
        cells = [f"`{name}…`" if name else "" for name in (one.encoder, one.projection, one.prediction)]
        lines.append(f"| {one.name} | {' | '.join(cells)} | {', '.join(f'`{mark}`' for mark in one.marks)} |")
    return "\n".join(lines)


def references() -> str:
    """Return a table of the values that were measured of known encoders."""
    from holdfast.report import references as known
    from holdfast.runtime.sizes import in_figures, size_in_words

    lines = ["| encoder | images | norm | half break at | 95 % | record |", "|---|---|---|---|---|---|"]
    for row in known.references():
        levels = row.norm == "linf"
        ends = " to ".join(in_figures(end * (255 if levels else 1)) for end in (row.low, row.high))
        images = f"{row.images}, {row.attacked} of {row.population}, {' x '.join(map(str, row.input))}"
        value = size_in_words(row.value, levels)
        lines.append(f"| {row.name} | {images} | {row.norm} | {value} | {ends} | `{row.record[:12]}` |")
    return "\n".join(lines)


def gallery(name: str) -> str:
    """Return a report of the gallery: its command, its picture, how it begins, and what it took."""
    report = json.loads((DOCS / "gallery/gallery.json").read_text(encoding="utf-8"))[name]
    lines = ["```sh", *_typed(report["command"]), "```", ""]
    lines += [f"[![{report['title']}](gallery/{name}.png)](gallery/{name}.png)", ""]
    lines += [line for sentence in report["says"] for line in (f"> {_plain(sentence)}", ">")][:-1]
    versions = ", ".join(f"{program} {version}" for program, version in report["versions"].items())
    return "\n".join([*lines, "", f"{_plain(report['scope'])}, in {report['took']}, by {versions}."])


def examples() -> str:
    """Return what each script of `examples/` says of itself, and its code."""
    lines = []
    for path in sorted((DOCS.parent / "examples").glob("*.py")):
        code = path.read_text(encoding="utf-8")
        title, _, rest = (ast.get_docstring(ast.parse(code)) or "").partition("\n\n")
        lines += [f"## {path.name}", "", _plain(title), ""]
        lines += [
            f"```text\n{textwrap.dedent(part)}\n```\n" if "python " in part else f"{_plain(part)}\n"
            for part in rest.split("\n\n")
        ]
        lines += [f'??? quote "{path.name}"', "", *textwrap.indent(f"```python\n{code}```", " " * 4).splitlines(), ""]
    return "\n".join(lines)


def _typed(command: str) -> list[str]:
    """Return the lines of a command, one for each encoder and each option."""
    program, name, *words = shlex.split(command)
    lines = [f"{program} {name}"]
    for i, word in enumerate(words):
        if i and words[i - 1].startswith("--"):
            lines[-1] += f" {shlex.quote(word)}"
        else:
            lines[-1:] = [f"{lines[-1]} \\", f"    {shlex.quote(word)}"]
    return lines


def commands() -> str:
    """Return what every command says of itself and its options."""
    import typer

    from holdfast.cli import app

    group: Any = typer.main.get_command(app)
    lines = []
    for name, command in group.commands.items():
        if command.hidden:
            continue
        places = [one for one in command.params if one.param_type_name == "argument"]
        taken = " ".join(one.name.upper() for one in places)
        lines += [f"## holdfast {name}", "", _plain(" ".join((command.help or "").split())), ""]
        lines += ["```text", f"holdfast {name} {taken}".strip() + " [options]", "```", ""]
        lines += ["| | |", "|---|---|"]
        for one in command.params:
            if one.name == "help" or getattr(one, "hidden", False):
                continue
            named = one.name.upper() if one in places else ", ".join([*one.opts, *one.secondary_opts])
            lines.append(f"| `{named}` | {_plain(one.help or '')} |")
        lines.append("")
    return "\n".join(lines)


def _doors() -> Mapping[str, tuple[type, type]]:
    """Return what is asked in Python, and in text."""
    from holdfast.api import audit, audit_index, certify, compare_index, harden
    from holdfast.auditing.request import AuditRequest
    from holdfast.workflows.audit_index.request import VectorRequest
    from holdfast.workflows.certify.request import CertifyRequest
    from holdfast.workflows.compare_index.request import IndexRequest
    from holdfast.workflows.harden.request import HardenRequest

    return {
        "audit": (audit.Audit, AuditRequest), "harden": (harden.Harden, HardenRequest),
        "compare_index": (compare_index.CompareIndex, IndexRequest), "certify": (certify.Certify, CertifyRequest),
        "audit_index": (audit_index.AuditIndex, VectorRequest),
    }  # fmt: skip


def options(name: str) -> str:
    """Return a table of what can be asked of an audit, a hardening or a comparison, and how each door calls it."""
    from holdfast.runtime.option import fields_of

    in_python, in_text = ({field.name: field for field in fields_of(door)} for door in _doors()[name])
    lines = ["| Python | command line | plan file | |", "|---|---|---|---|"]
    lines = lines if name == "audit" else ["| Python | command line | |", "|---|---|---|"]
    for field in {**in_python, **in_text}.values():
        written, option = in_text.get(field.name), field.option
        flag = f"`--{(option.flag or field.name).replace('_', '-')}`"
        command = "" if written is None or not option.command else "its place" if option.argument else flag
        cells = [f"`{field.name}`" if field.name in in_python else "", command]
        cells += [f"`{written.key}`" if written is not None else ""] * (name == "audit")
        usual = f" Default: {option.default}." if option.default else ""
        lines.append(f"| {' | '.join(cells)} | {_plain(option.help + usual)} |")
    return "\n".join(lines)


def function(name: str) -> str:
    """Return what a function of Python takes, one that is asked by a request: its signature and its docstring."""
    import holdfast
    from holdfast.runtime.option import fields_of

    called = getattr(holdfast, name)
    signature = inspect.signature(called)
    taken = [one.replace(annotation=one.empty) for one in signature.parameters.values()]
    # Everything but the arguments, which are a table
    about, _, rest = (inspect.getdoc(called) or "").partition("\n\nArgs:\n")
    _, *ends = rest.split("\n\n")
    lines = [f"## holdfast.{name}", "", "```python"]
    lines += textwrap.wrap(
        f"holdfast.{name}{signature.replace(parameters=taken, return_annotation=signature.empty)}", 100
    )
    lines += ["```", "", about, "", "| parameter | default | |", "|---|---|---|"]
    for field in fields_of(_doors()[name][0]):
        default = "required" if field.default is dataclasses.MISSING else _usual(field.default)
        usual = f" Default: {field.option.default}." if field.option.default else ""
        lines.append(f"| `{field.name}` | {default} | {_plain(field.option.help + usual)} |")
    for end in ends:
        title, _, text = end.partition("\n")
        lines += ["", f"**{title}** {' '.join(text.split())}"]
    return "\n".join(lines)


def all_verdicts() -> str:
    """Return what became of the claims of all reproductions that there are."""
    return verdicts((DOCS / "reproductions").glob("*.md"))


def verdicts(pages: Iterable[Path]) -> str:
    """Return what became of the claims of each reproduction, by what they were tried on; then pages that try none.

    A network that only shows how a table is made is asked nothing, so its pages have no claims.
    """
    from holdfast.report.documents.reproduction import NETWORKS, as_sentence
    from holdfast.workflows.reproduce.recipe import read

    # Every page's claims by what they were tried on, and how many published numbers agree with ours
    tried: dict[str, dict[str, list[str]]] = {network: {} for network in NETWORKS.values()}  # network -> paper -> rows
    unasked: dict[str, list[str]] = {}
    rest, counted, agreed = [], {network: [0] * len(OUTCOMES) for network in tried}, [0, 0]
    for path in sorted(page for page in pages if "-" in page.stem):
        name, _, profile = path.stem.rpartition("-")
        about, claims = read(name, profile), claims_of(path)
        text = path.read_text(encoding="utf-8")
        took = re.findall(rf"^Profile `{profile}`, ([^.]+)\.", text, re.MULTILINE)
        made = took[0] if _words_of(about.notes) in _words_of(text) else f"{took[0]}, by an earlier recipe"
        what = f"| [{_plain(about.where)}]({path.name}) | {_plain(about.title)} | {profile} | {made} |"
        agreement = agreement_of(text)
        agreed = [sum(pair) for pair in zip(agreed, agreement, strict=True)]
        if not claims:
            unasked.setdefault(about.paper, []).append(what)
        for network in tried:
            outcomes = [claim.outcome for claim in claims if claim.network == network]
            counts = [outcomes.count(outcome) for outcome in OUTCOMES]
            if outcomes:
                agree = f"{agreement[0]} of {agreement[1]}" if agreement[1] else "–"
                row = f"{what} {' | '.join(map(str, counts))} | {agree} |"
                tried[network].setdefault(about.paper, []).append(row)
            counted[network] = [a + b for a, b in zip(counted[network], counts, strict=True)]
        rest += [
            f"| [{name}]({path.name}) | {c.text} | {c.network} | {c.outcome} | {c.published} | {c.why} |"
            for c in claims
            if c.outcome != "holds"
        ]
    if not unasked and not any(tried.values()):
        return "Nothing has been reproduced here yet."

    # What they come to, page by page, and those that do not hold
    lines = [
        f"- **{as_sentence(network)}**, of {sum(counts)} claims {counts[0]} hold, {counts[1]} fail, and {counts[2]} "
        "are not shown."
        for network, counts in counted.items()
        if any(counts)
    ]
    if agreed[1]:
        lines.append(f"- **Of {agreed[1]} published numbers** on these pages, {agreed[0]} agree with ours (95 %).")
    for network, papers in tried.items():
        lines += ["", f"## {as_sentence(network)}"] if papers else []
        for paper, rows in papers.items():
            lines += ["", f"### {_plain(paper)}", "", "| | | profile | took | " + " | ".join(OUTCOMES) + " | agree |"]
            lines += ["|---|---|---|---|" + "---:|" * (len(OUTCOMES) + 1), *rows]
    if rest:
        lines += ["", "## Claims that do not hold here", ""]
        lines += ["| where | claim | tried | verdict | in the paper's own table | by |", "|---|---|---|---|---|---|"]
        lines += rest
    if unasked:
        lines += ["", "## How each table is made", ""]
        lines += [
            "Small networks on few images. They show that every number comes about; they say nothing of the papers."
        ]
    for paper, rows in unasked.items():
        lines += ["", f"### {_plain(paper)}", "", "| | | profile | took |", "|---|---|---|---|", *rows]
    return "\n".join(lines)


def agreement_of(text: str) -> tuple[int, int]:
    """Return how many published numbers of a page agree with ours, and of how many that is known."""
    found = re.search(r"^\*\*(\d+) of (\d+) published numbers? agrees? with ours", text, re.MULTILINE)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _words_of(text: str) -> str:
    """Return text without what Markdown escapes, and how."""
    return " ".join(re.sub(r"[|/]", " ", text.replace("\\", "")).split())


class PageClaim(NamedTuple):
    """A claim on a page that `holdfast reproduce` wrote: as Markdown, and what it was tried on."""

    network: str
    text: str
    outcome: str
    published: str
    why: str


def claims_of(path: Path) -> list[PageClaim]:
    """Return every claim on a page that `holdfast reproduce` wrote."""
    _, *sections = re.split(r"^### Claims, (.+)$", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    row = re.compile(r"^\| (.+?) \| \*\*(holds|fails|not shown)\*\* \| (.+?) \| (.*) \|$", re.MULTILINE)
    pairs = zip(sections[::2], sections[1::2], strict=True)
    return [PageClaim(network, *claim) for network, section in pairs for claim in row.findall(section)]


def _paragraphs(part: type) -> list[list[str]]:
    """Return the paragraphs of a docstring, up to its sections."""
    doc = re.split(r"\n\n(?:Attributes|Source|Raises):", inspect.getdoc(part) or "")[0]
    return [[line.strip() for line in paragraph.splitlines()] for paragraph in doc.split("\n\n")]


def _explained(part: type) -> dict[str, str]:
    """Return what docstrings say of each parameter: the class's own first, then those above it."""
    said: dict[str, str] = {}
    for above in part.__mro__:
        section = inspect.cleandoc(above.__doc__ or "").partition("Attributes:\n")[2].split("\n\n")[0]
        for entry in re.split(r"\n(?= {4}\w)", section):
            name, colon, text = entry.strip().partition(":")
            if colon:
                said.setdefault(name, " ".join(text.split()))
    return said


def _table(what: str, rows: Mapping[str, str]) -> str:
    return "\n".join([f"| {what} | |", "|---|---|", *(f"| `{name}` | {_plain(text)} |" for name, text in rows.items())])


def _unit(unit: str) -> str:
    return {"share": "shares", "ratio": "ratios", "similarity": "similarities", "pixels": "pixels"}[unit]


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _plain(text: str) -> str:
    """Return text that Markdown shows as it is; code between backticks stays code, a *word* stays stressed."""
    pieces = re.split(r"(`[^`]*`|(?<!\S)\*\w+\*(?!\w))", text)
    escaped = [
        p
        if p[:1] in ("`", "*") and p[-1:] == p[0] and len(p) > 2
        else re.sub(r"([*_\[\]>#\\$])", r"\\\1", p).replace("<", "&lt;")
        for p in pieces
    ]
    return "".join(escaped).replace("|", "\\|")
