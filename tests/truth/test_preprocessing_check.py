"""The check of the normalisation: whoever states it has answered, unless it cannot be of pixels in [0, 1]."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

import holdfast
from holdfast.core import Encoder
from holdfast.parts.checks.preprocessing import Preprocessing


def judged(mean: Any, std: Any, **origin: str) -> tuple[str, str]:
    encoder = Encoder(torch.nn.Flatten(), mean=mean, std=std, origin=origin)
    verdict = Preprocessing().judge(SimpleNamespace(encoder=encoder))  # type: ignore[arg-type]
    return verdict.status, verdict.finding


@pytest.mark.parametrize(("mean", "std"), [(0, 1), (0.5, 0.5), ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])])
def test_what_the_caller_says_is_an_answer(mean: Any, std: Any) -> None:
    status, finding = judged(mean, std)
    assert status == "pass"
    assert finding.endswith("given by the caller")


@pytest.mark.parametrize(("mean", "std"), [(-0.5, 1), ([0.5, 0.5, 1.5], 1), (0.5, 1.5)])
def test_what_cannot_be_of_such_pixels_is_warned_of(mean: Any, std: Any) -> None:
    assert judged(mean, std)[0] == "warn"
    assert judged(mean, std, normalisation="its own config")[0] == "pass"


def test_an_audit_in_python_has_no_mark_for_it() -> None:
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 16))
    asked = {"measures": "breakaway_risk[attack.steps=2]", "images": 24, "attacked": 4, "budget": "none", "quiet": True}
    record = holdfast.audit(network, "digits", mean=0, std=1, **asked)
    checks = record.data["encoders"][0]["checks"]
    assert checks["preprocessing"]["status"] == "pass"
    assert "normalisation" not in str(record)
