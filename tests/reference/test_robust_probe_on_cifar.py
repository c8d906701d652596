"""Robust and standard probing of a published encoder on real images."""

from pathlib import Path

import pytest

from holdfast.auditing.plan import Plan
from holdfast.parts.attacks.pgd import Pgd
from holdfast.parts.measures.classifiers.robust_probe import RobustProbe
from holdfast.parts.observations.mixtures import Mixtures
from holdfast.parts.probes.robust_linear import RobustLinear
from holdfast.parts.threats.imagenet_c import ImagenetC
from holdfast.parts.threats.l2 import L2
from json_records import run_audit

THREATS = tuple(ImagenetC(name, 3) for name in ("gaussian_noise", "fog", "jpeg_compression"))


@pytest.mark.slow
def test_a_robust_head_stands_more_attacks_and_loses_little_else(shared: Path, tmp_path: Path) -> None:
    """With 1,500 training images and ε .25: attacked .27 -> .42, clean and corrupted .575 -> .604."""
    data = shared / "data"
    encoder = f"file:{data}/encoders/cifar10_cnn_b_eps0.safetensors?mean=0.485,0.456,0.406&std=0.225,0.225,0.225"
    mixtures = Mixtures(epsilons=(0.0, 0.1, 0.2), samples=512, separations=(1.0, 2.0, 3.0, 4.0))
    heads = RobustLinear(L2(0.25), Pgd(5), epochs=5), RobustLinear(L2(9.0), Pgd(5), epochs=3, chosen_by=mixtures)
    measures = tuple(RobustProbe(robust=head, threats=THREATS) for head in heads)
    plan = Plan(
        (encoder,),
        str(data / "cifar10_test.npz"),
        measures,
        images=300,
        train=str(data / "cifar10_train25k.npz"),
        train_images=600,
    )
    record = run_audit(plan, tmp_path)
    assert record["failures"] == []
    fixed, chosen = (
        {k: v["value"] for k, v in m["scores"].items()} for m in record["encoders"][0]["measures"].values()
    )
    assert fixed["attacked, gain"] > 0.08
    assert fixed["turned by attacks, change"] < -0.1
    assert fixed["clean and corrupted, gain"] > -0.02
    assert abs(chosen["clean and corrupted, gain"]) < 0.1
    assert chosen["clean, standard"] == fixed["clean, standard"]
