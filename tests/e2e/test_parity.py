"""Two builds of one network: every planted fault is found by its name, and an honest build is told to be the same."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import PIL.Image
import pytest
import torch
from test_command_line import run
from torch import Tensor, nn
from torch.nn import functional as F

import holdfast
from holdfast.api.compare_index import IndexRecord
from holdfast.core import Encoder
from holdfast.core.geometry import Geometry
from holdfast.workflows.compare_index.flaws import flaws
from loopback import Said, serve

SIDE = 24


class Network(nn.Module):
    """Filters that tell colours, orientation and sharpness apart, and where in the picture they answer."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(3)
        self.filters = nn.Parameter(0.4 * torch.randn(16, 3, 5, 5, generator=generator))
        self.shift = nn.Parameter(0.3 * torch.randn(16, generator=generator))

    def forward(self, x: Tensor) -> Tensor:
        answers = F.conv2d(x, self.filters, self.shift, stride=2).relu()
        return F.adaptive_avg_pool2d(answers, 3).flatten(1)


NETWORK = Network().eval()
MEAN, STD = (0.4, 0.5, 0.6), (0.25, 0.2, 0.3)


def normalise(x: Tensor, mean: object = MEAN, std: object = STD) -> Tensor:
    return (x - torch.tensor(mean).view(1, -1, 1, 1)) / torch.tensor(std).view(1, -1, 1, 1)


