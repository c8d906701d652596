"""Pictures of the smallest changes: which are shown, what they show, and what images are taken for."""

from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest
import torch
from torch import Tensor, nn

from holdfast.core import Album, Encoder, Failure, Rng, Shard
from holdfast.parts.failures.confused import Confused
from holdfast.parts.failures.nearest import Nearest
from holdfast.parts.observations.breaking_radii import BreakingRadii
from holdfast.parts.observations.shared.smallest_changes import KEPT, SHOWN, pack_first_changes
from holdfast.parts.threats.l2 import L2
from holdfast.parts.threats.linf import Linf
from holdfast.storage.run_folder import Store

N = 30
IMAGES = torch.rand(N, 1, 6, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def shard(rows: slice = slice(None)) -> Shard:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(36, 24), nn.ReLU(), nn.Linear(24, 8)).double().eval()
    encoder = Encoder(net, mean=0, std=1)
    positions = torch.arange(N)[rows]
    with torch.no_grad():
        clean = encoder(IMAGES)
    rng = Rng(0, ids=tuple(str(int(p)) for p in positions))
    return Shard(encoder, IMAGES[rows], positions, rng, clean, others=lambda at: IMAGES[at])


def shown(results: dict[str, Tensor], folder: Path) -> list[dict[str, Any]]:
    ids = [f"image {position}" for position in range(N)]
    clean = torch.zeros(N, 8)
    album = Album(Store(folder), "e", 0, (), 0, ids, None, clean, N, lambda position: IMAGES[position].float())
    return BreakingRadii(Linf()).pictures(results, album)


def test_what_is_shown_depends_on_images_and_radii_and_not_on_shards(tmp_path: Path) -> None:
    whole = BreakingRadii(Linf(), steps=20).run(shard())
    halves = [BreakingRadii(Linf(), steps=20).run(shard(rows)) for rows in (slice(0, 11), slice(11, N))]
    joined = {key: torch.cat([half[key] for half in halves]) for key in whole}
    torch.testing.assert_close(joined["radius"], whole["radius"], rtol=1e-9, atol=0)
    assert torch.equal(joined["rival"], whole["rival"])
    first, second = shown(whole, tmp_path / "a"), shown(joined, tmp_path / "b")
    assert [entry["id"] for entry in first] == [entry["id"] for entry in second]
    # from the smallest to the largest, the median among them
    radii = [entry["radius"] for entry in first]
    ordered = whole["radius"].sort().values
    assert len(radii) == SHOWN
    assert radii == sorted(radii)
    assert (radii[0], radii[-1]) == (float(ordered[0]), float(ordered[-1]))
    assert float(ordered[N // 2 - 3]) <= radii[SHOWN // 2] <= float(ordered[N // 2 + 3])


def test_pictures_are_of_the_change_that_was_found(tmp_path: Path) -> None:
    seen = shard()
    results = BreakingRadii(Linf(), steps=20).run(seen)
    change = results["gallery.change"].double() * results["gallery.largest"].double().view(-1, 1, 1, 1) / 127
    torch.testing.assert_close(L2().size(change) * 0 + change.flatten(1).abs().amax(1), results["radius"])
    # the stored change breaks nearly all images once it is a little larger than its rounding
    with torch.no_grad():
        reps = seen.encoder(IMAGES + 1.02 * change)
    assert seen.clean is not None
    nearest = torch.cdist(reps, seen.clean).argmin(1)
    assert float((nearest == results["rival"]).double().mean()) > 0.9
    assert (results["rival"] != torch.arange(N)).all()
    # and so do the pictures say
    entry = shown(results, tmp_path)[3]
    position = int(entry["id"].removeprefix("image "))
    clean, attacked, difference = (
        np.asarray(PIL.Image.open(tmp_path / entry[kind])).astype(float) / 255
        for kind in ("clean", "attacked", "difference")
    )
    assert np.abs(attacked - clean - change[position, 0].numpy()).max() <= 1 / 255 + 1e-6
    assert (
        np.abs((difference - 0.5) / entry["amplified"] - change[position, 0].numpy()).max()
        <= 1 / entry["amplified"] / 250
    )
    assert entry["rival"]["id"] == f"image {int(results['rival'][position])}"
    assert entry["levels"] == pytest.approx(255 * entry["radius"])
    assert (tmp_path / entry["rival"]["picture"]).exists()


def test_the_changes_of_the_first_images_are_kept_in_a_byte_each() -> None:
    positions = torch.arange(KEPT - 2, KEPT + 3)
    stored = pack_first_changes(torch.rand(5, 3, 4, 4), positions)
    assert stored["gallery.position"].tolist() == [KEPT - 2, KEPT - 1]
    assert stored["gallery.change"].dtype == torch.int8
    assert len(stored["gallery.largest"]) == 2
    assert pack_first_changes(torch.zeros(1, 3, 4, 4), torch.tensor([0]))["gallery.change"].abs().sum() == 0


def test_what_is_not_broken_is_not_shown(tmp_path: Path) -> None:
    results = BreakingRadii(Linf(), steps=20).run(shard())
    results["radius"][3:] = torch.inf
    results["radius"][0] = results["gallery.largest"][0] = 0.0
    assert {entry["id"] for entry in shown(results, tmp_path)} == {"image 1", "image 2"}
    results["radius"][:] = torch.inf
    assert shown(results, tmp_path) == []


@pytest.mark.parametrize("failure", [Nearest(), Nearest("cosine"), Confused(4)])
def test_an_image_is_taken_for_the_one_whose_margin_is_smallest(failure: Failure) -> None:
    seen = shard()
    reps = torch.randn(N, 8, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    rivals = failure.rivals(seen)
    assert rivals is not None
    assert rivals.positions is not None
    taken = failure.identify(seen, reps)
    assert taken is not None
    if failure == Nearest():
        assert seen.clean is not None
        apart = torch.cdist(reps, seen.clean)
        apart[torch.arange(N), torch.arange(N)] = torch.inf
        assert torch.equal(taken, apart.argmin(1))
    # where the image fails, it is taken for one whose margin is below zero
    margins = rivals.margins(reps)
    where = (rivals.positions == taken[:, None]).int().argmax(1, keepdim=True)
    failed = margins.amin(1) < 0
    assert failed.any()
    assert (margins.gather(1, where).squeeze(1)[failed] < 0).all()


def test_other_failures_name_no_image() -> None:
    from holdfast.parts.failures.drifted import Drifted

    assert Drifted().identify(shard(), torch.zeros(N, 8)) is None
    assert (BreakingRadii(L2(), Drifted(0.5), steps=20).run(shard())["rival"] == -1).all()
