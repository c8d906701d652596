"""Transferred attacks between published networks of CIFAR-10: a hardened copy tells what breaks the plain one."""

from pathlib import Path

import pytest

from holdfast.auditing.plan import Plan
from holdfast.parts.attacks.apgd import Apgd
from holdfast.parts.attacks.square import Square
from holdfast.parts.measures.transfer.transfer_rate import TransferRate
from holdfast.parts.threats.linf import Linf
from json_records import run_audit

NORMALISED = "mean=.485,.456,.406&std=.225"


@pytest.mark.slow
def test_what_breaks_the_hardened_copy_breaks_the_plain_network_and_not_the_other_way_round(
    shared: Path, tmp_path: Path
) -> None:
    data = shared / "data"
    encoders = tuple(
        f"file:{data}/encoders/cifar10_cnn_b_{name}.safetensors?{NORMALISED}&label={label}"
        for name, label in (("eps0", "plain"), ("eps4.4", "hardened"))
    )
    asked = TransferRate(encoders, Apgd(10), Linf(8 / 255), asking=Square(10))
    plan = Plan(encoders, f"{data}/cifar10_lossless300.npz", (asked,), images=300, attacked=32)
    record = run_audit(plan, tmp_path)
    assert record["failures"] == []
    plain, hardened = (e["measures"]["transfer_rate"]["scores"] for e in record["encoders"])
    for own, name in ((plain, "plain"), (hardened, "hardened")):
        assert own[f"from {name}"]["value"] == own["whitebox"]["value"]
    assert plain["from hardened"]["low"] > 0.2
    assert hardened["from plain"]["value"] < 0.05
    assert plain["whitebox - any surrogate"]["low"] > 0
