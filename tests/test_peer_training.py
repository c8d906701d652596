"""A training beside a plain loop of lightly's heads and losses: the same losses, from the first step to the last."""

import dataclasses
import importlib.util
import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[1]))  # benchmarks are no part of the package

from benchmarks import peer_training

from holdfast.parts.methods.vicreg import Vicreg
from holdfast.runtime.torchvision_guard import guard_torchvision
from holdfast.training.images import TrainingImages

pytestmark = pytest.mark.skipif(importlib.util.find_spec("lightly") is None, reason="lightly is not installed")


@pytest.mark.sweep(3)
@pytest.mark.parametrize("number", range(3), ids=["simclr", "vicreg", "supcon"])
def test_losses_are_those_of_a_plain_loop(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    guard_torchvision()
    monkeypatch.setattr(peer_training, "STEPS", 3)
    images, peer = TrainingImages(peer_training.TRAIN, geometry=None), peer_training.peers()[number]
    ours, losses = peer_training.ours(peer, images, 1)
    theirs, expected = peer_training.plain(peer, images, 1)
    assert losses == pytest.approx(expected, rel=1e-5)
    for name, value in theirs.state_dict().items():
        torch.testing.assert_close(ours.state_dict()[name], value, rtol=1e-3, atol=1e-4)
    if not isinstance(peer.method, Vicreg):  # which has no temperature
        other = dataclasses.replace(peer.method, temperature=2 * peer.method.temperature)
        _, changed = peer_training.ours(peer._replace(method=other), images, 1)
        assert changed[0] != pytest.approx(expected[0], rel=1e-5)
