"""Images that change while an audit is at work: noticed at its end, and its numbers are void."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest
import torch
from torch import nn

import holdfast

N = 40
IMAGES = torch.rand(N, 3, 8, 8, generator=torch.Generator().manual_seed(0))
ASK: dict[str, Any] = {"mean": 0, "std": 1, "images": N, "attacked": 8, "budget": "none", "quiet": True}
ASK |= {"measures": ["breakaway_risk", "neighbour_consistency"], "settings": ["*.attack=pgd[steps=2]"]}


class Network(nn.Module):
    """Does something at its third pass, as somebody else might meanwhile."""

    def __init__(self, meanwhile: Callable[[], object] = lambda: None):
        super().__init__()
        self.layer, self.meanwhile, self.passes = nn.Linear(192, 8), meanwhile, [0]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.passes[0] += 1
        if self.passes[0] == 3:
            self.meanwhile()
        return self.layer(x.flatten(1))


class Items:
    """A dataset of which some items are read through a function."""

    def __init__(self, read: Callable[[torch.Tensor], torch.Tensor], first: int = 10):
        self.read, self.first = read, first

    def __len__(self) -> int:
        return N

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return (IMAGES[index] if index < self.first else self.read(IMAGES[index])), index % 2


def check(images: Any, meanwhile: Callable[[], object] = lambda: None, **options: Any) -> tuple[dict, set[str]]:
    torch.manual_seed(0)
    record = holdfast.audit(Network(meanwhile), images, **ASK | options)
    (entry,) = record.data["encoders"]
    standings = {score["standing"] for m in entry["measures"].values() for score in m["scores"].values()}
    return entry["checks"]["images_unchanged"], standings


def write(folder: Path, seed: int = 0) -> Path:
    for number in range(N):
        values = np.random.default_rng([seed, number]).integers(0, 256, (8, 8, 3), dtype=np.uint8)
        PIL.Image.fromarray(values).save(folder / f"{number:02d}.png")
    return folder


def test_images_that_stay_pass_and_cost_no_pass(tmp_path: Path) -> None:
    for images in (write(tmp_path), Items(lambda x: x), IMAGES, "digits?size=8&channels=3"):
        verdict, standings = check(images)
        assert verdict["status"] == "pass", verdict
        assert verdict["finding"] == "8 images, read twice again, have not changed"
        assert verdict["passes"] == {"forward": 0, "backward": 0, "bounds": 0}
        assert standings == {"sound"}


def test_a_random_transform_of_later_items_is_noticed() -> None:
    verdict, standings = check(Items(lambda x: x * torch.rand(())))
    assert verdict["status"] == "fail"
    assert "another image each time" in verdict["finding"]
    assert standings == {"void"}


def test_a_scratch_tensor_that_changes_without_a_copy_is_noticed() -> None:
    """Whoever hands out views of what he changes: the images are those of the first reading no more."""
    images = IMAGES.clone()
    verdict, standings = check(images.numpy(), lambda: images.mul_(0.5))
    assert "another image now" in verdict["finding"]
    assert standings == {"void"}


@pytest.mark.parametrize("gone", [False, True])
def test_files_that_somebody_writes_or_removes_are_noticed(tmp_path: Path, gone: bool) -> None:
    folder = write(tmp_path)

    def meanwhile() -> None:
        if gone:
            for file in folder.glob("*.png"):
                file.unlink()
        else:
            write(folder, seed=1)

    verdict, standings = check(folder, meanwhile)
    assert verdict["status"] == "fail"
    assert ("No such file" if gone else "another image now") in verdict["finding"]
    assert standings == {"void"}


def test_images_that_probes_learn_from_are_read_again_too(tmp_path: Path) -> None:
    folders = []
    for seed in (0, 1):
        folders.append(tmp_path / str(seed))
        for label in "ab":
            (folders[-1] / label).mkdir(parents=True)
            write(folders[-1] / label, seed=10 * seed + ord(label))
    again = {"measures": ["probe_accuracy"], "train": folders[1], "settings": ()}
    verdict, _ = check(folders[0], **again)
    assert verdict["finding"] == "16 images, read twice again, have not changed"
    verdict, standings = check(folders[0], lambda: write(folders[1] / "a", seed=7), **again)
    assert verdict["status"] == "fail"
    assert standings == {"void"}
