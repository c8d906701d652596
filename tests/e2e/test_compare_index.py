"""An upgrade of an index, as a user makes it: what changes, what it costs, canaries, requirements, the report."""

import json
import re
from pathlib import Path

import numpy as np
import PIL.Image
import pyarrow.parquet as pq
import pytest
import torch
from test_command_line import refused, run
from torch import nn

import holdfast
from holdfast.core import Encoder
from holdfast.core.geometry import Geometry
from holdfast.runtime.errors import BadPlace, NotEnough

OLD, NEW = "zoo:digits-simclr", "zoo:digits-simclr-adv"
TWO = ("compare-index", OLD, NEW, "--data", "digits")


class Projected(nn.Module):
    """Grey levels, shrunk to a side, by a fixed matrix: encoders whose neighbours are known."""

    def __init__(self, matrix: torch.Tensor, side: int = 4):
        super().__init__()
        self.pool, self.matrix = nn.AdaptiveAvgPool2d(side), nn.Parameter(matrix)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.pool(x.mean(1, keepdim=True)).flatten(1) @ self.matrix


def encoder(name: str, matrix: torch.Tensor | None = None, side: int = 4) -> Encoder:
    matrix = torch.eye(side * side) if matrix is None else matrix
    return Encoder(Projected(matrix, side), mean=0, std=1, name=name)


@pytest.fixture(scope="module")
def images() -> torch.Tensor:
    return torch.rand(80, 1, 8, 8, generator=torch.Generator().manual_seed(0))


def test_a_rotated_copy_passes_and_a_scaled_one_has_scaled_thresholds(images: torch.Tensor) -> None:
    turn = torch.linalg.qr(torch.randn(16, 16, generator=torch.Generator().manual_seed(1)))[0]
    record = holdfast.compare_index(
        encoder("old"), encoder("new", 5 * turn), images, rate=0.02, require=["overlap@10 >= 95 %"], quiet=True
    )
    measures = record["measures"]
    for name in ("overlap@1", "overlap@5", "overlap@10", "rank_biased_overlap"):
        score = measures[name]["scores"]["mean"]
        assert score["value"] == 1
        assert 0.5 < score["low"] < 0.97
    limits = measures["threshold"]["scores"]
    assert limits["new"]["value"] == pytest.approx(5 * limits["old"]["value"], rel=1e-4)
    assert measures["false_positives"]["scores"]["kept"]["value"] == 0
    assert measures["distance_scale"]["scores"]["mean"]["value"] == pytest.approx(5, rel=1e-4)
    assert record["changed"] == []
    # 100 % is what these images say, and fewer than 95 % of all are not excluded by so few
    assert not record["passed"]
    assert [finding["unit"] for finding in record["findings"]] == ["share"]
    assert "FAILED: 1 of 1 requirement not met" in str(record)


