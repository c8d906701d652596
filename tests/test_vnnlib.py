"""VNN-LIB files: what is written is read again to the last bit, and what is not read is refused with its line."""

import gzip
import random
import re
from pathlib import Path

import pytest
import torch

from holdfast.core import HoldfastError, Margin
from holdfast.runtime.errors import BadData, Missing, NotFinite
from holdfast.storage.vnnlib import Query, write_counterexample, write_vnnlib
from holdfast.storage.vnnlib_reader import read_vnnlib

DECLARED = "(declare-const X_0 Real)\n(declare-const X_1 Real)\n(declare-const Y_0 Real)\n(declare-const Y_1 Real)\n"
BOX = "(assert (>= X_0 0))(assert (<= X_0 1))(assert (>= X_1 -1.5))(assert (<= X_1 2e-1))\n"
PLAIN = f"{DECLARED}{BOX}(assert (<= Y_0 Y_1))\n"


def read(folder: Path, text: str | bytes, name: str = "a.vnnlib") -> Query:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_vnnlib(path)


def same(a: Query, b: Query) -> bool:
    rows = zip(a.unsafe, b.unsafe, strict=True)
    bounds = torch.equal(a.low, b.low) and torch.equal(a.high, b.high)
    return bounds and all(torch.equal(p.weights, q.weights) and torch.equal(p.bias, q.bias) for p, q in rows)


def drawn(seed: int, inputs: int = 20, outputs: int = 4) -> Query:
    """Return a query with numbers of every size, and rows of every kind."""
    draw = torch.Generator().manual_seed(seed)
    sizes = 10.0 ** torch.randint(-12, 4, (inputs,), generator=draw).double()
    low = torch.randn(inputs, generator=draw).double() * sizes
    units = torch.eye(outputs).double()
    kinds = [units[0], -units[1], units[2] - units[0], torch.randn(outputs, generator=draw).double(), 3 * units[3]]
    unsafe = []
    for count in (1, 2, 3):
        chosen = torch.randint(len(kinds), (count,), generator=draw).tolist()
        bias = torch.randn(1, count, generator=draw).double() * torch.randint(2, (1, count), generator=draw)
        unsafe.append(Margin(torch.stack([kinds[i] for i in chosen])[None], bias))
    return Query(low, low + torch.rand(inputs, generator=draw).double() * sizes, tuple(unsafe))


@pytest.mark.parametrize("seed", range(20))
def test_what_is_written_is_read_again_exactly(tmp_path: Path, seed: int) -> None:
    query = drawn(seed)
    write_vnnlib(tmp_path / "a.vnnlib", query, "name\nof(\n;an ünicode thing\r(assert (<= Y_0 0))")
    assert same(read_vnnlib(tmp_path / "a.vnnlib"), query)
    text = (tmp_path / "a.vnnlib").read_text()
    assert text.isascii()
    assert not re.search(r"[0-9]e", text), "the format has no exponents"
    (tmp_path / "b.vnnlib.gz").write_bytes(gzip.compress(text.encode()))
    assert same(read_vnnlib(tmp_path / "b.vnnlib.gz"), query)


def test_one_way_and_pairs_of_outputs_are_written_as_competitions_do(tmp_path: Path) -> None:
    box, units = torch.zeros(1).double(), torch.eye(2).double()
    zero = torch.zeros(1, 1).double()
    larger, small = Margin((units[1] - units[0])[None, None], zero), Margin(units[:1][None], zero)
    write_vnnlib(tmp_path / "a", Query(box, box, (larger,)))
    write_vnnlib(tmp_path / "b", Query(box, box, (larger, small)))
    assert "(assert (>= Y_0 Y_1))" in (tmp_path / "a").read_text()
    either = "(assert (or\n    (and (>= Y_0 Y_1))\n    (and (<= Y_0 0.0))\n))"
    assert either in (tmp_path / "b").read_text()


