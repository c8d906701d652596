"""Published classifiers as encoder and head: as right through Holdfast as through Pillow and onnxruntime alone."""

from pathlib import Path

import numpy as np
import PIL.Image
import pytest
import torch
from safetensors.numpy import load_file
from torch import Tensor

from holdfast.auditing.plan import Plan
from holdfast.parts.measures.classifiers.probe_accuracy import ProbeAccuracy
from holdfast.parts.probes.trained import Trained
from holdfast.runtime.torchvision_guard import guard_torchvision
from holdfast.sources.data import open_images
from holdfast.sources.encoders import open_encoder
from json_records import run_audit

WORDS = "resize=256&crop=224&interpolation=bilinear"


def listed(shared: Path, folder: Path) -> str:
    """Write a list of the photos with their classes, which are their names."""
    guard_torchvision()
    models = pytest.importorskip("torchvision.models")
    names = models.ResNet18_Weights.IMAGENET1K_V1.meta["categories"]
    numbers = {name.replace(" ", "_"): number for number, name in enumerate(names)}
    photos = sorted((shared / "data" / "photos").iterdir())
    (folder / "photos.txt").write_text("".join(f"{photo.name} {numbers[photo.stem]}\n" for photo in photos))
    return f"list:{folder}/photos.txt?root={shared}/data/photos"


def top_1(encoder: str, head: Path, data: str, count: int, folder: Path) -> float:
    """Return what an audit says of a given head, without training images."""
    plan = Plan((encoder,), data, (ProbeAccuracy(Trained(str(head))),), images=count, attacked=count)
    record = run_audit(plan, folder)
    assert record["failures"] == []
    return record["encoders"][0]["measures"]["probe_accuracy"]["scores"]["top-1"]["value"]


def pixels(photo: Path) -> np.ndarray:
    """The words, step by step in Pillow: [3, 224, 224] in [0, 1]."""
    picture = PIL.Image.open(photo).convert("RGB")
    short = min(picture.size)
    scaled = picture.resize([256 * side // short for side in picture.size], PIL.Image.Resampling.BILINEAR)
    left, top = (round((side - 224) / 2) for side in scaled.size)
    return np.asarray(scaled.crop((left, top, left + 224, top + 224)), np.float32).transpose(2, 0, 1) / 255


def alone(model: Path, x: np.ndarray, mean: list[float], std: list[float]) -> np.ndarray:
    """Representations by onnxruntime."""
    import onnxruntime

    session = onnxruntime.InferenceSession(model)
    normalised = (x - np.array(mean, np.float32)[:, None, None]) / np.array(std, np.float32)[:, None, None]
    return np.concatenate([np.asarray(session.run(None, {"image": part})[0]) for part in np.split(normalised, 10)])


@pytest.mark.slow
@pytest.mark.parametrize(("name", "share"), [("imagenet_mobilenet_v1_025", 0.53), ("imagenet_mobilenet_v2_100", 0.84)])
def test_photos(name: str, share: float, shared: Path, tmp_path: Path) -> None:
    """500 photos, one a class, of the shorter side 256 already; squashed, bicubic, 51.4 % and 80.6 % are right."""
    real, data = shared / "data" / "real", listed(shared, tmp_path)
    rows = [line.rpartition(" ") for line in (tmp_path / "photos.txt").read_text().splitlines()]
    x = np.stack([pixels(shared / "data" / "photos" / row[0]) for row in rows])
    reps = alone(real / f"{name}.onnx", x, [0.5], [0.5])
    head = load_file(real / f"{name}_head.safetensors")
    right = (reps @ head["weight"].T + head["bias"]).argmax(1) == np.array([int(row[2]) for row in rows])
    # the same photos, unshuffled, give the same representations
    encoder = open_encoder(f"onnx:{real}/{name}.onnx?{WORDS}")
    images = open_images(data, geometry=encoder.geometry)
    places = [images.ids.index(row[0]) for row in rows[:16]]
    torch.testing.assert_close(encoder(images.pick(places)), torch.tensor(reps[:16]), rtol=1e-4, atol=1e-4)
    # and the same accuracy
    ours = top_1(encoder.name, real / f"{name}_head.safetensors", data, 500, tmp_path / "run")
    print(f"{name}: {100 * ours:.1f} % through Holdfast, {100 * right.mean():.1f} % alone")
    assert abs(ours - right.mean()) <= 0.005
    assert share < ours < share + 0.03


@pytest.mark.sweep(2)
@pytest.mark.parametrize(("name", "share"), [("cifar10_resnet2b_adv", 0.75), ("cifar10_cnn_a_adv", 0.70)])
def test_cifar10(name: str, share: float, shared: Path, tmp_path: Path) -> None:
    real, data = shared / "data" / "real", shared / "data" / "cifar10_lossless300.npz"
    x = stored(data)
    encoder = open_encoder(f"onnx:{real}/{name}.onnx")
    theirs = alone(real / f"{name}.onnx", x.numpy(), encoder.mean, encoder.std)
    torch.testing.assert_close(encoder(x), torch.tensor(theirs), rtol=1e-4, atol=1e-4)
    ours = top_1(encoder.name, real / f"{name}_head.safetensors", str(data), 300, tmp_path)
    assert ours == pytest.approx(share, abs=0.002)


def stored(path: Path) -> Tensor:
    with np.load(path, allow_pickle=False) as file:
        return torch.tensor(file["images"]).permute(0, 3, 1, 2).float().div(255).contiguous()
