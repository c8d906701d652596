"""Stored vectors as sides of an index, as a user compares them: by ids, with an encoder, from Python."""

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from test_command_line import refused, run

import holdfast
from holdfast.runtime.errors import Mismatch
from holdfast.sources.data import open_images
from holdfast.sources.encoders import open_encoder

OLD = "zoo:digits-simclr"


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two sides of 300 items, of which the new one has 280, in another order."""
    folder, random = tmp_path_factory.mktemp("vectors"), np.random.default_rng(0)
    old = random.normal(size=(300, 16)).astype(np.float32)
    new = old + 0.1 * random.normal(size=old.shape).astype(np.float32)
    order = random.permutation(300)[:280]
    np.save(folder / "old.npy", old)
    np.save(folder / "new.npy", new[order])
    np.save(folder / "same.npy", new)
    (folder / "ids.txt").write_text("\n".join(map(str, order)))
    (folder / "three.txt").write_text("a\nb\nc\n")
    return folder


def test_items_are_matched_by_their_ids(two: Path, capsys, tmp_path: Path) -> None:
    canaries = tmp_path / "c.csv"
    known = (two / "ids.txt").read_text().split("\n")
    canaries.write_text(f"{known[0]},{known[1]},apart\n")
    code, out, err = run(
        capsys, "compare-index", f"vectors:{two}/old.npy", f"vectors:{two}/new.npy?ids={two}/ids.txt", "--out",
        str(tmp_path / "o"), "--rate", "0.01", "--canaries", str(canaries), "--require", "overlap@10 > 50 %", "--json",
    )  # fmt: skip
    assert code == 0, err
    record = json.loads(out)
    kept = [row for row in range(300) if str(row) in set(known)]
    alike = holdfast.compare_index(
        np.load(two / "old.npy")[kept], torch.from_numpy(np.load(two / "same.npy")[kept]), rate=0.01, quiet=True
    )
    for name in ("overlap@1", "overlap@10", "rank_biased_overlap", "cosine", "cosine_below"):
        assert record["measures"][name]["scores"] == alike["measures"][name]["scores"], name
    assert (record["noun"], record["data"]["images"]) == ("item", 280)
    assert "20 of 300 ids are on this side only" in record["notes"][0]
    assert record["canaries"][0]["outcome"] == "holds"
    assert record["passed"]
    page = (tmp_path / "o" / "report.html").read_text(encoding="utf-8")
    assert "Items whose neighbours changed most" in page
    assert "on 280 items" in page
    assert "image" not in page[page.index("<main") : page.index("</main>")].replace("images: ", "").replace(
        "there are no images", ""
    ).replace('role="img"', "")
    assert len(record["changed"]) == 12
    assert len(pq.read_table(tmp_path / "o" / "tables/images.parquet")) == 280


def test_arrays_stand_beside_files_and_encoders(two: Path) -> None:
    """Whichever side is which, and a file beside itself."""
    file, array = f"vectors:{two}/old.npy", np.load(two / "same.npy")
    for old, new in ((file, array), (array, file), (file, f"vectors:{two}/same.npy")):
        record = holdfast.compare_index(old, new, quiet=True)
        assert record["measures"]["cosine"]["scores"]["mean"]["value"] > 0.9
    assert holdfast.compare_index(file, file, quiet=True)["measures"]["cosine"]["scores"]["lowest"]["value"] == 1
    names = open_images("digits", images=60).ids
    vectors = np.random.default_rng(1).normal(size=(60, 32)).astype(np.float32)
    for sides in ((OLD, vectors), (vectors, OLD)):
        with pytest.raises(Mismatch) as error:
            holdfast.compare_index(*sides, "digits", images=60, quiet=True)
        assert f"got none for 60 of 60, first {names[0]!r}" in str(error.value)


def test_some_queries_say_what_all_of_them_do(two: Path, capsys, tmp_path: Path) -> None:
    line = (
        "compare-index",
        f"vectors:{two}/old.npy",
        f"vectors:{two}/same.npy",
        "--out",
        str(tmp_path / "o"),
        "--json",
    )
    code, out, err = run(capsys, *line, "--queries", "60", "--k", "5")
    assert code == 0, err
    some = json.loads(out)
    every = json.loads(run(capsys, *line, "--k", "5", "--overwrite")[1])
    part, whole = (record["measures"]["overlap@5"]["scores"]["mean"] for record in (some, every))
    assert part["n"] == 60
    assert whole["n"] == 300
    assert part["low"] < whole["value"] < part["high"]
    assert "drawn from this index" in part["interval"]
    assert "neighbours of 60 items are looked for among all 300" in " ".join(some["notes"])
    assert some["measures"]["cosine"] == every["measures"]["cosine"]
    # the same seed draws the same queries
    again = json.loads(run(capsys, *line, "--queries", "60", "--k", "5", "--overwrite")[1])
    assert again["measures"] == some["measures"]
    other = json.loads(run(capsys, *line, "--queries", "60", "--k", "5", "--overwrite", "--seed", "1")[1])
    assert other["measures"]["overlap@5"] != some["measures"]["overlap@5"]


def test_stored_vectors_are_held_against_the_encoder_that_should_give_them(capsys, tmp_path: Path) -> None:
    images = open_images("digits", images=60, seed=0)
    reps = open_encoder(OLD)(images.pick(range(60)))
    order = torch.randperm(60, generator=torch.Generator().manual_seed(0))
    np.save(tmp_path / "v.npy", reps[order].detach().numpy())
    (tmp_path / "v.txt").write_text("\n".join(images.ids[place] for place in order.tolist()))
    spec = f"vectors:{tmp_path}/v.npy?ids={tmp_path}/v.txt"
    for number, sides in enumerate(((OLD, spec), (spec, OLD))):
        code, out, err = run(
            capsys, "compare-index", *sides, "--data", "digits", "--images", "60", "--out", str(tmp_path / f"{number}"),
            "--json", "--rate", "0.01",
        )  # fmt: skip
        assert code == 0, err
        record = json.loads(out)
        assert record["measures"]["overlap@10"]["scores"]["mean"]["value"] == 1
        assert record["measures"]["cosine"]["scores"]["lowest"]["value"] == pytest.approx(1, abs=1e-6)
        assert record["noun"] == "image"
    line = refused(
        capsys, "compare-index", OLD, spec, "--data", "digits", "--images", "90", "--out", str(tmp_path / "p")
    )
    assert "expected a vector for each image, by its id, got none for 30 of 90" in line


@pytest.mark.parametrize(
    ("sides", "options", "said"),
    [
        (("old", "new"), (), "expected as many vectors on both sides, which have no ids, got 300 and 280"),
        (("old", "old"), ("--data", "digits"), "expected no images beside two sides of stored vectors"),
        (("old", "same"), ("--edits",), "edits: expected two encoders"),
        (("old", "same"), ("--images", "10"), "images: expected none with stored vectors"),
        (("old", "same"), ("--queries", "2"), "queries: expected at least 3"),
        (("old", "same"), ("--k", "299"), "other items have places, got 299"),
        (("old", OLD), (), "data: expected the images of an index"),
        ((OLD, OLD), (), "data: expected the images of an index"),
        ((OLD, OLD), ("--data", "digits", "--queries", "9"), "queries: expected two sides of stored vectors"),
        (("old", "nosuch"), (), "found none at"),
        (("nan", "same"), (), "in 1 of 300 vectors, first in row 7"),
        (("old", "strange"), (), "got no id in common: '0', … in"),
    ],
)
def test_what_cannot_be_compared_is_refused(sides, options, said: str, two: Path, capsys, tmp_path: Path) -> None:
    values = np.load(two / "old.npy")
    values[7, 3] = np.nan
    np.save(tmp_path / "nan.npy", values)
    np.save(tmp_path / "three.npy", values[:3])
    places = {"nan": f"{tmp_path}/nan.npy", "strange": f"{tmp_path}/three.npy?ids={two}/three.txt"}
    specs = [side if side == OLD else f"vectors:{places.get(side, f'{two}/{side}.npy')}" for side in sides]
    line = refused(capsys, "compare-index", *specs, *options, "--out", str(tmp_path / "o"))
    assert said in line
    assert not (tmp_path / "o").exists()


def test_zero_vectors_and_copies_are_told_and_change_no_threshold(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    old = random.normal(size=(200, 8)).astype(np.float32)
    old[5], old[150:] = 0, old[:50]
    new = old @ np.linalg.qr(random.normal(size=(8, 8)))[0].astype(np.float32)
    new[150:] = new[:50]
    record = holdfast.compare_index(old, new, rate=0.01, quiet=True)
    assert "2 of 200 vectors are zero (5, 155)" in " ".join(record["notes"])
    # 50 items are there twice: no pairs of different ones
    assert record["data"]["pairs"] == 200 * 199 / 2 - 50
    assert record["measures"]["threshold"]["scores"]["old"]["value"] > 0.5


def test_an_approximate_index_is_held_against_exact_vectors(capsys, tmp_path: Path) -> None:
    faiss = pytest.importorskip("faiss", reason="the faiss extra is not installed")
    values = np.random.default_rng(0).normal(size=(600, 8)).astype(np.float32)
    np.save(tmp_path / "exact.npy", values)
    index = faiss.index_factory(8, "IVF16,PQ4x4")
    index.train(values)
    index.add(values)
    faiss.write_index(index, str(tmp_path / "a.faiss"))
    line = ("compare-index", f"vectors:{tmp_path}/exact.npy", "--out", str(tmp_path / "o"), "--json", "--overwrite")
    found = {}
    for probes in (1, 16):
        code, out, err = run(capsys, *line, f"vectors:{tmp_path}/a.faiss?nprobe={probes}")
        assert code == 0, err
        record = json.loads(out)
        found[probes] = record["measures"]["overlap@10"]["scores"]["mean"]["value"]
        index.nprobe = probes
        # by hand: of the ten nearest others, how many the index finds
        exact = torch.cdist(torch.from_numpy(values), torch.from_numpy(values)).topk(11, largest=False).indices
        lists = torch.from_numpy(index.search(values, 53)[1])
        shares = []
        for row in range(600):
            given = [n for n in lists[row].tolist() if n != row][:10]
            shares.append(len(set(given) & set(exact[row].tolist()) - {row}) / 10)
        assert found[probes] == pytest.approx(np.mean(shares), abs=1e-3)
        assert "is asked with the vectors of the other side" in " ".join(record["notes"])
    assert found[1] < found[16] < 1
