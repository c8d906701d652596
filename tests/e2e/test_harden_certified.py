"""Hardening by a proved bound: what is proved stands in its record, before and after."""

from pathlib import Path

import pytest
import torch
from torch import nn

from holdfast.core import Encoder, HoldfastError
from holdfast.runtime.errors import NotCertified
from holdfast.workflows.harden.audits import Opened
from holdfast.workflows.harden.plan import Hardening
from holdfast.workflows.harden.run import harden

PROFILE = """
description = "what is broken and what is proved"
images = 24
attacked = 12
measures = [{ name = "breaking_radius", certified = 12, certifier = "crown_ibp" }]
"""


def encoder(last: nn.Module | None = None) -> Encoder:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 16), last or nn.Identity())
    return Encoder(network, mean=0, std=1)


def asked(**options: object) -> Hardening:
    digits = {"eps": 0.1, "views": "none", "rate": 0.01, "certified": "crown_ibp", "test": "digits?part=heldout"}
    return Hardening("memory", "digits?part=train", **{**digits, **options})  # pyright: ignore[reportArgumentType]


def test_what_is_proved_is_a_row_of_its_own(tmp_path: Path) -> None:
    profile = tmp_path / "proved.toml"
    profile.write_text(PROFILE)
    done = harden(asked(steps=60, profile=str(profile)), tmp_path / "run", opened=Opened(encoder=encoder()))
    rows = {row.measure: row for row in done.record.measures}
    broken, proved = rows["breaking_radius"], rows["breaking_radius.proved"]
    assert proved.before is not None
    assert proved.after is not None
    assert broken.after is not None
    assert proved.difference is not None
    assert 0 < proved.before.value < proved.after.value <= broken.after.value  # pyright: ignore[reportOptionalOperand]
    assert proved.difference.value == pytest.approx(proved.after.value - proved.before.value)  # pyright: ignore
    assert proved.verdict == "better"
    assert proved.title == f"{broken.title}, proved"


def test_what_cannot_be_bounded_is_refused_before_a_rate_is_looked_for(tmp_path: Path) -> None:
    class Sorted(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.sort(1).values

    with pytest.raises(NotCertified) as error:
        harden(asked(steps=4, rate=None), tmp_path, opened=Opened(encoder=encoder(Sorted())))
    assert "sort cannot be bounded" in str(error.value)
    assert not (tmp_path / "harden-plan.json").exists()


@pytest.mark.parametrize(("name", "said"), [("crown", "crown_ibp or interval"), ("nosuch", "crown_ibp")])
def test_certifiers_that_nothing_can_be_learned_from_are_refused(name: str, said: str) -> None:
    with pytest.raises(HoldfastError) as error:
        asked(steps=4, certified=name)
    assert said in str(error.value)
