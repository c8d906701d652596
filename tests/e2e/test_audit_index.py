"""One index by itself, as a user looks at it: planted copies, hubs, dead dimensions, and what is no index."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from test_command_line import refused, run

import holdfast


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """900 vectors: three equal ones, a near pair, zeros, one with NaN, a hub and a dead dimension."""
    folder, random = tmp_path_factory.mktemp("index"), np.random.default_rng(0)
    values = random.normal(size=(900, 24)).astype(np.float32)
    values[:, 9] = 0
    values[100] = values[101] = values[7]
    values[200] = values[300] + 0.01 * random.normal(size=24) * (np.arange(24) != 9)
    values[400] = 0.02 * values.mean(0)
    values[3], values[50, 2] = 0, np.nan
    np.save(folder / "v.npy", values)
    return folder / "v.npy"


def test_what_is_planted_is_found_by_name(planted: Path, capsys, tmp_path: Path) -> None:
    line = ("audit-index", f"vectors:{planted}", "--out", str(tmp_path / "o"), "--divergence", "l2", "--rate", "0.01")
    code, out, err = run(capsys, *line, "--json", "--require", "hubs < 95 %", "--require", "near_duplicates < 0.1 %")
    assert code == 1, err
    record = json.loads(out)
    assert record == json.loads((tmp_path / "o" / "index_audit.json").read_text())
    own = record["vectors"]
    assert (own["items"], own["dim"], own["zero"], own["not_finite"], own["copies"]) == (900, 24, 1, 1, 3)
    assert own["constant"] == [9]
    assert record["groups"] == [["7", "100", "101"]]
    assert {"3", "400"} & {hub["id"] for hub in record["hubs"][:2]}
    assert {(pair["first"], pair["second"]) for pair in record["pairs"]} >= {("7", "100"), ("200", "300")}
    assert all("image" not in entry["title"] for entry in record["measures"].values())
    # by hand: what has another one of cosine 0.95
    values = torch.from_numpy(np.delete(np.load(planted), 50, 0)).double()
    cosines = torch.nn.functional.normalize(values) @ torch.nn.functional.normalize(values).T
    near = (cosines.fill_diagonal_(0) >= 0.95).any(1).double().mean()
    assert record["measures"]["near_duplicates"]["scores"]["mean"]["value"] == pytest.approx(float(near))
    apart = torch.cdist(values, values)[tuple(torch.triu_indices(899, 899, 1))].sort().values
    limit = record["measures"]["threshold"]["scores"]["mean"]
    assert limit["value"] == pytest.approx(float(apart[int(0.01 * len(apart))]))
    assert limit["low"] < limit["value"] < limit["high"]
    assert [finding["met"] for finding in record["findings"]] == [True, False]
    said = " ".join(record["notes"])
    assert "1 of 900 vectors are not finite, and left out of all else (50)" in said
    assert "1 dimension of 24 with one value throughout" in said
    page = (tmp_path / "o" / "report.html").read_text(encoding="utf-8")
    assert "equal: 7, 100, 101" in page
    # Beside a column of links, without which the page would stand in theirs; cells that become blocks on a phone
    assert page.count("<nav ") == 1
    assert '<td data-head="95 % interval">' in page
    assert "✗ near_duplicates &lt; 0.1 %" in page
    code, out, _ = run(capsys, *line, "--overwrite")
    assert code == 0
    assert "3 vectors equal another one to the last bit" in " ".join(out.split())


def test_arrays_give_what_files_give_and_a_sample_says_what_it_is(planted: Path) -> None:
    values = np.load(planted)
    some = holdfast.audit_index(torch.from_numpy(values), queries=300, quiet=True, seed=1)
    every = holdfast.audit_index(f"vectors:{planted}", quiet=True)
    assert some["vectors"]["fingerprint"] == every["vectors"]["fingerprint"]
    assert some["vectors"]["copies"] == 3
    assert some["vectors"]["compared"] == 300
    assert "all pairs of 300 of 899 items are compared" in " ".join(some["notes"])
    low, high = (some["measures"]["near_duplicates"]["scores"]["mean"][end] for end in ("low", "high"))
    assert low < every["measures"]["near_duplicates"]["scores"]["mean"]["value"] < high
    assert "near-duplicate" in str(every)
    assert "near-duplicate" in every._repr_html_()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--k", "898"), "expected at least 900 vectors of finite numbers"),
        (("--similar", "1.5"), "similar: expected a cosine in (0, 1]"),
        (("--rate", "0"), "rate: expected a share of pairs"),
        (("--divergence", "kl"), "expected a symmetric one"),
        (("--queries", "5"), "queries: expected at least 12"),
        (("--require", "hubs"), "requirement 'hubs'"),
    ],
)
def test_what_cannot_be_asked_is_refused(options, said: str, planted: Path, capsys, tmp_path: Path) -> None:
    assert said in refused(capsys, "audit-index", f"vectors:{planted}", "--out", str(tmp_path / "o"), *options)
    assert not (tmp_path / "o").exists()


def test_a_folder_keeps_its_audit(planted: Path, capsys, tmp_path: Path) -> None:
    line = ("audit-index", f"vectors:{planted}", "--out", str(tmp_path / "o"), "--queries", "100")
    assert run(capsys, *line)[0] == 0
    before = (tmp_path / "o" / "index_audit.json").read_bytes()
    assert "add --overwrite" in refused(capsys, *line)
    assert (tmp_path / "o" / "index_audit.json").read_bytes() == before
    # Before a file is read, so that nobody waits for it
    assert "add --overwrite" in refused(capsys, "audit-index", "vectors:nowhere.npy", "--out", str(tmp_path / "o"))
    assert "expected a file of vectors" in refused(capsys, "audit-index", "zoo:digits-simclr", "--out", str(tmp_path))
