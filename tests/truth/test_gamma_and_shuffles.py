"""Gamma and shuffles on hand-made images, where every pixel of the result is known."""

import math

import pytest
import torch
from torch import Tensor

from holdfast.core import Corruption, Rng
from holdfast.parts.threats.gamma import Gamma
from holdfast.parts.threats.global_shuffle import GlobalShuffle
from holdfast.parts.threats.local_shuffle import LocalShuffle
from holdfast.parts.threats.shared.grid import cells, from_cells, layout
from holdfast.runtime.errors import BadValue, Mismatch

RNG = Rng(0, ids=("a", "b"))
LEVELS = torch.arange(256).float() / 255


def numbered(channels: int, height: int, width: int) -> Tensor:
    """Return two images of which no two values are equal."""
    count = 2 * channels * height * width
    return torch.arange(count).float().view(2, channels, height, width) / count


def grey(levels: list[int]) -> Tensor:
    return (torch.tensor(levels) / 255).view(1, 1, 1, -1)


def test_gamma_gives_the_published_levels() -> None:
    # by hand: 255 (1/255)^.2 = 84.18, 255 (64/255)^.2 = 193.4, 255 (128/255)^.2 = 222.2; 255 (200/255)^5 = 75.7
    x = grey([0, 1, 64, 128, 254, 255])
    assert (255 * Gamma(0.2).sample(x, RNG)).round().flatten().tolist() == [0, 84, 193, 222, 254, 255]
    assert (255 * Gamma(5.0).sample(grey([0, 128, 200, 254, 255]), RNG)).round().flatten().tolist() == [
        0,
        8,
        75,
        250,
        255,
    ]


@pytest.mark.parametrize("gamma", [0.1, 0.2, 0.5, 2.0, 2.5, 5.0])
def test_gamma_is_the_formula_at_every_level(gamma: float) -> None:
    expected = [math.floor(255 * (k / 255) ** gamma) for k in range(256)]
    expected[255] = 255  # where the power is a whole number, rounding decides nothing
    out = Gamma(gamma).sample(LEVELS.view(1, 1, 16, 16), RNG)
    assert torch.equal(out.flatten(), torch.tensor(expected) / 255)


def test_gamma_one_leaves_8_bit_images_as_they_are() -> None:
    x = torch.stack([LEVELS, LEVELS.flip(0)]).view(2, 1, 16, 16)
    assert torch.equal(Gamma(1.0).sample(x, RNG), x)


def test_gamma_takes_pixels_to_their_nearest_level_first() -> None:
    between = torch.tensor([99.6, 100.0, 100.4]).div(255).view(1, 1, 1, 3)
    assert torch.equal(Gamma(0.2).sample(between, RNG), Gamma(0.2).sample(grey([100] * 3), RNG))
    just_below = torch.nextafter(LEVELS, torch.zeros(())).clamp_min(0).view(1, 1, 16, 16)
    assert torch.equal(Gamma(2.0).sample(just_below, RNG), Gamma(2.0).sample(LEVELS.view(1, 1, 16, 16), RNG))


def undo(shuffle: GlobalShuffle | LocalShuffle, x: torch.Tensor) -> torch.Tensor:
    grid = layout(x, shuffle.grid, shuffle.cell)
    back = shuffle.order(*x.shape[2:]).argsort()
    return from_cells(shuffle.permute(cells(x, grid), back), grid, x.shape[3])


@pytest.mark.parametrize("cls", [GlobalShuffle, LocalShuffle])
@pytest.mark.parametrize(("grid", "height", "width"), [(2, 8, 8), (4, 8, 8), (4, 8, 12), (3, 6, 9), (1, 4, 6)])
def test_the_inverse_permutation_restores_the_image(cls: type, grid: int, height: int, width: int) -> None:
    x, shuffle = numbered(3, height, width), cls(grid)
    shuffled = shuffle.sample(x, RNG)
    assert torch.equal(undo(shuffle, shuffled), x)
    assert torch.equal(shuffled.flatten().sort().values, x.flatten().sort().values)


def test_one_cell_and_single_pixels_are_the_identity() -> None:
    x = numbered(3, 8, 8)
    assert torch.equal(GlobalShuffle(1).sample(x, RNG), x)
    assert torch.equal(LocalShuffle(8).sample(x, RNG), x)
    for shuffle in (GlobalShuffle(8), LocalShuffle(1), GlobalShuffle(2), LocalShuffle(4)):
        assert not torch.equal(shuffle.sample(x, RNG), x)