@pytest.mark.parametrize(
    ("constraint", "ways"),
    [
        ("(assert (<= Y_0 Y_1))", [[([1, -1], 0)]]),
        ("(assert (>= Y_0 3.5))", [[([-1, 0], 3.5)]]),
        ("(assert (<= -.5 Y_1))", [[([0, -1], -0.5)]]),
        ("(assert (<= (+ (* 2 Y_0) (- Y_1) 1) (- 3 Y_0)))", [[([3, -1], -2)]]),
        ("(assert (<= (* (- 2) (+ Y_0 1)) 0))", [[([-2, 0], -2)]]),
        ("(assert (or (and (<= Y_0 1) (<= Y_1 2)) (and (<= Y_0 3))))", [[([1, 0], -1), ([0, 1], -2)], [([1, 0], -3)]]),
        ("(assert (<= Y_0 1)) (assert (<= Y_1 2))", [[([1, 0], -1), ([0, 1], -2)]]),
        ("(assert (or (<= Y_0 1) (<= Y_0 2)))(assert (<= Y_1 0))",
         [[([1, 0], -1), ([0, 1], 0)], [([1, 0], -2), ([0, 1], 0)]]),
        ("(assert (and (<= X_0 0.5) (or (and (<= Y_0 1)))))", [[([1, 0], -1)]]),
    ],
)  # fmt: skip
def test_constraints_mean_what_they_say(tmp_path: Path, constraint: str, ways: list) -> None:
    query = read(tmp_path, DECLARED + BOX + constraint)
    got = [list(zip(m.weights[0].tolist(), m.bias[0].tolist(), strict=True)) for m in query.unsafe]
    assert got == [[([float(w) for w in weights], float(bias)) for weights, bias in way] for way in ways]
    assert query.low.tolist() == [0.0, -1.5]
    assert query.high.tolist() == [0.5 if "X_0" in constraint else 1.0, 0.2]


