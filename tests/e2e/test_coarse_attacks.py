"""A training whose attack is too coarse: it is noticed, told and mended; a comparison by itself changes nothing."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from test_training import same, weights
from torch import Tensor, nn

from holdfast.core import Batch, Encoder, Facts, Rng, registry
from holdfast.sources.encoders.shared.copies import trainable
from holdfast.training import loop
from holdfast.training.adversary import Adversary
from holdfast.training.coarseness import COARSE, MENDS, SLOWER, USELESS, explain, judge, refine
from holdfast.training.loop import Trained, train
from holdfast.training.recipe import Recipe
from holdfast.workflows.harden.plan import Hardening

BALL = registry.part("threats", "linf", radius=0.1)
STEPS = 22


def adversary(steps: int, size: float, **more: object) -> Adversary:
    attack = registry.part("attacks", "pgd", steps=steps, step_size=size, keep="last")
    return Adversary(BALL, attack, registry.part("objectives", "untargeted"), **{"check_every": 5, **more})


def asked(steps: int, size: float, **more: object) -> Recipe:
    hardening = Hardening("zoo:digits-supervised", "digits?part=train", eps=0.1, views="none", rate=0.003, steps=STEPS)
    return replace(hardening.recipe(), images=128, batch_size=32, adversary=adversary(steps, size, **more))


class Waves(nn.Module):
    """Representations that repeat every .05 of a pixel: steps of just that length find nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, x: Tensor) -> Tensor:
        return self.scale * (2 * torch.pi * x.flatten(1) / 0.05).sin()


@pytest.mark.parametrize(
    ("network", "low", "high"),
    [(nn.Flatten(), 1.0, 1.1), (Waves(), COARSE, 10.0)],
)
def test_the_ratio_is_large_where_large_steps_find_nothing(network: nn.Module, low: float, high: float) -> None:
    method = registry.build({"kind": "methods", "name": "self_distillation"})
    student = method.student(trainable(Encoder(network, mean=0, std=1)), Facts(dim=4, images=8, classes=None))
    x, rng = (
        0.3 + 0.4 * torch.rand(8, 1, 4, 4, generator=torch.Generator().manual_seed(0)),
        Rng(0, ids=tuple("abcdefgh")),
    )
    ratio = adversary(3, 0.05).measure_coarseness(student, [x], Batch(torch.arange(8)), rng)
    assert low <= ratio < high
    assert student.training


def test_what_is_coarse() -> None:
    against = adversary(3, 0.05)
    assert not judge(COARSE + 0.1, 50, [], against, 0).coarse  # a network that has just begun to learn
    assert not judge(COARSE + 0.1, 100, [COARSE], against, 0).coarse  # it was no better before
    assert not judge(COARSE, 100, [1.0], against, 0).coarse
    assert judge(COARSE + 0.1, 100, [COARSE + 0.1], against, 0).mended  # twice in a row
    assert judge(COARSE + 0.1, 100, [1.1, COARSE], against, 0).mended
    assert judge(USELESS + 0.1, 50, [], against, 0).mended  # an attack that never found much
    for comparison in (judge(4, 50, [], against, MENDS), judge(4, 50, [], replace(against, mend=False), 0)):
        assert comparison.coarse
        assert not comparison.mended


def test_finer_means_more_and_smaller_steps() -> None:
    (finer,) = {refine(adversary(3, 0.05), 2).attack}
    assert (finer.steps, finer.step_size) == (12, 0.0125)
    (longer,) = {refine(adversary(1, 1e-4), 1).attack}
    assert (longer.steps, longer.step_size) == (2, 0.05)
    assert refine(Adversary(BALL, registry.part("attacks", "square", steps=5)), 1).attack.steps == 5


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    return train(asked(1, 1e-4), tmp_path_factory.mktemp("planted"))


def test_a_planted_coarse_attack_is_noticed_mended_and_told(planted: Trained) -> None:
    assert [comparison.step for comparison in planted.comparisons] == [5, 10, 15, 20]
    ratios = [comparison.ratio for comparison in planted.comparisons]
    assert ratios[0] > USELESS
    assert max(ratios[1:]) < COARSE  # two steps of ε/2 find what many small ones do
    assert [comparison.mended for comparison in planted.comparisons] == [True, False, False, False]
    # the rate is halved from the step on that follows
    untouched = train_rates(asked(1, 1e-4))
    shares = [row["rate"] / rate for row, rate in zip(planted.rows[1:], untouched[1:], strict=True)]
    assert shares == pytest.approx([SLOWER if step >= 5 else 1.0 for step in range(1, STEPS)])
    (line,) = explain(planted.comparisons)
    assert "too coarse: at step 5" in line
    assert line.endswith("half the rate, from step 5")
    told = [judge(4, step, [], adversary(3, 0.05), mends) for mends, step in enumerate((50, 100, 150, 200))]
    (line,) = explain(told)
    assert "from step 50, 100, 150" in line
    assert "at step 200 that was still too coarse: give it more steps" in line


def train_rates(recipe: Recipe) -> list[float]:
    return [recipe.optimiser.rate_at(step / STEPS) for step in range(STEPS)]


@pytest.mark.slow
def test_a_comparison_alone_changes_nothing(planted: Trained, tmp_path: Path) -> None:
    compared = train(asked(1, 1e-4, mend=False), tmp_path / "compared")
    assert all(comparison.coarse for comparison in compared.comparisons)
    alone = train(asked(1, 1e-4, check_every=0), tmp_path / "alone")
    assert alone.comparisons == []
    assert same(weights(compared), weights(alone))
    assert not same(weights(planted), weights(alone))


@pytest.mark.slow
def test_a_fine_attack_gives_no_reason_to_change_it(tmp_path: Path) -> None:
    fine = train(asked(10, 0.025), tmp_path / "fine")
    assert not any(comparison.coarse for comparison in fine.comparisons)
    assert max(comparison.ratio for comparison in fine.comparisons) < COARSE
    assert explain(fine.comparisons) == []


def test_a_mended_training_resumes_to_the_same_weights(
    planted: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = loop._Training._one_step

    def interrupted(training: loop._Training) -> None:
        if training.step == 12:
            raise KeyboardInterrupt
        step(training)

    monkeypatch.setattr(loop._Training, "_one_step", interrupted)
    with pytest.raises(KeyboardInterrupt):
        train(asked(1, 1e-4), tmp_path)
    monkeypatch.undo()
    resumed = train(asked(1, 1e-4), tmp_path)
    assert resumed.resumed == 12
    assert resumed.comparisons == planted.comparisons
    assert same(weights(resumed), weights(planted))