def build(fault: Callable[[Tensor], Tensor]) -> Callable[[np.ndarray], np.ndarray]:
    """A service, with a fault of its own, of pixels in [0, 1]."""

    def service(x: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return fault(torch.from_numpy(x)).numpy()

    return service


def net(x: Tensor) -> Tensor:
    return NETWORK(x)


def dead(x: Tensor) -> Tensor:
    vectors = net(normalise(x))
    vectors[:, 5] = 0.7
    return vectors


LUMA = torch.tensor((0.299, 0.587, 0.114)).view(1, 3, 1, 1)

IN_PICTURES = {
    "red and blue are swapped (BGR)": lambda x: net(normalise(x.flip(1))),
    "colours are turned into grey": lambda x: net(normalise((x * LUMA).sum(1, keepdim=True).expand_as(x))),
    "light and dark are swapped": lambda x: net(normalise(1 - x)),
    "pixels are not normalised, from 0 to 1": net,
    "pixels are not normalised, from 0 to 255": lambda x: net(255 * x),
    "pixels are brought to -1 to 1": lambda x: net(2 * x - 1),
    "pixels are normalised twice": lambda x: net(normalise(normalise(x))),
    "pixels are divided by 255 twice before they are normalised": lambda x: net(normalise(x / 255)),
    "pixels are normalised as ImageNet's networks want it": lambda x: net(
        normalise(x, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
    ),
    "pictures are mirrored": lambda x: net(normalise(x.flip(3))),
    "pictures are upside down": lambda x: net(normalise(x.flip(2))),
    "rows and columns are swapped": lambda x: net(normalise(x.transpose(2, 3))),
    "an array with channels last is read as one with channels first": lambda x: net(
        normalise(x.permute(0, 2, 3, 1).reshape(x.shape))
    ),
    "red and blue are swapped (BGR), and pixels are not normalised, from 0 to 1": lambda x: net(x.flip(1)),
}
"""What a service may do to pictures, by the name under which it is to be found."""

IN_VECTORS = {
    "come in another order: reversed within each": lambda x: net(normalise(x)).flip(0),
    "have 1 of 144 numbers that are the same for all images": dead,
    "are the first 64 of the other's 144 numbers": lambda x: net(normalise(x))[:, :64],
    "are codes, the signs of the other's": lambda x: torch.where(net(normalise(x)) > 0, 1.0, 0.0),
    "are the same for all images": lambda x: torch.ones(len(x), 144),
    "differ from the other's by one and the same vector": lambda x: net(normalise(x)) + 2 * torch.arange(144).sin(),
    "are rounded to": lambda x: (net(normalise(x)) / 0.02).round().clamp(-128, 127),
}
"""The same of vectors."""


@pytest.fixture(scope="module")
def images() -> Tensor:
    """Coloured blobs on ramps: no picture is its own mirror image, and none has as much blue as red."""
    generator = torch.Generator().manual_seed(0)
    coarse = torch.rand(60, 3, 4, 4, generator=generator)
    return F.interpolate(coarse, (SIDE, SIDE), mode="bicubic").clamp(0, 1)


def trained(**options: object) -> Encoder:
    return Encoder(Network(), mean=MEAN, std=STD, name="trained", **options)


def found(record: IndexRecord, kind: str) -> list[dict]:
    return [cause for cause in record["diagnosis"]["causes"] if cause["kind"] == kind]


def in_a_line(record: IndexRecord) -> str:
    return " ".join(str(record).split())


@pytest.mark.parametrize("name", IN_PICTURES)
def test_what_a_service_does_to_pictures_is_found_by_its_name(images: Tensor, name: str) -> None:
    record = holdfast.compare_index(trained(), build(IN_PICTURES[name]), images, same=True, quiet=True)
    (cause,) = found(record, "images")
    # Of two mistakes together the order in which they are found is not said
    assert set(cause["name"].split(", and ")) == set(name.split(", and "))
    assert cause["cosine"]["low"] > 0.999 > cause["before"]["high"]
    assert cause["cosine"]["n"] == 40  # none of those that served to find it
    assert cause["name"] in in_a_line(record)


@pytest.mark.parametrize("name", IN_VECTORS)
def test_what_is_wrong_with_vectors_is_found_by_its_name(images: Tensor, name: str) -> None:
    record = holdfast.compare_index(trained(), build(IN_VECTORS[name]), images, same=True, quiet=True)
    assert any(cause["name"].startswith(name) for cause in found(record, "vectors")), record["diagnosis"]
    assert not found(record, "images")


def test_an_honest_build_is_the_same_and_costs_no_further_pass(images: Tensor) -> None:
    record = holdfast.compare_index(
        trained(), build(lambda x: net(normalise(x))), images, same=True, require=["overlap@10 > 80 %"], quiet=True
    )
    assert record["diagnosis"]["causes"] == []
    assert record["diagnosis"]["passes"] == {"old": 0, "new": 0}
    assert record["diagnosis"]["why"] == "their vectors are the same but for rounding"
    assert record["passed"]
    disturbed = record["measures"]["cosine_disturbed"]["scores"]
    assert {"all", "JPEG 30", "noise of 8/255"} <= set(disturbed)
    assert disturbed["all"]["n"] == 40
    assert disturbed["all"]["low"] > 0.999


def test_an_identical_build_passes_with_as_many_images_as_the_requirement_says() -> None:
    def ask(images: int) -> IndexRecord:
        spec = "zoo:digits-simclr"
        return holdfast.compare_index(
            spec, spec, "digits", images=images, same=True, require=["overlap@10 > 97 %"], quiet=True
        )

    (few,) = ask(150)["findings"]
    assert not few["met"]
    enough = re.search(r"though the value is; about ([\d,]+) in place of 150 would show it", few["reason"])
    assert enough is not None
    images = int(enough[1].replace(",", ""))
    assert 150 < images < 600
    assert ask(images)["passed"]


def test_a_mistake_of_the_old_side_is_found_on_the_new_one(images: Tensor) -> None:
    """Grey cannot be undone, so only the other encoder can be made to see it."""
    grey = build(IN_PICTURES["colours are turned into grey"])
    record = holdfast.compare_index(grey, trained(), images, same=True, quiet=True)
    (cause,) = found(record, "images")
    assert (cause["side"], cause["name"]) == ("new", "colours are turned into grey")


def test_no_call_is_made_to_a_service_to_find_what_is_wrong(images: Tensor) -> None:
    """Which of the two is at fault cannot be told, so that mistakes on the other side alone find it."""
    mirrored = build(IN_PICTURES["pictures are mirrored"])
    with serve(lambda asked: Said({"vectors": mirrored(asked.images).tolist()})) as service:
        spec = f"http://{service.host}/embed"
        record = holdfast.compare_index(spec, trained(), images, same=True, quiet=True)
        assert service.sent == record["encoders"]["old"]["passes"]["made"]["forward"] == 60 + 9 * 40
    assert record["diagnosis"]["passes"]["old"] == 0
    assert [(cause["side"], cause["name"]) for cause in found(record, "images")] == [("new", "pictures are mirrored")]


def test_unlike_networks_have_nothing_named(images: Tensor) -> None:
    torch.manual_seed(5)
    other = nn.Sequential(nn.Conv2d(3, 16, 5, stride=2), nn.ReLU(), nn.AdaptiveAvgPool2d(3), nn.Flatten())
    record = holdfast.compare_index(trained(), Encoder(other, mean=0, std=1), images, same=True, quiet=True)
    assert found(record, "images") == []
    assert not any("order" in cause["name"] for cause in found(record, "vectors"))
    assert len(record["diagnosis"]["tried"]) > 10
    assert "found that explains the difference" in in_a_line(record)
    # Each disturbance has a number of its own
    disturbed = record["measures"]["cosine_disturbed"]["scores"]
    assert len({score["value"] for score in disturbed.values()}) == len(disturbed) == 10


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pictures of several shapes, with details that resizing must decide about."""
    home = tmp_path_factory.mktemp("pictures")
    numbers = np.random.default_rng(0)
    for number in range(50):
        high, wide = numbers.integers(60, 120, 2)
        coarse = PIL.Image.fromarray(numbers.integers(0, 256, (6, 6, 3), dtype=np.uint8)).resize((wide, high))
        fine = numbers.integers(0, 2, (high, wide, 1)) * 90
        values = np.clip(np.asarray(coarse, dtype=int) + fine - 45, 0, 255).astype(np.uint8)
        PIL.Image.fromarray(values).save(home / f"{number:02}.png")
    return home


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"interpolation": "nearest"}, "pictures are rendered as for the other encoder: squashed to 24 × 24 (nearest)"),
        ({"resampler": "opencv"}, "(bilinear without antialiasing)"),
        ({"resize": 27}, "the shorter side to 27 pixels (bilinear), then the central 24 × 24 is cropped"),
    ],
)
def test_another_rendering_is_found(folder: Path, change: dict, name: str) -> None:
    own = Geometry((SIDE, SIDE))
    other = Geometry(**{"size": (SIDE, SIDE), **change})
    record = holdfast.compare_index(trained(geometry=own), trained(geometry=other), folder, same=True, quiet=True)
    (cause,) = found(record, "images")
    assert name in cause["name"]
    assert cause["cosine"]["value"] > 0.99999


def test_what_both_sides_do_is_no_mistake(folder: Path) -> None:
    """They render alike, whoever says how, so nothing is tried that changes nothing."""
    first, second = (Geometry((SIDE, SIDE), source=source) for source in ("one", "another"))
    torch.manual_seed(5)
    other = nn.Sequential(nn.Conv2d(3, 16, 5, stride=2), nn.ReLU(), nn.AdaptiveAvgPool2d(3), nn.Flatten())
    unlike = Encoder(other, mean=MEAN, std=STD, geometry=second)
    record = holdfast.compare_index(trained(geometry=first), unlike, folder, same=True, quiet=True)
    assert not any("as for the other encoder" in name for name in record["diagnosis"]["tried"])
    assert any("cropped" in name for name in record["diagnosis"]["tried"])


def test_no_other_filter_is_tried_on_pictures_that_are_not_scaled(folder: Path, tmp_path: Path) -> None:
    own, spent = Geometry((SIDE, SIDE)), []
    for number in range(30):
        with PIL.Image.open(folder / f"{number:02}.png") as picture:
            picture.resize((SIDE, SIDE)).save(tmp_path / f"{number:02}.png")
    torch.manual_seed(5)
    other = nn.Sequential(nn.Conv2d(3, 16, 5, stride=2), nn.ReLU(), nn.AdaptiveAvgPool2d(3), nn.Flatten())
    unlike = Encoder(other, mean=MEAN, std=STD, geometry=own)
    for images in (folder, tmp_path):
        record = holdfast.compare_index(trained(geometry=own), unlike, images, same=True, quiet=True)
        tried, passes = record["diagnosis"]["tried"], record["diagnosis"]["passes"]
        assert any("another filter" in name for name in tried) == (images == folder)
        assert any("cropped to a square and nothing else" in name for name in tried) == (images == folder)
        spent.append(sum(passes.values()))
    # One encoder's filters alone are five and more, of eight images each
    assert spent[1] <= spent[0] - 5 * 8


def test_a_service_that_resizes_by_itself_is_found(folder: Path) -> None:
    """It takes larger pictures than the network, and shrinks them by the nearest pixel."""

    class Resizing(Network):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(F.interpolate(x, (SIDE, SIDE), mode="nearest"))

    service = Encoder(Resizing(), mean=MEAN, std=STD, geometry=Geometry((56, 56)), name="service")
    record = holdfast.compare_index(trained(geometry=Geometry((SIDE, SIDE))), service, folder, same=True, quiet=True)
    (cause,) = found(record, "images")
    assert cause["name"] == "pictures are rendered as for the other encoder and resized once more (nearest)"
    assert cause["cosine"]["value"] > 0.999


def test_vectors_that_are_shifted_or_shuffled() -> None:
    vectors = torch.randn(90, 20, generator=torch.Generator().manual_seed(0)).double()
    (shifted,) = flaws(vectors, vectors.roll(2, 0))
    assert shifted.name == "come in another order: each image has the vector of the one that is 2 places before it"
    (shuffled,) = flaws(vectors, vectors[torch.randperm(90, generator=torch.Generator().manual_seed(1))])
    assert shuffled.name == "come in another order: shuffled"
    assert flaws(vectors, vectors) == []
    # Unlike vectors whose nearest ones are near by chance are in no other order
    others = torch.randn(90, 20, generator=torch.Generator().manual_seed(2)).double() + 3
    assert flaws(vectors + 3, others) == []


def test_the_command_fails_on_a_faulty_build_and_says_why(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine_for_parity.py").write_text(
        "import numpy as np, torch\n"
        "from holdfast.sources.encoders import open_encoder\n"
        "encoder = open_encoder('zoo:digits-simclr')\n"
        "def honest(x):\n    return encoder(torch.from_numpy(x)).detach().numpy()\n"
        "def mirrored(x):\n    return honest(np.ascontiguousarray(x[:, :, :, ::-1]))\n"
    )
    monkeypatch.chdir(tmp_path)

    def parity(function: str, *words: str) -> tuple[int, str]:
        new = f"call:mine_for_parity:{function}?mean=0&std=1"
        asked = ("zoo:digits-simclr", new, "--data", "digits", "--images", "150", "--quiet")
        status, printed, complaint = run(capsys, "parity", *asked, "--out", function, *words)
        assert not complaint
        return status, printed

    status, printed = parity("mirrored", "--json")
    record = json.loads(printed)
    assert (status, record["status"]) == (1, 1)
    assert [cause["name"] for cause in record["diagnosis"]["causes"]] == ["pictures are mirrored"]
    assert [finding["requirement"] for finding in record["findings"]] == ["overlap@10 > 90 %"]
    assert "where pictures are mirrored" in (tmp_path / "mirrored" / "report.html").read_text()
    status, printed = parity("honest")
    assert status == 0
    assert "passed" in printed