def test_bounds_may_be_written_in_many_ways(tmp_path: Path) -> None:
    text = "; X_0 (assert\r\n(declare-fun X_0 () Real)(declare-const Y_0\r\nReal);)\r\n(assert(<= (* 2 X_0)\t1))"
    text += "(assert (<= (- 4) (* (- 4) X_0)))(assert (>= (+ X_0 1) 0.25))(assert (>= X_0 -7))(assert (<= Y_0 0))"
    query = read(tmp_path, text)
    assert (query.low.item(), query.high.item()) == (-0.75, 0.5)


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (PLAIN.replace("(<= X_0 1)", "(< X_0 1)"), 5, "expected <= or >= of two terms"),
        (PLAIN.replace("(<= X_0 1)", "(= X_0 1)"), 5, "expected <= or >="),
        (PLAIN.replace("(<= X_0 1)", "(not (<= X_0 1))"), 5, "expected <= or >="),
        (PLAIN.replace("(<= X_0 1)", "(or (<= X_0 1) (<= X_0 2))"), 5, "a bound of one input that always holds"),
        (PLAIN.replace("(<= X_0 1)", "(<= X_0 X_1)"), 5, "a bound of one input that always holds"),
        (PLAIN.replace("(<= X_0 1)", "(<= X_0 Y_1)"), 5, "a bound of one input that always holds"),
        (PLAIN.replace("(<= X_0 1)", "(<= 0 1)"), 5, "a bound of one input that always holds"),
        (PLAIN.replace("(<= X_0 1)", "(<= X_0 1e999)"), 5, "too large"),
        (PLAIN.replace("(<= X_0 1)", "(<= X_0 nan)"), 5, "decimal number, got 'nan'"),
        (PLAIN.replace("(<= X_0 1)", "(<= X_0 inf)"), 5, "decimal number"),
        (PLAIN.replace("(<= X_0 1)", "(<= X_0 1_0)"), 5, "decimal number"),
        (PLAIN.replace("(<= X_0 1)", "(<= X_0 ١)"), 5, "decimal number"),
        (PLAIN.replace("(<= X_0 1)", "(<= X_0 0x1)"), 5, "decimal number"),
        (PLAIN.replace("(<= X_0 1)", "(<= X_2 1)"), 5, "a declared variable"),
        (PLAIN.replace("(<= X_0 1)", "(<= X_0 (/ 1 2))"), 5, "expected +, - or *"),
        (PLAIN.replace("(<= Y_0 Y_1)", "(<= (* Y_0 Y_1) 0)"), 6, "product of variables"),
        (PLAIN.replace("(<= Y_0 Y_1)", "(<= Y_0 Y_0)"), 6, "a bound of one input that always holds"),
        (PLAIN.replace("(<= Y_0 Y_1)", "(<= Y_0 Y_1 0)"), 6, "of two terms"),
        (PLAIN.replace("(<= Y_0 Y_1)", "(or)"), 6, "of two terms"),
        (PLAIN.replace("(<= Y_0 Y_1)", "(<= Y_0 (+))"), 6, "expected +, - or *"),
        (PLAIN.replace("(<= Y_0 Y_1)", "(<= (* 1e-400 Y_0) 0)"), 6, "too small"),
        (PLAIN.replace("X_1 Real", "X_0 Real"), 2, "a new variable"),
        (PLAIN.replace("X_1 Real", "X_01 Real"), 2, "a new variable"),
        (PLAIN.replace("X_1 Real", "Z_1 Real"), 2, "a new variable"),
        (PLAIN.replace("X_1 Real", "X_1 Int"), 2, "expected (declare-const NAME Real)"),
        (PLAIN + "(check-sat)", 7, "(assert ...) of VNN-LIB 1.0, got (check-sat)"),
        ("(vnnlib-version <2.0>)" + PLAIN, 1, "of VNN-LIB 1.0"),
        (PLAIN + "x", 7, "expected '(', got 'x'"),
        (PLAIN + ")", 7, "expected '(', got ')'"),
        (PLAIN + "(assert (<= Y_0", 7, "the end of the file"),
        (PLAIN + "(" * 100_000, 7, "nested parentheses"),
        (PLAIN + '(set-info "a)(b")', 7, "a quote"),
        (PLAIN + "(set-info |;|)", 7, "'|'"),
        (PLAIN + "; a\r(assert (<= Y_0 -9))\n", 7, "carriage return"),
        (PLAIN + "(assert (and " + "(or (<= Y_0 0) (<= Y_1 0))" * 20 + "))", 7, "10,000 ways to be unsafe"),
        (PLAIN + "(assert (or (<= Y_0 0) (<= Y_1 0)))" * 20, 7, "10,000 ways to be unsafe"),
    ],
)
def test_what_is_not_read_is_refused_with_its_line(tmp_path: Path, text: str, line: int, words: str) -> None:
    with pytest.raises(BadData) as refused:
        read(tmp_path, text)
    message = str(refused.value)
    assert words in message
    assert f"a.vnnlib, line {line}:" in message
    assert "\n" not in message
    assert len(message) < 400


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (PLAIN.replace("(assert (<= X_0 1))", ""), "X_0"),
        (PLAIN.replace("(<= X_0 1)", "(<= X_0 -1)"), "X_0"),
        (PLAIN.replace("X_1", "X_2"), "X_1"),
        (BOX.join(["(declare-const X_0 Real)(declare-const X_1 Real)", ""]), "Y_0"),
        (DECLARED + BOX, "constraint"),
        ("", "X_0"),
        (b"\xff\xfe", "utf-8"),
        (gzip.compress(PLAIN.encode(), mtime=0)[:-20], "read"),
        (gzip.compress(PLAIN.encode(), mtime=0)[:15] + b"xx" * 9, "read"),
    ],
)  # fmt: skip
def test_what_is_missing_or_damaged_is_refused(tmp_path: Path, content: str | bytes, words: str) -> None:
    with pytest.raises(BadData, match=words):
        read(tmp_path, content)


def test_files_that_are_not_there(tmp_path: Path) -> None:
    read(tmp_path, PLAIN)
    with pytest.raises(Missing, match=r"a\.vnnlib"):
        read_vnnlib(tmp_path / "a.vnlib")
    with pytest.raises(BadData):
        read_vnnlib(tmp_path)


def test_numbers_that_are_not_finite_are_not_written(tmp_path: Path) -> None:
    query = drawn(0)
    with pytest.raises(NotFinite, match="finite"):
        write_vnnlib(tmp_path / "a", Query(query.low * torch.nan, query.high, query.unsafe))
    assert not list(tmp_path.iterdir())


def test_a_counterexample_names_every_variable(tmp_path: Path) -> None:
    write_counterexample(tmp_path / "a", torch.tensor([2.0**-20, 2.0]), torch.tensor([-0.5]))
    assert (tmp_path / "a").read_text() == "sat\n((X_0 0.00000095367431640625)\n(X_1 2.0)\n(Y_0 -0.5))\n"


