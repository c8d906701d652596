"""Words on pictures: pixel by pixel beside Pillow, wrong names by the class, and words that do not fit."""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image, ImageDraw, ImageFont
from safetensors.torch import save_file
from torch import Tensor

import holdfast
from holdfast.core import Rng, Shard
from holdfast.parts.observations.represented import Represented
from holdfast.parts.threats.typographic import Typographic
from holdfast.runtime.errors import BadData, BadValue, Mismatch, Missing, Unsupported
from holdfast.sources.encoders import open_encoder

NAMES = ["cat", "dog", "owl"]
IDS = tuple(f"image {i}" for i in range(60))


@pytest.fixture
def names(tmp_path: Path) -> str:
    path = tmp_path / "names.safetensors"
    save_file({"embeddings": torch.eye(3)}, path, {"names": json.dumps(NAMES)})
    return str(path)


def written(threat: Typographic, x: Tensor, ids: tuple[str, ...] = ("a",), seed: int = 0) -> Tensor:
    return threat.sample(x, Rng(seed, ids=ids))


def test_letters_are_pillows() -> None:
    """On a white plate in the middle of a grey image; Pillow draws the same word once, at its own size."""
    x = torch.full((1, 1, 200, 200), 0.5)
    image = written(Typographic(("Hello",)), x)[0, 0]
    rows, columns = ((image != 0.5).any(dim).nonzero().flatten() for dim in (1, 0))
    assert int(rows[0]) + int(rows[-1]) == pytest.approx(199, abs=1)
    assert int(columns[0]) + int(columns[-1]) == pytest.approx(199, abs=1)
    plate = image[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    canvas = Image.new("L", plate.shape[::-1], 255)
    font = ImageFont.load_default(size=40)
    ImageDraw.Draw(canvas).text((canvas.width / 2, canvas.height / 2), "Hello", 0, font, "mm")
    theirs = torch.from_numpy(np.array(canvas)) / 255
    assert float((1 - plate).sum()) == pytest.approx(float((1 - theirs).sum()), rel=0.05)
    assert float(np.corrcoef(plate.flatten(), theirs.flatten())[0, 1]) > 0.85  # Pillow hints, at its own size
    assert plate.shape[0] == pytest.approx(40 * 1.2 + 8, abs=3)


def test_opacity_mixes_plate_letters_and_picture() -> None:
    x = torch.rand(1, 3, 60, 90, generator=torch.Generator().manual_seed(0))
    whole, half = (written(Typographic(("Il",), colour="#ff8000", opacity=o), x) for o in (1.0, 0.25))
    torch.testing.assert_close(half, 0.75 * x + 0.25 * whole)
    changed = (whole != x).any(1)[0]
    assert 0 < changed.double().mean() < 0.2
    bare = written(Typographic(("Il",), background="", colour="blue"), x)  # strokes of about a pixel
    inked = (bare != x).any(1)[0]
    assert 0 < inked.sum() < changed.sum() / 2
    assert (changed | ~inked).all()  # letters stand where the plate was
    strokes = bare[0][:, inked]
    bluest = strokes[:, (strokes[2] - strokes[0] - strokes[1]).argmax()]
    assert bluest.tolist() == pytest.approx([0, 0, 1], abs=0.25)


def test_grey_images_have_the_luma_of_a_colour() -> None:
    x = torch.zeros(1, 1, 40, 40)
    plate = written(Typographic(("i",), background="#0080ff"), x).max().item()
    assert plate == pytest.approx((0.587 * 128 + 0.114 * 255) / 255, abs=1e-5)


@pytest.mark.parametrize(("place", "middle"), [("top", 5.5), ("bottom", 33.5), ("centre", 19.5)])
def test_words_stand_where_they_should(place: str, middle: float) -> None:
    changed = (written(Typographic(("A",), place=place), torch.full((1, 1, 40, 60), 0.5)) != 0.5)[0, 0].any(1).nonzero()
    assert float(changed.min() + changed.max()) / 2 == pytest.approx(middle, abs=0.5)


def test_words_and_places_are_drawn_by_the_id() -> None:
    x = torch.full((len(IDS), 1, 40, 60), 0.5)
    several = written(Typographic(("cat", "dog", "owl")), x, IDS)
    alone = {word: written(Typographic((word,)), x[:1])[0] for word in NAMES}
    chosen = Counter(next(w for w, image in alone.items() if torch.equal(image, own)) for own in several)
    assert set(chosen) == set(NAMES)
    assert min(chosen.values()) > 8
    anywhere = written(Typographic(place="anywhere"), x, IDS)
    assert len({tuple((image != 0.5)[0].nonzero()[0].tolist()) for image in anywhere}) > 40
    assert all((image != 0.5).any() for image in anywhere)


def test_class_names_are_never_an_images_own(names: str) -> None:
    x, labels = torch.full((len(IDS), 1, 40, 60), 0.5), torch.arange(len(IDS)) % 3
    threat = Typographic(path=names).knowing(dict(zip(IDS, labels.tolist(), strict=True)))
    alone = {word: written(Typographic((word,)), x[:1])[0] for word in NAMES}
    pairs = Counter()
    for own, label in zip(written(threat, x, IDS), labels.tolist(), strict=True):
        pairs[label, next(number for number, word in enumerate(NAMES) if torch.equal(alone[word], own))] += 1
    assert set(pairs) == {(a, b) for a in range(3) for b in range(3) if a != b}
    assert threat == Typographic(path=names)  # what it knows is no parameter


def test_an_observation_tells_it_the_classes(names: str) -> None:
    encoder = open_encoder("zoo:digits-simclr")
    x, labels = torch.rand(4, 1, 8, 8), torch.tensor([0, 1, 2, 0])
    rng = Rng(0, ids=IDS[:4])
    observed = Represented(threat=Typographic(path=names, size=0.3))
    assert observed.needs_labels
    assert not Represented(threat=Typographic()).needs_labels
    shard = Shard(encoder, x[2:], torch.tensor([2, 3]), rng.at(IDS[2:4]), None, labels=labels)
    told = observed.threat.knowing({IDS[2]: 2, IDS[3]: 0})
    with torch.no_grad():
        ours = encoder(told.sample(x[2:], rng.at(IDS[2:4]).child("represented")))
    torch.testing.assert_close(observed.run(shard)["reps"], ours)
    with pytest.raises(Missing, match="typographic"):
        observed.run(Shard(encoder, x, torch.arange(4), rng, None))
    with pytest.raises(Missing, match="edited_retrieval"):
        holdfast.audit(
            "zoo:digits-simclr",
            torch.rand(20, 1, 8, 8),
            measures=[f"edited_retrieval[threats=[typographic[path={names}]]]"],
            quiet=True,
        )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"size": 0.0}, "size"),
        ({"size": 1.5}, "size"),
        ({"opacity": 0.0}, "opacity"),
        ({"colour": "bleu"}, "bleu"),
        ({"background": "bleu"}, "background"),
        ({"words": ()}, "words"),
        ({"words": ("a", "a")}, "words"),
        ({"words": (" ",)}, "letters"),
        ({"words": ("Füße",)}, "Füße"),
        ({"place": "left"}, "place"),
    ],
)
def test_what_cannot_be_written_is_refused(given: dict, message: str) -> None:
    with pytest.raises(BadValue, match=message):
        Typographic(**given)


def test_what_does_not_fit_is_refused(names: str, tmp_path: Path) -> None:
    x = torch.rand(1, 3, 40, 60)
    with pytest.raises(Mismatch, match="hippopotamus"):
        written(Typographic(("hippopotamus",), size=0.5), x)
    with pytest.raises(Mismatch, match=r"0\.\d") as error:
        written(Typographic(("hippopotamus",), size=0.5), x)
    advised = float(str(error.value).split("about ")[1].split(",")[0])
    assert written(Typographic(("hippopotamus",), size=advised), x).shape == x.shape
    with pytest.raises(Unsupported, match="2 channels"):
        written(Typographic(), x[:, :2])
    with pytest.raises(Mismatch, match="class 3"):
        written(Typographic(path=names).knowing({"a": 3}), x)
    save_file({"weight": torch.eye(2)}, tmp_path / "other.safetensors", {"names": "cat"})
    with pytest.raises(BadData):
        written(Typographic(path=str(tmp_path / "other.safetensors")), x)
