"""Radii by separate bounds of logits."""

import pytest
import torch
from torch import nn

from holdfast.core import Encoder, Head, Rng, Shard
from holdfast.parts.observations.logit_radii import LogitRadii
from holdfast.runtime.errors import Mismatch


def test_a_label_that_the_head_does_not_know_is_refused() -> None:
    encoder = Encoder(nn.Sequential(nn.Flatten(), nn.Linear(4, 2)), mean=0, std=1)
    x, head = torch.rand(1, 1, 2, 2), Head(torch.eye(2), torch.zeros(2), torch.arange(2))
    here = torch.zeros(1, dtype=torch.long)
    shard = Shard(encoder, x, here, Rng(0, ids=("a",)), encoder(x), labels=here + 7, head=lambda _: head)
    with pytest.raises(Mismatch, match=r"\[7\]"):
        LogitRadii(halvings=2).run(shard)
