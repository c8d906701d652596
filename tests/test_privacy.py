"""What records say of the machine that they were made on."""

import os
from pathlib import Path
from random import Random
from typing import Any

import pytest

from holdfast.runtime.privacy import (
    KEEP,
    brief,
    distinct,
    places,
    public,
    public_command,
    redact_secrets,
    restore_paths,
)


@pytest.fixture(autouse=True)
def at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a folder of a home."""
    home = tmp_path / "alice smith"
    (home / "project").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PWD", str(home / "project"))
    monkeypatch.delenv(KEEP, raising=False)
    monkeypatch.chdir(home / "project")
    return home


@pytest.mark.parametrize(
    ("text", "becomes"),
    [
        ("/mnt/alice/photos", "…/photos"),
        ("/mnt/alice/my photos/", "…/my photos"),
        ("/photos", "…/photos"),
        ("file:/mnt/alice/w.safetensors?mean=0&std=1", "file:…/w.safetensors?mean=0&std=1"),
        ("py:models:make?weights=/mnt/alice/w.safetensors", "py:models:make?weights=…/w.safetensors"),
        ("zoo:x?weights=/mnt/al ice/w.onnx&mean=0", "zoo:x?weights=…/w.onnx&mean=0"),
        ("file:/mnt/al ice/w.onnx: not 4/255", "file:…/w.onnx: not 4/255"),
        ("x 'zoo:x?weights=/mnt/al ice/w.onnx' y", "x 'zoo:x?weights=…/w.onnx' y"),
        ("metadata of /mnt/alice/secret project/w.onnx", "metadata of …/w.onnx"),
        ("of /mnt/alice/a.png and 4/255", "of …/a.png and 4/255"),
        ("cannot read the shard '/mnt/al ice/a.tar' (no)", "cannot read the shard '…/a.tar' (no)"),
        ("holdfast audit x --data /mnt/a/b --out=/srv/c", "holdfast audit x --data …/b --out=…/c"),
        ("--address 10.1.2.3:6379 --eps .1", "--address *** --eps .1"),
        ('File "/usr/lib/alice/x.py", line 3', 'File "…/x.py", line 3'),
        ("file:///mnt/alice/run", "…/run"),
        (r"C:\Users\alice\photos\a.png is gone", "…/a.png is gone"),
        ("s3://key:secret@bucket/run", "s3://***@bucket/run"),
        ("https://x.org/a?X-Amz-Signature=abc123&b=1", "https://x.org/a?X-Amz-Signature=***&b=1"),
        ("https://x.org/a?access_token=abc", "https://x.org/a?access_token=***"),
        ("hf:org/name?label=x hf_abcdefghijklmnopqrst", "hf:org/name?label=x ***"),
        ("AKIAABCDEFGHIJKLMNOP", "***"),
    ],
)
def test_places_and_credentials_go(text: str, becomes: str) -> None:
    assert public(text) == becomes
    assert public(public(text)) == becomes


@pytest.mark.parametrize(
    "text",
    [
        "zoo:digits-simclr", "4/255", "hf:org/name?split=test", "timm:hf-hub:org/name", "s3://bucket/run/record.json",
        "pictures/a b.png", "../photos", "images.npz?key=images", "d(f(x), f(x')) / median d", "a measure / an encoder",
        "https://arxiv.org/abs/1706.06083", "and/or", "…/photos", "~/photos", "", "1 / 2", "tokens/s", "cls_token",
        "openclip:ViT-B-32/laion2b_s34b_b79k", "100 % of 3/4", "--address and --gpus",
        "-log( e^{s(x)/T} / Σ e^{s}/T )",
        "{000..010}.tar", "no space in '/'",
    ],
)  # fmt: skip
def test_everything_else_stays(text: str) -> None:
    assert public(text) == text


def test_a_command_keeps_its_options_behind_a_path() -> None:
    """A path ends where its word does, whatever the next one is."""
    words = [
        "holdfast",
        "certify",
        "onnx:/mnt/alice/net.onnx?label=a b",
        "--image",
        "/mnt/alice/my cat.jpg",
        "--eps",
        "1",
    ]
    said = "holdfast certify 'onnx:…/net.onnx?label=a b' --image '…/my cat.jpg' --eps 1"
    assert public_command(words) == said
    assert public(said) == said
    assert (
        public_command(["holdfast", "audit", "hf:x?token=abc", "--data", "/d"])
        == "holdfast audit 'hf:x?token=***' --data …/d"
    )


def test_places_are_told_apart() -> None:
    assert distinct(["/mnt/a/run", "/srv/b/run", "here", "/srv/c"]) == ["…/a/run", "…/b/run", "here", "…/c"]
    assert distinct(["/a/x/run", "/b/x/run"]) == ["…/a/x/run", "…/b/x/run"]
    assert distinct([]) == []


def test_what_is_public_stays(at_home: Path) -> None:
    """Whatever the text: records carry a seal, and are made public once more where they are written."""
    signs, draws = ["/", "a", " ", "'", ":", "?", "=", "&", ".", "~", "…", "//", "b.c", str(at_home), "x"], Random(0)
    for _ in range(3000):
        once = public("".join(draws.choices(signs, k=draws.randint(1, 9))))
        assert public(once) == once


def test_home_and_current_folder(at_home: Path) -> None:
    inside, above, beside = at_home / "project" / "a" / "b.npz", at_home / "photos", f"{at_home}2/photos"
    assert public(str(inside)) == "a/b.npz"
    assert public(f"arrays:{inside}") == "arrays:a/b.npz"
    assert public(str(above)) == "~/photos"
    assert public(f"in {at_home}: no") == "in ~: no"
    assert public(str(at_home / "project")) == "."
    assert "alice" not in public(beside)
    assert brief(f"see {inside} and /mnt/x/y") == "see a/b.npz and /mnt/x/y"


def test_what_was_shortened_is_found_again(at_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data: dict[str, Any] = {
        "encoders": ["file:/mnt/x/w.onnx", "zoo:a"],
        "data": str(at_home / "p"),
        "n": 3,
        "s": [{"t": "/a/b", "/k/l": "/m/n"}],
    }
    shown = public(data)
    assert "mnt" not in repr(shown)
    assert restore_paths(shown, places(data)) == data
    assert places({"data": "s3://k:s@b/c"}) == {"s3://***@b/c": "s3://***@b/c"}
    monkeypatch.setenv(KEEP, "1")
    assert public(data) == data
    assert public("s3://k:s@b/c") == redact_secrets("s3://k:s@b/c") == "s3://***@b/c"
    assert os.environ[KEEP]
