"""Corruptions at the images' own size, against images that are corrupted and resized by hand."""

from pathlib import Path

import numpy as np
import PIL.Image
import pytest
import torch
from torch import Tensor, nn

from holdfast.auditing.session import Session
from holdfast.core import Corruption, Encoder, Geometry, Observation, Rng
from holdfast.core.threat import Threat
from holdfast.parts.observations.clean import Clean
from holdfast.parts.observations.fine_tuned import FineTuned
from holdfast.parts.observations.represented import Represented
from holdfast.parts.observations.training import Training
from holdfast.parts.observations.tuned import Tuned
from holdfast.parts.threats.gamma import Gamma
from holdfast.parts.threats.gaussian import Gaussian
from holdfast.parts.threats.global_shuffle import GlobalShuffle
from holdfast.parts.threats.imagenet_c import ImagenetC
from holdfast.parts.threats.local_shuffle import LocalShuffle
from holdfast.runtime.errors import Mismatch
from holdfast.sources.data import ImageSet, open_images
from holdfast.storage.run_folder import Store
from holdfast.training.images import TrainingImages

SIDE, LARGE = 8, 24


def smooth(count: int, height: int, width: int, seed: int = 0) -> np.ndarray:
    """Return 8-bit colour images that change slowly, [N, H, W, 3]."""
    random = np.random.default_rng(seed)
    rows, columns = np.mgrid[:height, :width] / max(height, width)
    waves = random.uniform(-2, 2, (count, 3, 3))
    phase = waves[..., 0, None, None] * rows + waves[..., 1, None, None] * columns + waves[..., 2, None, None]
    return np.round(127.5 * (1 + np.sin(2 * phase))).transpose(0, 2, 3, 1).astype(np.uint8)