# --- fuzz: the meaning of a formula, evaluated as it is made -------------------------------------


def term(draw: random.Random, depth: int, outputs: list[float]) -> tuple[str, float]:
    """Return a linear term, and its value."""
    kind = draw.choice(["number", "output", "output", "+", "-", "neg", "*"] if depth else ["number", "output"])
    if kind == "output":
        i = draw.randrange(len(outputs))
        return f"Y_{i}", outputs[i]
    value = draw.choice([-2.0, -0.5, 0.25, 1.0, 3.0])
    text = draw.choice([str(value), f"{value:.3e}", f"(- {-value})" if value < 0 else f"+{value}"])
    if kind == "number":
        return text, value
    a, first = term(draw, depth - 1, outputs)
    if kind == "neg":
        return f"(- {a})", -first
    if kind == "*":
        return draw.choice([(f"(* {text} {a})", value * first), (f"(* {a} {text})", value * first)])
    b, second = term(draw, depth - 1, outputs)
    return f"({kind} {a} {b})", first + second if kind == "+" else first - second


def formula(draw: random.Random, depth: int, outputs: list[float]) -> tuple[str, bool]:
    """Return a formula with at least one output in each constraint, and whether it holds."""
    word = draw.choice(["and", "or", "<="]) if depth else "<="
    if word == "<=":
        (a, less), (b, more) = term(draw, 2, outputs), term(draw, 2, outputs)
        swapped = draw.random() < 0.5
        return (f"(>= {b} {a})" if swapped else f"(<= {a} {b})"), less <= more
    parts = [formula(draw, depth - 1, outputs) for _ in range(draw.choice([1, 2, 3]))]
    joint = all if word == "and" else any
    return f"({word} {' '.join(text for text, _ in parts)})", joint(holds for _, holds in parts)


@pytest.mark.sweep(3)
@pytest.mark.parametrize("seed", range(300))
def test_a_random_formula_holds_where_its_query_says(tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    outputs = [draw.choice([-2.0, -1.0, 0.0, 0.5, 4.0]) for _ in range(3)]
    asserted = [formula(draw, 3, outputs) for _ in range(draw.choice([1, 2]))]
    declared = "".join(f"(declare-const {name} Real)" for name in ("X_0", "Y_0", "Y_1", "Y_2"))
    text = declared + "(assert (<= X_0 1))(assert (>= X_0 0))" + "".join(f"(assert {one})" for one, _ in asserted)
    text = "".join(c + draw.choice(["", "", "", " ", "\n", " ; (\n"]) if c in "() " else c for c in text)
    try:
        query = read(tmp_path, text)
    except HoldfastError as error:  # a constraint from which all outputs cancel
        assert "on outputs alone" in str(error) or "ways to be unsafe" in str(error)  # noqa: PT017
        return
    holds = all(one for _, one in asserted)
    assert bool(query.worst(torch.tensor([outputs]).double()) <= 0) == holds


@pytest.mark.sweep(3)
@pytest.mark.parametrize("seed", range(300))
def test_a_damaged_file_is_refused_or_read_in_one_line(tmp_path: Path, seed: int) -> None:
    """Bytes changed, doubled, or lost: a reader that raises anything else fails here."""
    draw = random.Random(seed)
    content = bytearray((PLAIN + "(assert (or (and (<= (* 2 Y_0) -1.5e-3)) (>= Y_1 0)))").encode())
    for _ in range(draw.choice([1, 2, 8])):
        at = draw.randrange(len(content))
        match draw.choice(["change", "drop", "double", "cut"]):
            case "change":
                content[at] = draw.choice(b"()<>=;XY_019.-+*e \n\r\x00\xff|")
            case "drop":
                del content[at : at + draw.choice([1, 5])]
            case "double":
                content[at:at] = content[at : at + 20]
            case "cut":
                del content[max(at, 50) :]
    try:
        query = read(tmp_path, bytes(content))
    except HoldfastError as error:
        assert "\n" not in str(error)  # noqa: PT017
    else:
        assert bool((query.low <= query.high).all())
        assert all(bool(margin.weights.any(2).all()) for margin in query.unsafe)