def test_the_command_says_what_changes_and_makes_no_pass_twice(capsys, tmp_path: Path) -> None:
    folder = tmp_path / "upgrade"
    code, out, err = run(capsys, *TWO, "--images", "200", "--out", str(folder), "--edits", "--json")
    assert code == 0, err
    record = json.loads(out)
    assert record == json.loads((folder / "index.json").read_text())
    for side in ("old", "new"):
        made = record["encoders"][side]["passes"]
        assert made["made"] == made["predicted"] == {"forward": 200 * 8, "backward": 0, "bounds": 0}
    assert {"overlap@10", "recall@1", "class_recall@5", "missed_copies", "false_positives"} <= set(record["measures"])
    table = pq.read_table(folder / "tables/images.parquet")
    assert np.mean(table["overlap@5"].to_numpy()) == pytest.approx(
        record["measures"]["overlap@5"]["scores"]["mean"]["value"]
    )
    overlaps = dict(zip(table["id"].to_pylist(), table["overlap@10"].to_pylist(), strict=True))
    assert [entry["stay"] for entry in record["changed"]] == [
        round(10 * overlaps[entry["id"]]) for entry in record["changed"]
    ]
    page = (folder / "report.html").read_text()
    assert len(re.findall('<article class="worst">', page)) == 12
    assert not re.search(r"(src|href)=.?(https?:|/)", page)
    # other questions of the same representations
    code, out, _ = run(
        capsys,
        *TWO,
        "--images",
        "200",
        "--out",
        str(folder),
        "--k",
        "3",
        "--rate",
        "0.01",
        "--require",
        "overlap@3 > 10%",
        "--overwrite",
    )
    assert code == 0
    assert json.loads((folder / "index.json").read_text())["encoders"]["new"]["passes"]["made"]["forward"] == 0
    assert "overlap@3" in out
    assert "✓ overlap@3 > 10%" in out
    assert "passed" in out
    assert "Encoder passes: 0 by the old one, 0 by the new one; those of 400 more were stored" in out
    # a requirement that is not met
    code, out, _ = run(
        capsys, *TWO, "--images", "200", "--out", str(folder), "--require", "overlap@10 > 99 %", "--overwrite"
    )
    assert code == 1
    assert "✗ overlap@10 > 99 %" in out
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert re.findall(r"<p>([✓✗] .*?): [\d.]+ %", page) == [f"✗ overlap@10 &gt; 99 %, {NEW}"]
    assert "by ℓ2 distance)</p>" in page
    line = refused(capsys, *TWO, "--images", "200", "--out", str(folder), "--require", "overlap@9 > 1 %", "--overwrite")
    assert "did you mean 'overlap@" in line
    (folder / "record.json").write_text("{}")
    assert "holds an audit" in refused(capsys, *TWO, "--images", "200", "--out", str(folder))


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Colour pictures of two sizes, one of which has a name that HTML must not read."""
    folder, random = tmp_path_factory.mktemp("pictures"), np.random.default_rng(0)
    for number in range(40):
        pixels = random.integers(0, 255, (20 + number % 2 * 8, 24, 3), dtype=np.uint8)
        PIL.Image.fromarray(pixels).save(folder / f"{number:02d}{'<b>' if number == 7 else ''}.png")
    return folder


def test_canaries_that_change_sides_are_listed_and_end_the_command(pictures: Path, tmp_path: Path) -> None:
    """Encoders of other sizes; one canary is planted: the new encoder looks at blue alone, where two pictures agree."""
    same = PIL.Image.open(pictures / "02.png").convert("RGB")
    red, green, _ = PIL.Image.open(pictures / "04.png").convert("RGB").split()
    folder = tmp_path / "index"
    folder.mkdir()
    for path in pictures.iterdir():
        PIL.Image.open(path).save(folder / path.name)
    PIL.Image.merge("RGB", (red, green, same.split()[2])).save(folder / "04.png")
    geometry = Geometry((16, 16), 3, 16), Geometry((8, 8), 3, 8)
    old = Encoder(nn.Sequential(nn.AdaptiveAvgPool2d(4), nn.Flatten()), mean=0, std=1, geometry=geometry[0], name="old")
    new = Encoder(Blue(), mean=0.5, std=0.5, geometry=geometry[1], name="new<i>")
    canaries = tmp_path / "canaries.csv"
    canaries.write_text("first,second,expected\n02.png,04.png,apart\n00.png,07<b>.png,apart\n10.png,12.png,together\n")
    record = holdfast.compare_index(
        old, new, folder, rate=0.03, canaries=canaries, out=tmp_path / "out", quiet=True, k=[1, 3]
    )
    assert [row["outcome"] for row in record["canaries"]] == ["broken", "wrong before and after", "holds"]
    broken = record["canaries"][0]
    assert (broken["first"], broken["second"]) == ("02.png", "04.png")
    assert broken["sides"] == {"old": "apart", "new": "together", "kept": "together"}
    assert broken["distances"]["new"] == pytest.approx(0, abs=1e-6)
    changed = {entry["id"]: entry for entry in record["changed"]}["02.png"]
    assert changed["after"][0]["id"] == "04.png" != changed["before"][0]["id"]
    assert (record["passed"], record["status"]) == (False, 1)
    assert record["data"]["pairs"] == 40 * 39 / 2 - 1  # a pair that belongs together is no pair of different images
    assert "broken: 02.png and 04.png, expected apart: apart before" in str(record)
    assert "1 of 3 canaries broken" in str(record)
    html = record._repr_html_()
    assert "1 of 3 canaries broken" in html
    assert "new&lt;i&gt;" in html
    page = (tmp_path / "out" / "report.html").read_text()
    assert "<b>.png" not in page
    assert "new&lt;i&gt;" in page
    assert record["encoders"]["old"]["input"] == [3, 16, 16]
    assert record["encoders"]["new"]["input"] == [3, 8, 8]
    assert json.loads(json.dumps(record)) == json.loads((tmp_path / "out" / "index.json").read_text()) == record


class Blue(nn.Module):
    """The blue pixels of an image."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.scale * x[:, 2].flatten(1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("digit-0034,digit-0459\n", "line 1: expected first,second,together or first,second,apart, got 'digit-0034"),
        ("digit-0034,digit-0459,same\n", "line 1: expected first,second,together"),
        ("first,second,expected\ndigit-0034,digit-0034,apart\n", "line 2: expected two different images"),
        ("digit-0034,digit-004X,apart\n", "did you mean"),
        ("digit-0034,digit-0459,apart\ndigit-0459,digit-0034,together\n", "line 2: expected each pair once"),
        ("", "expected at least one pair"),
    ],
)
def test_canaries_that_cannot_be_read(text: str, message: str, capsys, tmp_path: Path) -> None:
    (tmp_path / "c.csv").write_text(text)
    line = refused(capsys, *TWO, "--out", str(tmp_path / "o"), "--canaries", str(tmp_path / "c.csv"))
    assert message in line
    assert not (tmp_path / "o").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--images", "24", "--rate", "0.001"), "a rate of 0.001 leaves 0 of 276 pairs of 24 images"),
        (("--images", "11"), "k: expected fewer neighbours than"),
        (("--images", "2"), "images: expected at least 3"),
        (("--rate", "0.1", "--threshold", "1"), "rate and threshold: expected one of them"),
        (("--rate", "1.5"), "rate: expected a share of pairs in (0, 1), got 1.5"),
        (("--threshold", "0"), "threshold: expected a distance above 0"),
        (("--divergence", "kl"), "expected a symmetric one"),
        (("--divergence", "l3"), "unknown divergence"),
        (("--k", "1", "--k", "1"), "each once"),
        (("--require", "overlap@10"), "requirement 'overlap@10': expected"),
        (("--canaries", "nosuch.csv"), "canaries: cannot read"),
    ],
)
def test_what_cannot_be_told_is_refused_before_the_first_pass(options, message: str, capsys, tmp_path: Path) -> None:
    line = refused(capsys, *TWO, "--out", str(tmp_path / "o"), *options)
    assert message in line
    assert not (tmp_path / "o").exists()