def test_global_shuffle_moves_whole_cells() -> None:
    x, shuffle = numbered(1, 4, 6), GlobalShuffle(2)
    out = shuffle.sample(x, RNG)
    corners = [(0, 0), (0, 3), (2, 0), (2, 3)]
    for (row, column), source in zip(corners, shuffle.order(4, 6).tolist(), strict=True):
        top, left = corners[source]
        assert torch.equal(out[:, :, row : row + 2, column : column + 3], x[:, :, top : top + 2, left : left + 3])


def test_local_shuffle_keeps_cells_and_moves_pixels_alike_in_all_of_them() -> None:
    x, shuffle = numbered(1, 4, 6), LocalShuffle(2)
    out, order = shuffle.sample(x, RNG), shuffle.order(4, 6)
    for row in (0, 2):
        for column in (0, 3):
            cell = x[:, :, row : row + 2, column : column + 3].flatten(2)
            assert torch.equal(out[:, :, row : row + 2, column : column + 3].flatten(2), cell[..., order])


@pytest.mark.parametrize("shuffle", [GlobalShuffle(4), LocalShuffle(2)], ids=lambda part: part.title)
def test_one_permutation_for_all_images_channels_and_audits(shuffle: Corruption) -> None:
    places = torch.arange(64).float().view(1, 1, 8, 8) / 64
    same = shuffle.sample(places.expand(2, 3, 8, 8), RNG)
    assert torch.equal(same, same[:1, :1].expand(2, 3, 8, 8))
    assert torch.equal(shuffle.sample(places, Rng(77, ("train",), ("z",))), same[:1, :1])


@pytest.mark.parametrize("cls", [GlobalShuffle, LocalShuffle])
def test_the_seed_names_the_permutation_and_none_does_nothing(cls: type) -> None:
    x = numbered(1, 4, 4)
    results = [cls(2, seed=seed).sample(x, RNG) for seed in range(300)]  # of 24 permutations of four all but one appear
    assert len({tuple(result.flatten().tolist()) for result in results}) == 23
    assert not any(torch.equal(result, x) for result in results)


def test_titles_tell_corruptions_apart() -> None:
    parts = [Gamma(), Gamma(5), GlobalShuffle(4), GlobalShuffle(8), LocalShuffle(8), GlobalShuffle(4, seed=1)]
    assert [part.title for part in parts] == ["γ 0.2", "γ 5", "G4x4", "G8x8", "L8x8", "G4x4 (1)"]


@pytest.mark.parametrize("cls", [GlobalShuffle, LocalShuffle])
def test_grids_that_do_not_divide_are_refused_with_the_nearest_that_do(cls: type) -> None:
    with pytest.raises(Mismatch, match=r"2 and 4$"):
        cls(3).sample(numbered(1, 8, 16), RNG)
    with pytest.raises(Mismatch, match="nearest: 8"):
        cls(16).sample(numbered(1, 8, 8), RNG)
    for grid in (0, -2):
        with pytest.raises(BadValue, match=rf"_shuffle\.grid: .*got {grid}$"):
            cls(grid)


@pytest.mark.parametrize("cls", [GlobalShuffle, LocalShuffle])
def test_cells_of_so_many_pixels_are_the_grid_that_they_make(cls: type) -> None:
    x = numbered(3, 8, 8)
    assert torch.equal(cls(cell=2).sample(x, RNG), cls(grid=4).sample(x, RNG))
    wide = numbered(1, 4, 12)  # 1 x 3 cells, a grid that is not square
    assert torch.equal(undo(cls(cell=4), cls(cell=4).sample(wide, RNG)), wide)
    assert not torch.equal(cls(cell=4).sample(wide, RNG), wide)
    assert (cls(cell=4).title, cls(cell=4).title[1:]) == (cls(9, cell=4).title, ", cells of 4 px")
    with pytest.raises(Mismatch, match="got 3"):
        cls(cell=3).sample(x, RNG)
    with pytest.raises(BadValue, match=r"_shuffle\.cell"):
        cls(cell=-1)


@pytest.mark.parametrize("gamma", [0.0, -1.0, float("nan"), float("inf")])
def test_impossible_powers_are_refused(gamma: float) -> None:
    with pytest.raises(BadValue, match=rf"^gamma\.gamma: .*got {gamma}$"):
        Gamma(gamma)
