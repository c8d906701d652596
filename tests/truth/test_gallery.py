"""Pictures of what an attack moved farthest: the same images, whatever shards they were attacked in."""

from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest
import torch
from torch import Tensor, nn

from holdfast.core import Album, Encoder, Rng, Shard
from holdfast.parts.attacks.pgd import Pgd
from holdfast.parts.objectives.untargeted import Untargeted
from holdfast.parts.observations.attacked import Attacked
from holdfast.parts.observations.shared.gallery import WORST
from holdfast.parts.threats.linf import Linf
from holdfast.storage.run_folder import Store

N, EPS, STEPS = 30, 0.1, 5
IMAGES = torch.rand(N, 1, 6, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def encoder() -> Encoder:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(36, 24), nn.Tanh(), nn.Linear(24, 8)).double().eval()
    return Encoder(net, mean=0, std=1)


def attacked(divergence: str, *shards: slice) -> dict[str, Tensor]:
    """What an attack leaves of all images, attacked shard by shard."""
    parts, net = [], encoder()
    with torch.no_grad():
        clean = net(IMAGES)
    for rows in shards:
        positions = torch.arange(N)[rows]
        rng = Rng(0, ids=tuple(str(int(p)) for p in positions))
        shard = Shard(net, IMAGES[rows], positions, rng, clean, others=lambda at: IMAGES[at])
        parts.append(Attacked(Pgd(STEPS), Linf(EPS), Untargeted(divergence)).run(shard))
    return {key: torch.cat([part[key] for part in parts]) for key in parts[0]}


def shown(results: dict[str, Tensor], folder: Path) -> list[dict[str, Any]]:
    with torch.no_grad():
        clean = encoder()(IMAGES).float()
    ids = [f"image {position}" for position in range(N)]
    album = Album(Store(folder), "e", 0, (), 0, ids, None, clean, N, lambda position: IMAGES[position].float())
    return Attacked(Pgd(STEPS), Linf(EPS)).pictures(results, album)


@pytest.mark.parametrize("divergence", ["l2", "cosine"])
def test_the_farthest_are_shown_however_images_were_cut_into_shards(tmp_path: Path, divergence: str) -> None:
    whole = attacked(divergence, slice(None))
    threes = attacked(divergence, *(slice(start, start + 3) for start in reversed(range(0, N, 3))))
    order = threes["reps@5"].view(-1, 3, 8).flip(0).flatten(0, 1)  # a run joins shards in the order of the images
    torch.testing.assert_close(order, whole["reps@5"])
    first, second = shown(whole, tmp_path / "a"), shown(threes | {"reps@5": order}, tmp_path / "b")
    with torch.no_grad():
        drift = (whole["reps@5"].double() - encoder()(IMAGES)).norm(dim=1)
    farthest = drift.sort(descending=True).indices[:WORST].tolist()
    for entries in (first, second):
        assert [entry["id"] for entry in entries] == [f"image {position}" for position in farthest]


def test_pictures_are_of_the_image_that_the_attack_ended_at(tmp_path: Path) -> None:
    results = attacked("l2", slice(None))
    for entry in shown(results, tmp_path):
        position = int(entry["id"].removeprefix("image "))
        x = torch.from_numpy(np.array(PIL.Image.open(tmp_path / entry["attacked"]), copy=True)) / 255
        moved = x.view(1, 1, 6, 6).double()
        assert (moved - IMAGES[position]).abs().max() <= EPS + 1 / 255
        with torch.no_grad():
            reps = encoder()(moved)[0]
        torch.testing.assert_close(reps, results["reps@5"][position].double(), rtol=0, atol=0.05)
        drift = (results["reps@5"][position].double() - encoder()(IMAGES)[position].detach()).norm()
        assert entry["drift"] == pytest.approx(float(drift), rel=1e-5)
