"""Few-shot probes: which images they learn from, and that they learn from no others."""

import dataclasses

import pytest
import torch
from torch import Tensor

from holdfast.core import Bank, Classifier, Head, Probe, Rng
from holdfast.parts.probes.few_shot import FewShot
from holdfast.parts.probes.knn import Knn
from holdfast.parts.probes.linear import Linear
from holdfast.parts.probes.logits import Logits
from holdfast.parts.probes.shared.shots import draw_shots
from holdfast.runtime.errors import BadValue, NotEnough

LABELS = torch.tensor([7, 3, 7, 7, 3, 9, 9, 3, 9, 7, 9, 3] * 5)
REPS = torch.randn(60, 4, generator=torch.Generator().manual_seed(0)) + LABELS[:, None] / 3


@dataclasses.dataclass(frozen=True)
class Recording(Probe):
    """Keeps what it is given."""

    seen: list[tuple[Tensor, Tensor]] = dataclasses.field(default_factory=list, compare=False)

    def fit(self, reps: Tensor, labels: Tensor) -> Classifier:
        self.seen.append((reps, labels))
        return Head(torch.zeros(2, 4), torch.zeros(2), torch.arange(2))


def test_as_many_of_each_class_with_their_own_labels() -> None:
    places = draw_shots(LABELS, 4, Rng(0))
    assert len(set(places.tolist())) == 12
    assert LABELS[places].tolist() == [3] * 4 + [7] * 4 + [9] * 4
    probe = Recording()
    FewShot(probe, shots=4).learn(Bank(LABELS, lambda: iter(REPS.split(7))))
    ((reps, labels),) = probe.seen
    assert torch.equal(reps, REPS[places])
    assert torch.equal(labels, LABELS[places])


def test_draws_depend_on_the_seed_and_on_their_class_alone() -> None:
    first = draw_shots(LABELS, 4, Rng(0)).view(3, 4)
    assert torch.equal(draw_shots(LABELS, 2, Rng(0)).view(3, 2), first[:, :2])  # fewer shots are the first of more
    without = LABELS[LABELS != 3]
    back = (LABELS != 3).nonzero()[:, 0]
    assert torch.equal(back[draw_shots(without, 4, Rng(0))].view(2, 4), first[1:])
    draws = {tuple(draw_shots(LABELS, 4, Rng(seed)).tolist()) for seed in range(20)}
    assert len(draws) == 20


def test_every_image_of_a_class_is_drawn_as_often() -> None:
    counts = torch.zeros(len(LABELS))
    for seed in range(400):
        counts[draw_shots(LABELS, 5, Rng(seed))] += 1
    assert counts.sum() == 400 * 15
    assert (counts - 100).abs().max() < 4.5 * (400 * 0.25 * 0.75) ** 0.5  # 5 of 20, binomial


@pytest.mark.parametrize("probe", [Knn(5), Linear()], ids=["knn", "linear"])
def test_all_images_as_shots_are_the_probe_itself(probe: Probe) -> None:
    few, whole = FewShot(probe, shots=20).fit(REPS, LABELS), probe.fit(REPS, LABELS)
    assert torch.allclose(few.scores(REPS), whole.scores(REPS), atol=1e-3)
    assert not torch.allclose(FewShot(probe, shots=2).fit(REPS, LABELS).scores(REPS), whole.scores(REPS), atol=1e-3)


def test_what_cannot_be_drawn_is_refused() -> None:
    with pytest.raises(NotEnough, match="got 3"):
        FewShot(shots=4).fit(torch.randn(10, 2), torch.tensor([1, 1, 1, 1, 1, 5, 5, 5, 1, 1]))
    with pytest.raises(BadValue, match="few_shot"):
        FewShot(shots=0)
    with pytest.raises(BadValue, match="few_shot"):
        FewShot(Logits())
    with pytest.raises(NotEnough):
        FewShot(shots=1).fit(torch.randn(5, 2), torch.zeros(5, dtype=torch.long))
