"""The kinds of errors: their codes, and a whole sentence of each. Other tests pin kinds and names."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import holdfast
from holdfast.core import Encoder, HoldfastError, registry
from holdfast.runtime.errors import NotCertified, NothingAudited, UnreadableRecord, Unwritable, find_kinds
from holdfast.sources.data import open_images
from holdfast.sources.encoders import open_encoder
from holdfast.storage.outputs import write_text
from holdfast.workflows.compare_index.plan import IndexPlan


class Mean(nn.Module):
    """A number for each image."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.mean((1, 2, 3))


def nan() -> torch.Tensor:
    """Return four images of which the last is NaN."""
    return torch.cat([torch.eye(8).expand(3, 1, 8, 8), torch.full((1, 1, 8, 8), torch.nan)])


CASES: dict[str, Callable[[], object]] = {
    "unknown-name": lambda: open_images("x.npy?layout=NHWD"),
    "bad-value": lambda: holdfast.audit("zoo:digits-simclr", "digits", budget="2 minutes"),
    "conflict": lambda: IndexPlan(old="vectors:a.npy", new="vectors:b.npy", rate=0.1, threshold=0.1),
    "ambiguous": lambda: open_images("x.npz"),
    "missing": lambda: IndexPlan(old="a", new="b"),
    "not-enough": lambda: len(open_images(torch.full((5, 1, 8, 8), 0.5), skip_duplicates=True)),
    "bad-data": lambda: open_images("x.npy").different,
    "bad-place": lambda: write_text("..", "x"),
    "mismatch": lambda: open_encoder("zoo:digits-simclr")(torch.rand(2, 3, 8, 8)),
    "unsupported": lambda: registry.part("threats", "hue").push(torch.rand(2, 1, 8, 8), torch.zeros(2, 1)),
    "not-finite": lambda: open_images(nan()).different,
    "failed": lambda: Encoder(Mean(), mean=0, std=1, name="net")(torch.rand(2, 1, 8, 8)),
}
"""A typical case of each."""


@pytest.mark.parametrize("kind", find_kinds(), ids=lambda kind: kind.code)
def test_each_kind_says_what_was_expected_what_came_and_what_to_do(
    kind: type[HoldfastError], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", np.full((4, 8, 8), 255.0, np.float32) * np.eye(8, dtype=np.float32))
    np.savez("x.npz", x_train=np.zeros((4, 8, 8), np.float32), x_test=np.zeros((4, 8, 8), np.float32))
    with pytest.raises(kind) as refused:
        CASES[kind.code]()
    _, _, example = " ".join((kind.__doc__ or "").split()).partition("For example: ")
    assert str(refused.value) == example


def test_codes_are_told_apart_and_cover_whatever_is_derived() -> None:
    codes = [kind.code for kind in find_kinds()]
    assert sorted(CASES) == sorted(codes)
    assert [error.code for error in (NothingAudited, UnreadableRecord, Unwritable, NotCertified)] == [
        "failed", "bad-data", "bad-place", "unsupported",
    ]  # fmt: skip
    assert all(vars(holdfast.core)[kind.__name__] is kind for kind in find_kinds())


def test_what_is_retold_keeps_its_kind_and_status() -> None:
    again = UnreadableRecord("gone").retell("in a: gone")
    assert (type(again), str(again), again.status, again.code) == (UnreadableRecord, "in a: gone", 3, "bad-data")
