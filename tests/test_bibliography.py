"""Works: every one that a part names is in the table, each is named, and each is BibTeX that others can read."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from holdfast.core import registry
from holdfast.report.bibliography import OWN, Work, cite, find_works, read_source, spell_out, works
from json_records import encoder_entry, measure_entry, small_record
from report_fixture import make_score

ROOT = Path(__file__).parents[1]

PARTS = [(kind, name) for kind in registry.KINDS for name in registry.names(kind)]


def read_entry(text: str) -> tuple[str, str, dict[str, str]]:
    """Return kind, key and fields of one BibTeX entry; a field is what its braces enclose."""
    head = re.match(r"@(\w+)\{(\w+),\n", text)
    assert head is not None, text
    fields: dict[str, str] = {}
    for line in text[head.end() :].splitlines()[:-1]:
        field = re.fullmatch(r"  (\w+) = \{(.+)\},", line)
        assert field is not None, line
        assert field[1] not in fields
        fields[field[1]] = field[2]
        depth = 0
        for sign in re.findall(r"[{}]", field[2]):
            depth += 1 if sign == "{" else -1
            assert depth >= 0, line
        assert depth == 0, line
        assert not re.search(r"(?<!\\)[&%#]", field[2]), line
    assert text.endswith("\n}")
    return head[1], head[2], fields


@pytest.mark.parametrize("work", works().values(), ids=lambda work: work.key)
def test_every_entry_is_bibtex(work: Work) -> None:
    kind, key, fields = read_entry(work.bibtex())
    assert key == work.key
    assert {"title", "year"} <= set(fields)
    assert fields["author"].split(" and ") == list(work.authors)
    assert kind == "misc" or {"inproceedings": "booktitle", "article": "journal"}[kind] in fields
    assert work.place or work.key == OWN
    assert re.fullmatch(r"(\d{4}\.\d{4,5})?", work.arxiv)
    assert re.match(r"[a-z]+\d{4}[a-z]?$|holdfast$", work.key)


def test_every_work_that_a_part_names_is_in_the_table() -> None:
    named: set[str] = set()
    for kind, name in PARTS:
        remaining = " ".join(read_source(registry.find(kind, name)).split())
        for work in find_works(remaining):
            named.add(work.key)
            remaining = remaining.replace(work.label, "")
        # Neither a year nor a title of a work that the table lacks
        assert not re.search(r"\((19|20)\d\d[a-z]?\)|, (19|20)\d\d\b|[“”]|arXiv", remaining), (kind, name, remaining)
    assert named == {work.key for work in works().values()} - {OWN}


def test_two_works_are_never_called_alike() -> None:
    table = tomllib.loads((ROOT / "src/holdfast/report/bibliography.toml").read_text(encoding="utf-8"))
    assert len(works()) == len(table)


def test_recipes_name_their_paper_as_the_table_does() -> None:
    titles = {work.title for work in works().values()}
    recipes = [tomllib.loads(path.read_text(encoding="utf-8")) for path in (ROOT / "recipes/papers").glob("*.toml")]
    assert {recipe["paper"] for recipe in recipes if "paper" in recipe} <= titles


def test_holdfast_is_cited_as_the_citation_file_says() -> None:
    own = next(work for work in works().values() if work.key == OWN)
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))["preferred-citation"]
    assert (cited["title"], cited["year"]) == (own.title, own.year)
    assert [f"{{{author['name']}}}" for author in cited["authors"]] == list(own.authors)


def test_a_work_is_spelled_out_once() -> None:
    text = "Croce & Hein (2020b), as in Croce & Hein (2020b); Nobody (1999)"
    assert spell_out(text).count("“Minimally distorted adversarial examples") == 1
    assert spell_out("Nobody (1999)") == "Nobody (1999)"


def _entry(name: str, **fields: Any) -> Any:
    """Return a measure that has a score."""
    part = registry.find("measures", name)
    said = {"headline": "s", "scores": {"s": make_score(0.5, 0.4, 0.6)}, "reference": part.reference}
    return measure_entry(**{**said, "part": registry.spec(part()), **fields})


def _keys(text: str) -> list[str]:
    return re.findall(r"^@\w+\{(\w+),$", text, re.MULTILINE)


def test_a_record_cites_measures_attacks_and_certifiers_once() -> None:
    measures = {name: _entry(name) for name in ("breakaway_risk", "nearest_neighbour_accuracy", "breaking_radius")}
    text = cite(small_record([encoder_entry("a", measures=measures), encoder_entry("b", measures=measures)]))
    keys = _keys(text)
    assert keys[0] == OWN
    assert len(keys) == len(set(keys))
    # The measures; APGD; the search for the smallest change, which is no parameter; CROWN
    assert {"petrov2022", "croce2020a", "pintor2021", "wang2023", "zhang2018"} <= set(keys)
    assert "% behind breakaway_risk, nearest_neighbour_accuracy, breaking_radius\n@misc{petrov2022," in text
    assert "note = {Version 1}," in text
    entries = [re.sub(r"^%.*\n", "", entry) for entry in text.strip().split("\n\n")]
    assert [read_entry(entry)[1] for entry in entries] == keys


def test_what_has_no_score_is_not_cited() -> None:
    measures = {"synbench": _entry("synbench", error="no", scores={}, headline=None)}
    assert _keys(cite(small_record([encoder_entry("a", measures=measures)]))) == [OWN]


def test_parts_that_are_not_known_here_are_named() -> None:
    own = _entry("breakaway_risk", part={"kind": "measures", "name": "mine"}, reference="after Madry et al. (2018)")
    text = cite(small_record([encoder_entry("a", measures={"mine": own})]))
    assert _keys(text) == [OWN, "madry2018"]
    assert "% parts of mine are not known here" in text
