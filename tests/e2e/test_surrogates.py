"""Surrogates as users name them: on the command line, in Python, in plans; what is wrong with them, in one line."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from test_command_line import status_of
from torch import nn

import holdfast
from holdfast.auditing.estimate.estimate import estimate
from holdfast.auditing.plan import Plan
from holdfast.auditing.plan_file import make_plan
from holdfast.auditing.request import AuditRequest
from holdfast.auditing.surrogates import Surrogate
from holdfast.core import Encoder
from holdfast.parts.attacks.apgd import Apgd
from holdfast.parts.attacks.square import Square
from holdfast.parts.measures.transfer.transfer_rate import TransferRate
from holdfast.parts.threats.linf import Linf
from holdfast.runtime.errors import BadValue, Unsupported
from holdfast.runtime.exit_status import ExitStatus
from json_records import run_audit

SMALL = ["--data", "digits", "--images", "40", "--attacked", "8", "--quiet"]
QUICK = ["--set", "*.attack.steps=3", "--set", "*.asking.steps=5"]
HARDENED, LABELLED = "zoo:digits-simclr-adv", "zoo:digits-supervised"


def test_each_encoder_of_an_audit_is_a_surrogate_of_the_others(tmp_path: Path) -> None:
    command = ["audit", HARDENED, LABELLED, "--profile", "transfer", *SMALL, *QUICK, "--out", str(tmp_path / "run")]
    assert status_of(*command) == 0
    record = json.loads((tmp_path / "run" / "record.json").read_text())
    for encoder in record["encoders"]:
        (chart,) = encoder["measures"]["transfer_rate"]["charts"]
        assert chart["columns"] == [HARDENED, LABELLED, "any surrogate", "queries", "whitebox"]
        own = encoder["measures"]["transfer_rate"]["scores"][f"from {encoder['name']}"]
        assert "the encoder itself" in own["note"]
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "Attacks from other encoders" in page
    assert (
        "Transfer rate, ℓ∞ ≤ 0.1. digits-simclr-adv: digits-simclr-adv " in page
    )  # what the matrix says without being seen


def test_a_surrogate_adds_its_measures_to_any_profile() -> None:
    plan = make_plan(AuditRequest([HARDENED], "digits", measures=["universal_quantile"], surrogates=[LABELLED, "each"]))
    assert [*plan.measures_by_name] == ["universal_quantile", "transfer_rate", "transfer_quantile"]
    asked = plan.measures_by_name["transfer_rate"]
    assert isinstance(asked, TransferRate)
    assert asked.surrogates == (LABELLED, HARDENED)
    # a measure's own surrogates stay, unless others are given
    own = TransferRate((LABELLED,))
    assert make_plan(AuditRequest([HARDENED], "digits", measures=[own])).measures == (own,)
    (other,) = make_plan(AuditRequest([HARDENED], "digits", measures=[own], surrogates=("each",))).measures
    assert other == TransferRate((HARDENED,))


def test_an_estimate_counts_the_images_of_a_surrogate_once(tmp_path: Path) -> None:
    asked = TransferRate((HARDENED,), Apgd(3), asking=Square(5))
    plan = make_plan(
        AuditRequest([HARDENED, LABELLED], "digits", measures=[asked], images=40, attacked=8, examined=2, queries=5)
    )
    first, second = estimate(plan, tmp_path, seconds=5).encoders
    assert first.error is second.error is None
    attacking = [sum("images attacked" in p.title and p.images for p in e.parts) for e in (first, second)]
    assert attacking[0] == 2 * 8  # the images, and what the encoder makes of them
    assert attacking[1] == 8


def network(seed: int, pixels: int = 64) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(nn.Flatten(), nn.Linear(pixels, 6))


X = torch.rand(24, 1, 8, 8, generator=torch.Generator().manual_seed(0))
MEASURES = [TransferRate(attack=Apgd(3), asking=Square(5))]


def test_surrogates_in_memory() -> None:
    mine, other = (Encoder(network(seed), mean=0.5, std=0.5, name=f"net {seed}?") for seed in (0, 1))
    record = holdfast.audit(mine, X, measures=MEASURES, surrogates=[other, "net 0?"], attacked=8, quiet=True)
    scores = record.data["encoders"][0]["measures"]["transfer_rate"]["scores"]
    assert record.failures == ()
    assert [*scores][:2] == ["from net 1?", "from net 0?"]
    assert "the encoder itself" in scores["from net 0?"]["note"]
    with pytest.raises(BadValue, match="surrogates"):
        holdfast.audit(mine, X, measures=MEASURES, surrogates=mine, attacked=8, quiet=True)


@pytest.mark.slow
def test_workers_find_the_images_that_another_one_made(tmp_path: Path) -> None:
    command = ["audit", HARDENED, LABELLED, "--measure", "transfer_rate", *SMALL, *QUICK, "--workers", "2"]
    assert status_of(*command, "--out", str(tmp_path / "two")) == 0
    assert status_of(*command[:-2], "--out", str(tmp_path / "one")) == 0
    one, two = (json.loads((tmp_path / name / "record.json").read_text())["encoders"] for name in ("one", "two"))
    for alone, shared in zip(one, two, strict=True):
        assert alone["measures"]["transfer_rate"]["scores"] == shared["measures"]["transfer_rate"]["scores"]


@pytest.mark.parametrize(
    ("surrogate", "words"),
    [
        (
            "zoo:digits-supervisd",
            "surrogate zoo:digits-supervisd: unknown zoo encoder 'digits-supervisd'; did you mean",
        ),
        ("nowhere.onnx", "surrogate nowhere.onnx: "),
        ("zoo:digits-simclr?sise=3", "'sise'; did you mean 'size'?"),
        ("", "expected a value for --surrogate, got an empty one"),
    ],
)
def test_a_surrogate_that_is_none(surrogate: str, words: str, tmp_path: Path, capsys) -> None:
    command = ["audit", LABELLED, "--surrogate", surrogate, *SMALL, *QUICK, "--out", str(tmp_path / "run")]
    assert status_of(*command) == ExitStatus.USAGE
    text = " ".join(capsys.readouterr().err.split())
    assert words in text
    assert not (tmp_path / "run" / "record.json").exists()


def test_a_surrogate_that_takes_other_images_costs_its_measure_alone() -> None:
    mine, other = Encoder(network(0), mean=0, std=1, name="mine"), Encoder(network(1, 9), mean=0, std=1, name="other")
    record = holdfast.audit(
        mine, X, measures=[*MEASURES, "uniformity"], surrogates=other, attacked=8, quiet=True, profile="feature_space"
    )
    measures = record.data["encoders"][0]["measures"]
    assert "surrogate 'other': expected an encoder that takes images [1, 8, 8]" in measures["transfer_rate"]["error"]
    assert measures["uniformity"]["error"] is None


class Noisy(nn.Module):
    """Adds noise to the pixels, in eval mode too."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x + 0.1 * torch.randn_like(x)).flatten(1)