def shuffled(image: np.ndarray, corruption: GlobalShuffle | LocalShuffle) -> np.ndarray:
    """Shuffle an image [H, W, C] cell by cell; cells that do not fill it lie in the middle."""
    out, tile = image.copy(), corruption.cell or corruption.grid
    high, wide = (side // tile * tile for side in image.shape[:2])
    top, left = (image.shape[0] - high) // 2, (image.shape[1] - wide) // 2
    rows, columns = (high // tile, wide // tile) if corruption.cell else (tile, tile)
    h, w, order = high // rows, wide // columns, corruption.order(high, wide).tolist()
    for cell in range(rows * columns):
        for pixel in range(h * w):
            shown, at = (order[cell], pixel) if isinstance(corruption, GlobalShuffle) else (cell, order[pixel])
            into = top + cell // columns * h + pixel // w, left + cell % columns * w + pixel % w
            out[into] = image[top + shown // columns * h + at // w, left + shown % columns * w + at % w]
    return out


def triangles(have: int, want: int) -> np.ndarray:
    """Return the matrix of antialiased linear interpolation, [want, have]."""
    scale = have / want
    reach = max(scale, 1.0)
    centres = (np.arange(want)[:, None] + 0.5) * scale
    weights = np.clip(1 - np.abs(np.arange(have) + 0.5 - centres) / reach, 0, None)
    return weights / weights.sum(1, keepdims=True)


def resized(image: np.ndarray, height: int, width: int) -> np.ndarray:
    """Resize an image [H, W, C] in float64, clamped to [0, 1]."""
    rows, columns = triangles(image.shape[0], height), triangles(image.shape[1], width)
    return np.einsum("ab,bcd,ec->aed", rows, image / 255.0, columns)


def expected(images: np.ndarray, change) -> Tensor:
    return torch.tensor(np.stack([resized(change(x), LARGE, LARGE) for x in images])).permute(0, 3, 1, 2).float()


def drawn(images: ImageSet, threat: Threat, seed: int = 0) -> Tensor:
    rng = Rng(seed, ids=tuple(images.ids))
    return images.disturb(images.batch(0, len(images)), range(len(images)), threat, rng)


SHUFFLES = [GlobalShuffle(4), GlobalShuffle(cell=4), LocalShuffle(4), LocalShuffle(cell=4), LocalShuffle(2)]


@pytest.mark.parametrize("part", SHUFFLES, ids=lambda part: part.title)
def test_arrays_are_shuffled_at_their_own_size_and_then_resized(part, tmp_path: Path) -> None:
    pixels = smooth(5, SIDE, SIDE)
    np.savez(tmp_path / "small.npz", images=pixels)
    images = open_images(f"{tmp_path}/small.npz?size={LARGE}")
    own = pixels[[int(name) for name in images.ids]]
    torch.testing.assert_close(images.batch(0, 5), expected(own, lambda x: x), rtol=0, atol=1e-6)
    torch.testing.assert_close(drawn(images, part), expected(own, lambda x: shuffled(x, part)), rtol=0, atol=1e-6)


@pytest.mark.parametrize("part", SHUFFLES, ids=lambda part: part.title)
def test_pictures_of_mixed_sizes_are_shuffled_each_at_its_own(part, tmp_path: Path) -> None:
    sizes = [(8, 8), (8, 12), (11, 9), (30, 26), (8, 8)]
    pictures = [smooth(1, *size, seed=number)[0] for number, size in enumerate(sizes)]
    for number, picture in enumerate(pictures):
        PIL.Image.fromarray(picture).save(tmp_path / f"{number}.png")
    geometry = Geometry((LARGE, LARGE), 3, None, "bilinear", "test")
    images = open_images(str(tmp_path), geometry=geometry)
    own = [pictures[int(name[0])] for name in images.ids]
    by_hand = np.stack([resized(shuffled(x, part), LARGE, LARGE) for x in own])
    there = drawn(images, part).permute(0, 2, 3, 1).numpy()
    assert np.abs(there - by_hand).max() < 1.1 / 255  # a picture is 8 bits before, between and after both sides
    clean = images.batch(0, 5).permute(0, 2, 3, 1).numpy()
    assert np.abs(clean - by_hand).max() > 0.1


def test_at_the_encoders_resolution_images_are_resized_first(tmp_path: Path) -> None:
    np.savez(tmp_path / "small.npz", images=smooth(5, SIDE, SIDE))
    images = open_images(f"{tmp_path}/small.npz?size={LARGE}")
    part, x, rng = LocalShuffle(4, resolution="encoder"), images.batch(0, 5), Rng(0, ids=tuple(images.ids))
    assert torch.equal(drawn(images, part), part.sample(x, rng))
    assert not torch.allclose(drawn(images, part), drawn(images, LocalShuffle(4)), atol=0.05)
    assert (LocalShuffle(4).title, part.title) == ("L4x4", "L4x4, resized first")
    noise = Gaussian(0.1)  # which is a threat of the encoder's input
    assert torch.equal(drawn(images, noise), noise.sample(x, rng))


def test_a_local_shuffle_of_small_images_is_smooth_between_their_pixels(tmp_path: Path) -> None:
    np.savez(tmp_path / "small.npz", images=smooth(20, 32, 32))
    images = open_images(f"{tmp_path}/small.npz?size=224")

    def roughness(x: Tensor) -> float:
        return float(x.diff(dim=3).abs().mean())

    rough = roughness(drawn(images, LocalShuffle(4, resolution="encoder")))
    assert roughness(drawn(images, LocalShuffle(4))) < rough / 4


@pytest.mark.parametrize("part", [Gamma(0.2), LocalShuffle(2), ImagenetC("gaussian_noise", 3)], ids=str)
def test_images_that_have_the_encoders_size_are_what_they_were(part: Corruption, tmp_path: Path) -> None:
    np.savez(tmp_path / "small.npz", images=smooth(5, SIDE, SIDE))
    images = open_images(f"{tmp_path}/small.npz", geometry=Geometry((SIDE, SIDE), 3, None, "bilinear", "test"))
    x, rng = images.batch(0, 5), Rng(0, ids=tuple(images.ids))
    assert torch.equal(drawn(images, part), part.sample(x, rng))


def test_noise_is_drawn_for_the_images_own_pixels_by_their_ids(tmp_path: Path, monkeypatch) -> None:
    pixels, part = smooth(5, SIDE, SIDE), ImagenetC("gaussian_noise", 5)
    np.savez(tmp_path / "small.npz", images=pixels)
    images = open_images(f"{tmp_path}/small.npz?size={LARGE}")
    own = open_images(f"{tmp_path}/small.npz")
    noisy = part.sample(own.batch(0, 5), Rng(0, ids=tuple(own.ids))).permute(0, 2, 3, 1).numpy() * 255
    by_hand = expected(noisy, lambda x: x)
    torch.testing.assert_close(drawn(images, part), by_hand, rtol=0, atol=1e-6)
    monkeypatch.setattr("holdfast.sources.data.shared.own_size.TOGETHER", 400)  # two images at a time
    torch.testing.assert_close(drawn(images, part), by_hand, rtol=0, atol=1e-6)
    places = [3, 3, 1]
    some = images.disturb(images.pick(places), places, part, Rng(0, ids=tuple(images.ids[i] for i in places)))
    torch.testing.assert_close(some, by_hand[places], rtol=0, atol=1e-6)


def test_noise_of_pictures_of_mixed_sizes_is_drawn_by_their_ids(tmp_path: Path) -> None:
    for number, size in enumerate([(8, 8), (8, 12), (8, 8), (8, 12)]):
        PIL.Image.fromarray(smooth(1, *size, seed=number)[0]).save(tmp_path / f"{number}.png")
    images = open_images(str(tmp_path), geometry=Geometry((LARGE, LARGE), 3, None, "bilinear", "test"))
    part, together = ImagenetC("gaussian_noise", 5), drawn(images, ImagenetC("gaussian_noise", 5))
    for place, name in enumerate(images.ids):
        alone = images.disturb(images.pick([place]), [place], part, Rng(0, ids=(name,)))
        assert torch.equal(alone[0], together[place])


def test_cells_must_fill_images_that_are_not_resized(tmp_path: Path) -> None:
    np.savez(tmp_path / "small.npz", images=smooth(5, SIDE, SIDE))
    images = open_images(f"{tmp_path}/small.npz")
    with pytest.raises(Mismatch, match="got 3"):
        drawn(images, GlobalShuffle(3))
    with pytest.raises(Mismatch, match="got 16"):
        drawn(open_images(f"{tmp_path}/small.npz?size=32"), GlobalShuffle(16))


def session(tmp_path: Path, *, count: int = 6) -> tuple[Session, np.ndarray]:
    """Return a session whose representations are the pixels of the encoder's input, and the images of both halves."""
    pixels = smooth(2 * count, SIDE, SIDE)
    np.savez(tmp_path / "tested.npz", images=pixels[:count], labels=np.arange(count) % 2)
    np.savez(tmp_path / "train.npz", images=pixels[count:], labels=np.arange(count) % 2)
    encoder = Encoder(nn.Sequential(nn.Flatten()), mean=0, std=1)
    tested, train = (open_images(f"{tmp_path}/{name}.npz?size={LARGE}") for name in ("tested", "train"))
    opened = Session(
        encoder, tested, attacked=count, seed=0, batch_size=4, device="cpu", store=Store(tmp_path), train=train
    )
    return opened, pixels


@pytest.mark.parametrize("make", [lambda threat: Represented(threat=threat), Training], ids=["tested", "training"])
def test_an_audit_observes_images_that_were_corrupted_at_their_own_size(make, tmp_path: Path) -> None:
    opened, pixels = session(tmp_path)
    part = GlobalShuffle(4)
    for observation in (Clean(), Training(), make(part), make(GlobalShuffle(4, resolution="encoder"))):
        opened.observe(observation)

    def reps(observation: Observation) -> Tensor:
        files = [opened._store.read_tensors(shard.file) for shard in opened.shard_files(observation)]
        return torch.cat([stored[0]["reps"] for stored in files if stored is not None])

    images, half = (opened.train, pixels[6:]) if make is Training else (opened.images, pixels[:6])
    assert images is not None
    own = half[[int(name) for name in images.ids]]
    by_hand = expected(own, lambda x: shuffled(x, part)).flatten(1)
    torch.testing.assert_close(reps(make(part)), by_hand, rtol=0, atol=1e-6)
    files = [opened.shard_files(make(GlobalShuffle(4, resolution=where)))[0].file for where in ("image", "encoder")]
    assert files[0] != files[1]


def test_fine_tuning_learns_from_and_is_tested_on_own_size(tmp_path: Path, monkeypatch) -> None:
    opened, pixels = session(tmp_path)
    part, read = LocalShuffle(4), []
    fine_tuned = FineTuned(threat=part, epochs=1, batch_size=6)
    monkeypatch.setattr(nn.Flatten, "forward", lambda self, x: (read.append(x.detach().clone()), x.flatten(1))[1])
    for observation in (Clean(), fine_tuned, Tuned(fine_tuned, part)):
        read.clear()
        opened.observe(observation)
        if isinstance(observation, Clean):
            continue
        half = pixels[6:] if observation is fine_tuned else pixels[:6]
        by_hand = expected(half, lambda x: shuffled(x, part))
        for x in torch.cat(read):
            assert min(float((x - y).abs().max()) for y in by_hand) < 1e-5


def test_training_images_are_corrupted_at_their_own_size(tmp_path: Path) -> None:
    pixels, part = smooth(5, SIDE, SIDE), LocalShuffle(4)
    np.savez(tmp_path / "small.npz", images=pixels)
    images = TrainingImages(f"{tmp_path}/small.npz?size={LARGE}", geometry=None, corruption=part)
    own = pixels[[int(name) for name in images.ids]]
    by_hand = expected(own, lambda x: shuffled(x, part))
    torch.testing.assert_close(images.batch(torch.arange(5)), by_hand, rtol=0, atol=1e-6)


def test_maps_of_what_the_encoder_sees_move_with_the_cells_of_the_image(tmp_path: Path) -> None:
    np.savez(tmp_path / "small.npz", images=smooth(4, 8, 8))
    for name in range(2):
        PIL.Image.fromarray(smooth(1, 8, 12)[0]).save(tmp_path / f"{name}.png")
    images = open_images(f"{tmp_path}/small.npz?size={LARGE}")
    part, rng = GlobalShuffle(cell=4), Rng(0, ids=tuple(images.ids))
    cells = torch.zeros(4, 1, LARGE, LARGE)
    cells[:, :, :12, :12] = 1  # the first of four cells
    there = images.disturb(cells, range(4), part, rng, as_maps=True)
    into = part.order(8, 8).tolist().index(0)
    middle = there.unflatten(3, (2, 12)).unflatten(2, (2, 12))[0, 0, :, 5:7, :, 5:7].mean((1, 3)).flatten()
    assert middle.tolist() == pytest.approx([float(cell == into) for cell in range(4)], abs=1e-6)
    cropped = open_images(str(tmp_path), geometry=Geometry((LARGE, LARGE), 3, LARGE, "bilinear", "test"))
    assert cropped.disturb(cells[:2], range(2), part, Rng(0, ids=tuple(cropped.ids)), as_maps=True).isnan().all()