def test_thresholds_that_no_pair_reaches_are_errors(capsys, tmp_path: Path) -> None:
    some = (*TWO, "--images", "30", "--out", str(tmp_path / "o"))
    assert "pairs of different images match, got 1e-06 with 0; the ℓ2 distance of the nearest pair is" in refused(
        capsys, *some, "--threshold", "1e-6"
    )
    assert "is it of another divergence?" in refused(capsys, *some, "--threshold", "1000")
    # where nobody asked for a threshold, there is none, and all else is told
    code, out, _ = run(capsys, *some)
    assert code == 0
    assert "No threshold: rate: a rate of 0.001 leaves 0 of 435 pairs of 30 images" in out


def test_every_answer_says_by_which_distance(capsys, tmp_path: Path) -> None:
    folder = tmp_path / "o"
    line = (*TWO, "--images", "80", "--out", str(folder), "--divergence", "cosine", "--rate", "0.01")
    code, out, _ = run(capsys, *line, "--require", "overlap@10 > 1 %")
    assert code == 0
    said = " ".join(out.split())
    assert "of an image's first 10 neighbours by cosine distance stay" in said
    assert re.search(r"the threshold [\d.]+ \(cosine distance\) becomes", said)
    assert "in common, by cosine distance" in said
    record = json.loads((folder / "index.json").read_text())
    assert (record["distance"], record["larger_is_nearer"]) == ("cosine distance", False)
    assert [finding["compared"] for finding in record["findings"]] == [
        "overlap@10, mean, low end (the default for >); by cosine distance"
    ]
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "first 10 neighbours by cosine distance stay" in page
    assert "Below which cosine distance of the new encoder" in page