def test_the_draws_of_an_encoder_are_none_of_its_surrogates(tmp_path: Path) -> None:
    noisy = Encoder(Noisy(), mean=0, std=1, name="noisy", draws=3)
    asked = TransferRate((HARDENED,), Apgd(3), asking=Square(5))
    plan = Plan(("noisy",), "digits", (asked,), (), images=24, attacked=8)
    record = run_audit(plan, tmp_path, encoders={"noisy": noisy})
    passes = record["encoders"][0]["passes"]
    assert record["failures"] == []
    assert {k: v for k, v in passes.items() if k in passes["predicted"]} == passes["predicted"]


def test_a_surrogate_that_draws_is_refused() -> None:
    noisy = Encoder(Noisy(), mean=0, std=1, name="noisy", draws=3)
    with pytest.raises(Unsupported, match="noisy"):
        Surrogate(noisy, (1, 8, 8), Encoder(nn.Flatten(), mean=0, std=1))


def test_a_service_without_a_gradient_is_judged_by_the_gradient_of_another_encoder() -> None:
    """What is attacked along gradients is the surrogate alone; its images, and queries, are what the service sees."""
    victim = network(0)

    def embed(x: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return (victim(torch.tensor(x)) + 0.01 * torch.tensor(x).flatten(1)[:, :6]).numpy()

    twin = Encoder(network(0), mean=0, std=1, name="twin")
    other = Encoder(network(1), mean=0, std=1, name="other")
    asked = [TransferRate(attack=Apgd(5), asking=Square(20), ball=Linf(0.3))]
    record = holdfast.audit(embed, X, measures=asked, surrogates=[twin, other], attacked=8, quiet=True)
    assert record.failures == ()
    (entry,) = record.data["encoders"]
    scores = entry["measures"]["transfer_rate"]["scores"]
    assert [*scores] == ["from twin", "from other", "queries", "any surrogate - queries", "any surrogate"]
    assert "not attacked along gradients" in scores["queries"]["note"]
    # nearly the same encoder tells more than one that has nothing to do with it
    assert scores["from twin"]["value"] > scores["from other"]["value"]
    assert entry["passes"]["measures"]["backward"] == 8 * 2 * 5  # all of them the surrogates'
    assert "transfer_order" not in " ".join(entry["checks"])
    # an attack that only asks is the same on both, so that the service's own one stays
    alike = [TransferRate(attack=Square(20), asking=Square(20))]
    record = holdfast.audit(embed, X, measures=alike, surrogates=[other], attacked=8, quiet=True)
    assert "whitebox" in record.data["encoders"][0]["measures"]["transfer_rate"]["scores"]
