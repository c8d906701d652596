"""The sentences of audits: of encoders that hold, that learned nothing, that collapsed, that hide their gradient."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from holdfast.auditing.plan_file import make_plan
from holdfast.auditing.request import AuditRequest
from holdfast.core import Encoder
from holdfast.report.answer import answers
from holdfast.report.brief import leader
from holdfast.sources.data.arrays import Arrays
from holdfast.sources.encoders import open_encoder
from json_records import run_audit, typed

TRAINED, UNTRAINED = "zoo:digits-simclr-adv", "zoo:digits_cnn?weights=random"


class Wrapped(nn.Module):
    """A trained encoder behind which something happens to its representations."""

    def __init__(self, kind: str):
        super().__init__()
        self.inner, self.kind = open_encoder(TRAINED).module, kind

    def forward(self, x: Tensor) -> Tensor:
        """Return the representations: all alike, or rounded, which has no gradient."""
        reps = self.inner(x)
        return 0 * reps + 1 if self.kind == "collapsed" else (4 * reps).round() / 4


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return the record of four encoders on a few digits."""
    opened = {kind: Encoder(Wrapped(kind), mean=0, std=1, name=kind) for kind in ("collapsed", "rounded")}
    plan = make_plan(AuditRequest(
        [TRAINED, UNTRAINED, *opened], "digits", profile="quick", images=64, attacked=16,
        measures=[{"name": "breaking_radius", "steps": 40}],
    ))  # fmt: skip
    return run_audit(plan, tmp_path_factory.mktemp("run"), encoders=opened)


def test_each_is_called_what_it_is(record: dict[str, Any]) -> None:
    said = dict(answers(typed(record)))
    start = "alf of 16 images are taken for another one after a change of "
    trained, untrained, collapsed, rounded = (said[name].text for name in (TRAINED, UNTRAINED, "collapsed", "rounded"))
    assert trained.startswith(f"H{start}")
    assert "/255 (95 %: " in trained
    assert "keep half of them apart" not in trained  # which is true of the images, whatever the encoder
    assert untrained.startswith(f"Looks untrained: h{start}")
    assert collapsed.startswith(
        "Collapsed: breaking radius means nothing here: a check failed (nearly one representation for all images)."
    )
    assert rounded.startswith(f"Hides its gradient: h{start}")
    doubts = "pixels without gradient, even a huge change breaks little, smaller changes exist"
    assert f"This is only a limit, because checks failed ({doubts})" in rounded
    for text in (untrained, collapsed, rounded):
        assert not any(word in text for word in ("same settings", "like "))


def test_who_learned_nothing_is_not_praised(record: dict[str, Any]) -> None:
    first = leader(typed(record))
    assert first is not None
    assert UNTRAINED not in first.heading or "looks untrained" in first.heading


def test_the_limit_of_any_encoder_is_one_for_all_and_above_every_radius(record: dict[str, Any]) -> None:
    scores = {e["name"]: e["measures"]["breaking_radius"]["scores"] for e in record["encoders"]}
    (limit,) = {score["of any encoder"]["value"] for score in scores.values()}
    assert 0.4 < limit < 1
    for name in (TRAINED, UNTRAINED, "rounded"):
        assert 0 < scores[name]["median"]["value"] <= limit


def test_images_that_look_alike_are_told_and_left_out(tmp_path: Path) -> None:
    images = torch.rand(24, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    images[20:] = images[:4] + 0.001
    told = {}
    for skip in (False, True):
        plan = make_plan(AuditRequest(
            [TRAINED], "twins", profile="quick", images=20, attacked=8, eps=0.1, skip_duplicates=skip,
            measures=[{"name": "breaking_radius", "steps": 10}],
        ))  # fmt: skip
        told[skip] = run_audit(plan, tmp_path / str(skip), source=Arrays(images.clamp(0, 1)))
    data = {skip: record["data"] for skip, record in told.items()}
    assert 1 <= len(data[False]["duplicates"]) <= len(data[True]["duplicates"]) <= 4
    assert data[True]["images"] == 20
    assert data[True]["duplicates_left_out"]
    assert data[False]["fingerprint"] != data[True]["fingerprint"]
    assert "--skip-duplicates" in answers(typed(told[False]))[0][1].text
    assert "--skip-duplicates" not in answers(typed(told[True]))[0][1].text