def test_inner_products_are_told_with_their_own_sign(capsys, images: torch.Tensor, tmp_path: Path) -> None:
    """Twice the representation has four times the product, and the same pairs match."""
    old, new = encoder("old"), encoder("new", 2 * torch.eye(16))
    kept = {"out": tmp_path / "o", "divergence": "dot", "quiet": True}
    record = holdfast.compare_index(old, new, images, rate=0.02, **kept)
    limits = record["measures"]["threshold"]["scores"]
    reps = old(images).double()
    first, second = torch.triu_indices(80, 80, 1)
    products = (reps[first] * reps[second]).sum(1).sort(descending=True).values
    assert limits["old"]["value"] == pytest.approx(float(products[int(0.02 * len(products))]), rel=1e-5)
    assert limits["new"]["value"] == pytest.approx(4 * limits["old"]["value"], rel=1e-5)
    assert limits["new"]["low"] < limits["new"]["value"] < limits["new"]["high"]
    assert all(row["new"] == pytest.approx(4 * row["old"], rel=1e-5) for row in record["translation"])
    assert record["larger_is_nearer"]
    said = " ".join(str(record).split())
    assert "There is no scale of distances, new / old: the inner product may be below 0" in said
    assert "−" not in said.partition("becomes")[0]
    page = (tmp_path / "o" / "report.html").read_text(encoding="utf-8")
    assert "Above which inner product" in page
    assert "scale of distances</span>" not in page
    # a threshold is given as the index has it
    given = holdfast.compare_index(old, new, images, threshold=limits["old"]["value"], divergence="dot", quiet=True)
    again = given["measures"]["threshold"]["scores"]
    assert again["new"]["value"] == pytest.approx(limits["new"]["value"], rel=1e-2)
    assert given["measures"]["false_positives"]["scores"]["old"]["value"] == pytest.approx(0.02, abs=1e-3)
    with pytest.raises(NotEnough) as error:
        holdfast.compare_index(old, new, images, threshold=1000.0, divergence="dot", quiet=True)
    assert "got 1000 with 0; the inner product of the nearest pair is" in str(error.value)
    assert "smaller" in str(error.value)


def test_canaries_of_inner_products(images: torch.Tensor, tmp_path: Path) -> None:
    old, new = encoder("old"), encoder("new", 2 * torch.eye(16))
    (tmp_path / "c.csv").write_text("000000,000001,together\n")
    record = holdfast.compare_index(
        old, new, images, rate=0.02, divergence="dot", quiet=True, canaries=tmp_path / "c.csv"
    )
    (row,) = record["canaries"]
    product = float((old(images[:1]).double() * old(images[1:2]).double()).sum())
    assert row["distances"]["old"] == pytest.approx(product, rel=1e-5)
    above = product > record["measures"]["threshold"]["scores"]["old"]["value"]
    assert row["sides"]["old"] == ("together" if above else "apart")


def test_a_folder_keeps_its_comparison_unless_overwrite_says_otherwise(images: torch.Tensor, tmp_path: Path) -> None:
    old, new, folder = encoder("old"), encoder("new", 5 * torch.eye(16)), tmp_path / "o"
    kept = {"out": folder, "rate": 0.02, "quiet": True}
    first = holdfast.compare_index(old, new, images, **kept)
    again = holdfast.compare_index(old, new, images, **kept)
    assert again["encoders"]["new"]["passes"]["made"]["forward"] == 0
    assert again["measures"] == first["measures"]
    held = {name: (folder / name).read_bytes() for name in ("index.json", "report.html")}
    another = "holds another comparison; choose another --out, or add"
    other = encoder("new", 3 * torch.eye(16))
    for said, again in (
        (another, lambda: holdfast.compare_index(old, new, images, **kept, k=[3])),
        (another, lambda: holdfast.compare_index(old, new, images, **{**kept, "rate": 0.05})),
        (another, lambda: holdfast.compare_index(old, new, images, **kept, require=["overlap@10 > 1 %"])),
        (another, lambda: holdfast.compare_index(old, new, images, **kept, divergence="cosine")),
        ("holds another comparison", lambda: holdfast.compare_index(old, new, images[:60], **kept)),
        ("other weights", lambda: holdfast.compare_index(old, other, images, **kept)),
        (
            "holds a comparison of an index; choose another --out",
            lambda: holdfast.audit(old, images, measures="uniformity", out=folder, quiet=True),
        ),
    ):
        with pytest.raises(BadPlace) as error:
            again()
        assert said in str(error.value)
    assert held == {name: (folder / name).read_bytes() for name in held}
    replaced = holdfast.compare_index(old, new, images, **{**kept, "k": [3], "overwrite": True})
    assert "overlap@3" in replaced["measures"]
    assert replaced["encoders"]["new"]["passes"]["made"]["forward"] == 0
    assert json.loads((folder / "index.json").read_text()) == replaced
    assert replaced["finished"] >= first["finished"] > "2026"
