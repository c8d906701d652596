"""Certifying a pair of pictures, and lists of pairs, as a user types it."""

import json
import re
from pathlib import Path

import numpy as np
import PIL.Image
import pytest
from test_command_line import refused, run

from holdfast.runtime.exit_status import ExitStatus
from holdfast.sources.data import open_images

ENCODER = "zoo:digits-simclr"
FAST = ("--certifier", "crown_ibp", "--steps", "20", "--draws", "60", "--quiet")


@pytest.fixture
def pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three digits as picture files in the current folder."""
    images = open_images("digits", images=3)
    for name, image in zip("abc", images.batch(0, 3), strict=True):
        PIL.Image.fromarray((image[0] * 255).round().byte().numpy()).save(tmp_path / f"{name}.png")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def certify(*arguments: str) -> tuple[str, ...]:
    return ("certify", ENCODER, *arguments, *FAST)


def test_a_pair_is_proved_found_drawn_and_shown(capsys, pictures: Path) -> None:
    status, stdout, _ = run(capsys, *certify("--image", "a.png", "--against", "b.png", "--out", "page.html"))
    assert status == ExitStatus.DONE
    assert re.search(r"No change of up to [\d.]+/255 makes a.png nearer to b.png than to itself; a change of", stdout)
    assert "smoothed with noise of σ 0.1" in stdout
    page = (pictures / "page.html").read_text(encoding="utf-8")
    assert page.count("data:image/png;base64,") == 4  # the image, what was found, the change, the other
    assert all(f'class="{verdict}"' in page for verdict in ("certified", "undecided", "broken"))
    assert "http" not in page.replace("http-equiv", "")


def test_the_answer_is_json_data_for_machines(capsys, pictures: Path) -> None:
    asked = ("--image", "a.png", "--against", "b.png", "--against", "c.png", "--json")
    status, stdout, _ = run(capsys, *certify(*asked))
    answer = json.loads(stdout)
    assert status == ExitStatus.DONE
    assert [one["name"] for one in answer["against"]] == ["b.png", "c.png"]
    for one in answer["against"]:
        assert 0 < one["proofs"][0]["radius"] < one["attack"]["radius"] < 1
    status, stdout, _ = run(capsys, *certify(*asked, "--eps", "0.001", "--eps", "250/255"))
    verdicts = [[at["verdict"] for at in one["verdicts"]] for one in json.loads(stdout)["against"]]
    assert verdicts == [["certified", "broken"]] * 2


def test_images_are_ids_of_a_data_set(capsys) -> None:
    first, second = open_images("digits", images=2).ids
    _, stdout, _ = run(capsys, *certify("--data", "digits", "--image", first, "--against", second, "--json"))
    assert json.loads(stdout)["image"] == first
    asked = certify("--data", "digits", "--image", first, "--against", "nobody")
    assert "unknown image of digits 'nobody'" in refused(capsys, *asked)


def test_a_list_goes_on_where_a_pair_fails_and_where_it_was_killed(capsys, pictures: Path) -> None:
    folder = pictures / "lists"
    folder.mkdir()
    rows = ["image,against,eps", "../a.png,../b.png", "../a.png,../gone.png", "../b.png,../a.png;../c.png,0.001;0.9"]
    (folder / "pairs.csv").write_text("\n".join(rows), encoding="utf-8")
    asked = certify("--pairs", "lists/pairs.csv", "--out", "answers.jsonl")
    status, stdout, _ = run(capsys, *asked)
    assert status == ExitStatus.UNMET
    lines = stdout.splitlines()
    assert len(lines) == 3
    assert "no picture '../gone.png'" in lines[1]
    assert "certified at" in lines[2]
    written = (pictures / "answers.jsonl").read_text(encoding="utf-8").splitlines()
    first, gone, third = map(json.loads, written)
    assert gone["error"]
    assert gone["error_code"] == "missing"
    assert [at["verdict"] for at in third["against"][0]["verdicts"]] == ["certified", "broken"]

    # The second time only what is missing is judged: here the failed pair, and one of which half a line was written
    (pictures / "answers.jsonl").write_text("\n".join([*written[:2], written[2][:50]]), encoding="utf-8")
    PIL.Image.open(pictures / "c.png").save(pictures / "gone.png")
    status, again, _ = run(capsys, *asked)
    assert status == ExitStatus.DONE
    assert again.splitlines()[0] == lines[0]
    added = list(map(json.loads, (pictures / "answers.jsonl").read_text(encoding="utf-8").splitlines()[1:]))
    assert [one["image"] for one in added] == ["../a.png", "../b.png"]
    assert added[1]["against"][0]["attack"]["radius"] == third["against"][0]["attack"]["radius"]
    # Another picture under the same name is another pair
    PIL.Image.open(pictures / "b.png").transpose(PIL.Image.Transpose.FLIP_LEFT_RIGHT).save(pictures / "gone.png")
    run(capsys, *asked)
    assert len((pictures / "answers.jsonl").read_text(encoding="utf-8").splitlines()) == 4
    # Another question is another answer
    run(capsys, *asked, "--seed", "1")
    assert len((pictures / "answers.jsonl").read_text(encoding="utf-8").splitlines()) == 7
    assert first["key"] != added[0]["key"]


def test_a_list_becomes_a_page_and_ends_with_nothing_where_all_fail(capsys, pictures: Path) -> None:
    (pictures / "pairs.csv").write_text("a.png,b.png\nb.png,b.png\n", encoding="utf-8")
    status, _, _ = run(capsys, *certify("--pairs", "pairs.csv", "--out", "page.html"))
    assert status == ExitStatus.UNMET
    page = (pictures / "page.html").read_text(encoding="utf-8")
    assert "a.png against b.png" in page
    assert "have the same representation" in page
    (pictures / "pairs.csv").write_text("b.png,b.png\n", encoding="utf-8")
    status, stdout, _ = run(capsys, *certify("--pairs", "pairs.csv"))
    assert status == ExitStatus.NOTHING
    assert "have the same representation" in stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "expected an image and one that it must not be nearer to"),
        (("--image", "a.png"), "expected an image and one that it must not be nearer to"),
        (("--image", "a.png", "--against", "a.png"), "have the same representation"),
        (("--image", "a.png", "--against", "gone.png"), "no picture 'gone.png'"),
        (("--image", "a.png", "--against", "text.png"), "its content is not a picture"),
        (("--image", "a.png", "--against", "b.png", "--eps", "4"), "did you mean 4/255?"),
        (("--image", "a.png", "--against", "b.png", "--eps", "many"), "eps: expected a finite number"),
        (("--image", "a.png", "--against", "b.png", "--out", "page.pdf"), "out: expected a file that ends with .html"),
        (("--image", "a.png", "--against", "b.png", "--pairs", "pairs.csv"), "pairs: expected no --image"),
        (("--image", "a.png", "--against", "b.png", "--certifier", "proof"), "unknown certifier 'proof'"),
        (("--image", "a.png", "--against", "b.png", "--alpha", "1"), "alpha"),
        (("--pairs", "gone.csv"), "pairs: cannot read 'gone.csv'"),
        (("--pairs", "empty.csv"), "pairs: expected at least one"),
        (("--pairs", "short.csv"), "pairs, line 2: expected image,against"),
        (("--pairs", "far.csv"), "did you mean 8/255?"),
    ],
)
def test_bad_input_is_refused_in_a_line(capsys, pictures: Path, arguments: tuple[str, ...], words: str) -> None:
    (pictures / "text.png").write_text("no picture", encoding="utf-8")
    for name, text in {"empty": "image,against\n", "short": "a.png,b.png\na.png\n", "far": "a.png,b.png,8\n"}.items():
        (pictures / f"{name}.csv").write_text(text, encoding="utf-8")
    assert words in refused(capsys, *certify(*arguments))


def test_answers_of_something_else_are_left_alone(capsys, pictures: Path) -> None:
    (pictures / "pairs.csv").write_text("a.png,b.png\n", encoding="utf-8")
    (pictures / "answers.jsonl").write_text('{"a": 1}\n{"b": 2}\n', encoding="utf-8")
    asked = certify("--pairs", "pairs.csv", "--out", "answers.jsonl")
    assert "line 1: expected an answer of holdfast certify" in refused(capsys, *asked, status=ExitStatus.NOTHING)
    assert (pictures / "answers.jsonl").read_text(encoding="utf-8").startswith('{"a": 1}')


@pytest.mark.slow
def test_a_network_that_no_certifier_reads_is_attacked_and_smoothed_all_the_same(capsys, shared: Path) -> None:
    data = shared / "data"
    photos = sorted((data / "photos").glob("*.jpg"))[:2]
    _, stdout, _ = run(
        capsys, "certify", str(data / "real" / "imagenet_mobilenet_v1_025.onnx"), "--image", str(photos[0]),
        "--against", str(photos[1]), "--certifier", "crown", "--steps", "10", "--draws", "20", "--json", "--quiet",
    )  # fmt: skip
    one = json.loads(stdout)["against"][0]
    assert one["proofs"][0]["radius"] == 0
    assert "not certified" in one["proofs"][0]["refused"]
    assert 0 < one["attack"]["radius"] < 1
    assert one["smoothing"]["draws"] > 0
    assert np.isfinite(one["smoothing"]["radius"])
