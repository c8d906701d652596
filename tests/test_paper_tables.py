"""Tables for papers: both sides of what has two, names that LaTeX prints, p-values, digits; complete data frames."""

import re
from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

import holdfast
from holdfast.api.compare import Comparison
from holdfast.api.record import Record
from holdfast.comparison.compare import compare_runs
from holdfast.report.documents.comparison_table import Layout, document, latex
from holdfast.report.numbers import statement
from holdfast.report.render import to_markdown
from holdfast.runtime.errors import BadValue
from holdfast.storage.sides import sides_of
from report_fixture import make_score

QUICK = {"certified_breakaway_risk.attack.steps": 3, "certified_breakaway_risk.certifier": "interval"}
ODD = r"a_b & 50 % #1 {x} $y^2~ \z | [*]"


@pytest.fixture(scope="module")
def record() -> Record:
    """Two encoders, of whose risk something is proved and something found."""
    measures = ["certified_breakaway_risk", "universal_quantile"]
    encoders = {ODD: "zoo:digits-simclr", "b": "zoo:digits-supervised"}
    return holdfast.audit(
        encoders,
        "digits",
        measures=measures,
        profile="quick",
        images=24,
        attacked=6,
        eps=0.02,
        budget="none",
        quiet=True,
        settings=QUICK,
    )


@pytest.fixture(scope="module")
def comparison(record: Record) -> Comparison:
    return holdfast.compare(record)


def cells(text: str) -> list[list[str]]:
    """Return the cells of a LaTeX table, row by row."""
    body = text.partition("\\toprule\n")[2].partition("\\bottomrule")[0].replace("\\midrule\n", "")
    return [re.split(r"(?<!\\) & ", line.removesuffix(" \\\\")) for line in body.splitlines()]


@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("p_values", [False, True])
def test_latex_has_as_many_cells_in_every_row_and_prints_odd_names(
    comparison: Comparison, transpose: bool, p_values: bool
) -> None:
    text = comparison.to_latex(transpose=transpose, p_values=p_values)
    (columns,) = re.findall(r"\\begin\{tabular\}\{(l r*|l?r*)\}".replace(" ", ""), text)
    rows = cells(text)
    assert {len(row) for row in rows} == {len(columns)}
    assert len(rows) == ((3 if not p_values else 5) + 1 if transpose else 3)
    assert r"a\_b \& 50 \% \#1 \{x\} \$y\textasciicircum{}2\textasciitilde{} \textbackslash{}z | [*]" in text
    bare = re.sub(r"\\.", "", text)
    assert bare.count("{") == bare.count("}")
    assert bare.count("$") % 2 == 0
    assert all(line.startswith("%") for line in text.partition("\\end{tabular}")[2].splitlines() if line)
    assert ("p (Holm)" in text) == p_values


def test_both_sides_of_a_bracket_are_named(comparison: Comparison, record: Record) -> None:
    attack, proof = (record.scores("certified_breakaway_risk", "b")[name] for name in ("attack", "certificate"))
    head, *rows = cells(comparison.to_latex(digits=2))
    assert "Certified breakaway risk $\\downarrow$, attack (lower bound)" in head
    shown = dict(zip(head, next(row for row in rows if row[0] == "b"), strict=True))
    for score, title in ((attack, "attack (lower bound)"), (proof, "proof (upper bound)")):
        said = " ".join(statement(score, "share", 2)).replace("%", r"\%")
        assert shown[f"Certified breakaway risk $\\downarrow$, {title}"].startswith(said)
    assert "the truth lies between them" in comparison.to_markdown()
    key = "possible ranks. Bold: significantly better than every other ranked encoder, after correction"
    assert key in comparison.to_markdown()
    assert "attack (lower bound)" in comparison.to_markdown()
    compared = compare_runs([record.run])
    without = {"universal_quantile": compared.measures["universal_quantile"]}
    assert "two columns" not in to_markdown(document(structs.replace(compared, measures=without)))


def test_a_proof_of_nothing_says_so_and_other_counts_are_told(record: Record) -> None:
    compared = compare_runs([record.run])
    m = compared.measures["certified_breakaway_risk"]
    rows = []
    for row in m.rows:
        proof = replace(row.scores["certificate"], value=1.0, low=0.9, high=1.0, n=4)
        rows.append(structs.replace(row, scores={**row.scores, "certificate": proof}))
    changed = {**compared.measures, "certified_breakaway_risk": structs.replace(m, rows=rows)}
    text = latex(structs.replace(compared, measures=changed))
    assert text.count("nothing proved") == 2
    assert "the attack is of 6 images, the proof of 4 of them" in text


def test_which_side_says_what() -> None:
    known = {"attack": {}, "certificate": {}}
    assert [(s.source, s.bound) for s in sides_of(known, "certificate", "higher")] == [
        ("attack", "upper"), ("proof", "lower")
    ]  # fmt: skip
    assert [s.bound for s in sides_of(known, "certificate", "lower")] == ["lower", "upper"]
    assert [s.score for s in sides_of({"proved": {}, "median": {}}, "median", "higher")] == ["median", "proved"]
    assert sides_of({"proved": {}}, None, "higher") == sides_of({"50 steps": {}}, "50 steps", "lower") == ()


@pytest.mark.parametrize(
    ("value", "digits", "said"),
    [(0.03571, 2, "3.6 %"), (0.5, 1, "50 %"), (0.0, 3, "0.00 %"), (0.98765, 4, "98.77 %"), (0.00001234, 2, "0.0012 %")],
)
def test_digits_are_significant_ones(value: float, digits: int, said: str) -> None:
    assert statement(make_score(value), "share", digits)[0] == said


@pytest.mark.parametrize("digits", [0, -1, 1.5, "two"])
def test_digits_that_are_none(comparison: Comparison, digits: Any) -> None:
    with pytest.raises(BadValue, match="digits"):
        comparison.to_latex(digits=digits)


def test_a_record_is_a_table_too(record: Record) -> None:
    assert record.to_latex(transpose=True).count("bound)") == 2
    assert "| b |" in record.to_markdown()
    assert Layout() == Layout(None, False, False)


def test_data_frames_hold_everything(comparison: Comparison, record: Record) -> None:
    frame = record.to_pandas()
    own = frame[(frame.encoder == "b") & (frame.measure == "certified_breakaway_risk")].set_index("score")
    assert list(own.loc["attack", ["side", "bound", "n", "unit"]]) == ["attack", "lower", 6, "share"]
    assert list(own.loc["certificate", ["side", "bound", "standing", "attacked", "images"]]) == [
        "proof", "upper", "sound", 6, 24
    ]  # fmt: skip
    assert "frozen" in own.loc["attack", "checks"]
    assert own.loc["attack", "interval"]
    pairs = comparison.to_pandas("pairs")
    assert list(pairs.measure) == list(comparison.data["measures"])
    (known,) = comparison.data["measures"]["universal_quantile"]["pairs"]
    row = pairs.set_index("measure").loc["universal_quantile"]
    assert (row["difference"], row["low"]) == (known["difference"]["value"], known["difference"]["low"])
    assert (row["p"], row["p_adjusted"]) == (known["p"], known["p_adjusted"])
    with pytest.raises(BadValue, match="scores"):
        comparison.to_pandas("pair")  # type: ignore[arg-type]
