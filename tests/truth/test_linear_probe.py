"""Linear heads: optimal where the problem is convex, margins by loops, and never trained on attacked images."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import Tensor, nn

from holdfast.auditing.session import classifier_of
from holdfast.core import Bank, Classifier, Encoder, Head, HoldfastError, Probe, Threat
from holdfast.parts.measures.shared.probe import head_of
from holdfast.parts.observations.clean import Clean
from holdfast.parts.probes.linear import Linear
from holdfast.parts.probes.linear_adam import LinearAdam
from holdfast.parts.probes.trained import Trained
from holdfast.runtime.errors import BadData, BadValue, Failed, Mismatch, Missing, NotEnough, NotFinite, UnknownName
from holdfast.sources.data import ImageSet
from holdfast.sources.data.digits import Digits
from holdfast.sources.encoders import open_encoder
from searched import Unsearched

LEARNERS = [Linear(), LinearAdam(epochs=60, rate=0.05)]


def blobs(classes: int = 3, each: int = 40, dim: int = 5, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Representations around one centre per class, on features of very different scales; labels 10, 20, ..."""
    random = torch.Generator().manual_seed(seed)
    centres = 2 * torch.randn(classes, dim, generator=random)
    labels = torch.arange(classes).repeat(each)
    reps = centres[labels] + torch.randn(len(labels), dim, generator=random)
    return (reps * torch.logspace(-3, 3, dim) + 7).float(), 10 * (labels + 1)


@dataclasses.dataclass
class Labelled(Unsearched):
    """A subject of given representations and labels."""

    reps: Tensor
    labels: Tensor | None
    attacked: int
    seed: int = 0
    encoder: Encoder = dataclasses.field(default_factory=lambda: Encoder(nn.Flatten(), mean=0, std=1))

    @property
    def population(self) -> int:
        return len(self.reps)

    @property
    def ids(self) -> list[str]:
        return [str(i) for i in range(self.population)]

    def batch(self, start: int, stop: int) -> Tensor:
        raise AssertionError("a probe does not look at images")

    @property
    def has_training_set(self) -> bool:
        return False

    def read(self, observation: Clean) -> dict[str, Tensor]:
        return {"reps": self.reps}

    def bank(self, threat: Threat | None = None) -> Bank:
        assert threat is None
        assert self.labels is not None
        return Bank(self.labels[self.attacked :], lambda: iter([self.reps[self.attacked :]]))

    def fit_probe(self, probe: Probe, threat: Threat | None = None) -> Classifier:
        return classifier_of(self, probe, threat)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("penalty", [0.1, 1.0, 50.0])
def test_the_gradient_of_the_objective_vanishes(classes: int, penalty: float) -> None:
    """Nothing but the optimum of the formula in the docstring passes: the problem is strictly convex in W."""
    reps, labels = blobs(classes)
    head = Linear(penalty).fit(reps, labels)
    r = reps.double()
    centre, scale = r.mean(0), r.std(0, correction=0)
    weights = (head.weights.double() * scale).requires_grad_()
    bias = (head.bias.double() + head.weights.double() @ centre).requires_grad_()
    logits = (r - centre) / scale @ weights.T + bias
    loss = F.cross_entropy(logits, labels // 10 - 1, reduction="sum")
    # of two classes scikit-learn penalises the difference w of the rows: ½ ||w||² = ||-w/2||² + ||w/2||²
    squared = weights.square().sum()
    objective = loss + penalty * (squared if classes == 2 else squared / 2)
    for gradient in torch.autograd.grad(objective, (weights, bias)):
        assert gradient.abs().max() < 2e-3 * float(loss.detach() + 1)


@pytest.mark.parametrize("probe", LEARNERS, ids=lambda p: type(p).__name__)
@pytest.mark.parametrize("classes", [2, 3])
def test_separated_classes_are_learned(probe, classes: int) -> None:
    reps, labels = blobs(classes)
    reps = (reps - 7) / torch.logspace(-3, 3, 5)  # Adam sees features as they come
    head = probe.fit(reps, labels)
    assert head.classes.tolist() == [10 * (c + 1) for c in range(classes)]
    assert head.weights.shape == (classes, 5)
    assert head.weights.dtype == torch.float32
    assert head.correct(reps, labels).double().mean() > 0.9
    assert head.correct(reps, labels.roll(1)).double().mean() < 0.1


def test_scale_and_shift_of_features_change_nothing() -> None:
    reps, labels = blobs()
    plain, other = Linear().fit(reps, labels), Linear().fit(3 * reps - 5, labels)
    assert torch.allclose(plain.weights, 3 * other.weights, rtol=1e-3, atol=1e-5)
    assert torch.equal(plain.correct(reps, labels), other.correct(3 * reps - 5, labels))


def test_a_constant_feature_gets_no_weight() -> None:
    reps, labels = blobs()
    reps[:, 2] = 4.2
    head = Linear().fit(reps, labels)
    assert head.weights.isfinite().all()
    assert head.weights[:, 2].abs().max() < 1e-6


@pytest.mark.parametrize("probe", LEARNERS, ids=lambda p: type(p).__name__)
def test_the_same_data_give_the_same_head_and_torchs_generator_is_left_alone(probe) -> None:
    reps, labels = blobs()
    before = torch.random.get_rng_state()
    one, other = probe.fit(reps, labels), probe.fit(reps, labels)
    assert torch.equal(one.weights, other.weights)
    assert torch.equal(one.bias, other.bias)
    assert torch.equal(before, torch.random.get_rng_state())


def test_the_papers_recipe_depends_on_what_it_says() -> None:
    reps, labels = blobs()
    reps = (reps - 7) / torch.logspace(-3, 3, 5)
    base = LinearAdam(epochs=4)
    heads = [
        p.fit(reps, labels)
        for p in (base, LinearAdam(4, seed=1), LinearAdam(8), LinearAdam(4, rate=0.1), LinearAdam(4, every=1))
    ]
    for i, one in enumerate(heads):
        assert all(not torch.equal(one.weights, other.weights) for other in heads[:i])


# --- margins --------------------------------------------------------------------------------------


def test_margins_by_loops() -> None:
    random = torch.Generator().manual_seed(1)
    head = Head(torch.randn(4, 3, generator=random), torch.randn(4, generator=random), torch.tensor([2, 3, 5, 8]))
    labels = torch.tensor([5, 2, 8, 8, 3])
    reps = torch.randn(5, 3, generator=random)
    margin = head.margins(labels)
    assert margin.weights.shape == (5, 3, 3)
    values = margin(reps)
    for i, label in enumerate(labels.tolist()):
        own = head.classes.tolist().index(label)
        logits = [float(head.weights[c] @ reps[i] + head.bias[c]) for c in range(4)]
        expected = [logits[own] - logits[c] for c in range(4) if c != own]
        assert values[i].tolist() == pytest.approx(expected, abs=1e-5)
        assert bool(head.correct(reps, labels)[i]) == (np.argmax(logits) == own)


def test_a_tie_is_not_correct() -> None:
    head = Head(torch.tensor([[1.0, 0.0], [1.0, 0.0]]), torch.zeros(2), torch.tensor([0, 1]))
    assert not head.correct(torch.ones(2, 2), torch.tensor([0, 1])).any()


def test_a_class_that_the_head_does_not_know() -> None:
    head = Linear().fit(*blobs())
    with pytest.raises(Mismatch, match=r"\[10, 20, 30\]"):
        head.margins(torch.tensor([10, 40]))


# --- what cannot be learned from ------------------------------------------------------------------


@pytest.mark.parametrize("probe", LEARNERS, ids=lambda p: type(p).__name__)
def test_bad_training_data(probe) -> None:
    reps, labels = blobs()
    with pytest.raises(NotEnough, match="of 1"):
        probe.fit(reps, torch.full_like(labels, 3))
    reps[7, 1], reps[9, 0] = torch.nan, torch.inf
    with pytest.raises(NotFinite, match="2 of 120"):
        probe.fit(reps, labels)


def test_bad_parameters() -> None:
    with pytest.raises(BadValue, match="linear"):
        Linear(penalty=0)
    with pytest.raises(BadValue, match="linear_adam"):
        LinearAdam(epochs=0)
    with pytest.raises(Failed, match="linear"):
        Linear(iterations=2).fit(*blobs())


# --- heads from files -----------------------------------------------------------------------------


def file(folder: Path, **tensors: Tensor) -> str:
    path = str(folder / "head.safetensors")
    save_file({key.replace("__", "."): value for key, value in tensors.items()}, path)
    return path


def test_a_head_from_a_file(tmp_path: Path) -> None:
    head = Linear().fit(*blobs())
    reps = torch.zeros(1, 5)
    path = file(tmp_path, weight=head.weights, bias=head.bias, classes=head.classes)
    read = Trained(path).fit(reps, torch.zeros(1, dtype=torch.long))
    assert torch.equal(read.weights, head.weights)
    assert torch.equal(read.bias, head.bias)
    assert torch.equal(read.classes, head.classes)
    bare = Trained(file(tmp_path, weight=head.weights)).fit(reps, torch.zeros(1, dtype=torch.long))
    assert bare.bias.tolist() == [0, 0, 0]
    assert bare.classes.tolist() == [0, 1, 2]


def test_a_layer_of_a_network(tmp_path: Path) -> None:
    tensors = {f"{i}__weight": torch.full((3, 5), float(i)) for i in (2, 9, 10)} | {"1__weight": torch.ones(2, 3, 5, 5)}
    path = file(tmp_path, **tensors)
    given = torch.zeros(1, 5), torch.zeros(1, dtype=torch.long)
    assert float(Trained(path, "last").fit(*given).weights[0, 0]) == 10
    assert float(Trained(path, "9").fit(*given).weights[0, 0]) == 9
    for wrong in ("", "1", "7"):
        with pytest.raises(UnknownName, match="10, 2, 9"):
            Trained(path, wrong).fit(*given)


@pytest.mark.parametrize(
    ("tensors", "kind", "match"),
    [
        ({"weight": torch.ones(3, 4)}, Mismatch, "4 features"),
        ({"weight": torch.full((3, 5), torch.nan)}, BadData, "15 values"),
        ({"weight": torch.ones(1, 5)}, BadData, r"got \[1, 5\]"),
        ({"weight": torch.ones(3, 5), "bias": torch.ones(2)}, BadData, r"\[2\]"),
        ({"weight": torch.ones(3, 5), "classes": torch.tensor([0, 2, 1])}, BadData, "increasing"),
        ({"other": torch.ones(3, 5)}, UnknownName, "layer"),
    ],
)
def test_files_that_hold_no_head(tensors, kind: type[HoldfastError], match, tmp_path: Path) -> None:
    with pytest.raises(kind, match=match):
        Trained(file(tmp_path, **tensors)).fit(torch.zeros(1, 5), torch.zeros(1, dtype=torch.long))


# --- heads in an audit ----------------------------------------------------------------------------


@pytest.mark.parametrize("probe", LEARNERS, ids=lambda p: type(p).__name__)
def test_no_attacked_image_was_seen_in_training(probe) -> None:
    reps, labels = blobs()
    attacked = 60
    head = head_of(Labelled(reps, labels, attacked), probe)
    poisoned, wrong = reps.clone(), labels.clone()
    poisoned[:attacked], wrong[:attacked] = 0, labels[:attacked].roll(1)
    assert torch.equal(head_of(Labelled(poisoned, wrong, attacked), probe).weights, head.weights)
    poisoned[attacked] += 100
    assert not torch.equal(head_of(Labelled(poisoned, wrong, attacked), probe).weights, head.weights)


def test_an_audit_that_leaves_too_few_images_or_has_no_labels(tmp_path: Path) -> None:
    reps, labels = blobs()
    with pytest.raises(Missing, match="labels"):
        head_of(Labelled(reps, None, 10), Linear())
    with pytest.raises(NotEnough, match="4 of 120"):
        head_of(Labelled(reps, labels, 116), Linear())
    with pytest.raises(NotEnough, match="0 of 120"):
        head_of(Labelled(reps, labels, 120), Linear())
    stored = Trained(file(tmp_path, weight=torch.ones(3, 5), classes=torch.tensor([10, 20, 30])))
    assert head_of(Labelled(reps, labels, 120), stored).weights.shape == (3, 5)


def test_digits_are_told_apart() -> None:
    images = ImageSet(Digits())
    assert images.labels is not None
    encoder = open_encoder("zoo:digits-simclr")
    with torch.no_grad():
        reps = encoder(images.batch(0, len(images)))
    labels = torch.tensor(images.labels)
    head = head_of(Labelled(reps, labels, 200), Linear())
    assert head.correct(reps[:200], labels[:200]).double().mean() > 0.9


def test_the_authors_head(shared: Path) -> None:
    """The last matrix of their classifier, on their encoder, reads MNIST."""
    folder = shared / "data" / "encoders"
    encoder = open_encoder(f"file:{folder}/mnist_cnn_a_eps0.safetensors?arch=cnn_a_mnist&mean=0&std=1")
    with np.load(shared / "data" / "mnist_test.npz") as held:
        x = torch.from_numpy(held["images"][:300]).float().div(255)[:, None]
        labels = torch.from_numpy(held["labels"][:300])
    with torch.no_grad():
        reps = encoder(x)
    head = Trained(f"{folder}/mnist_cnn_a_eps0_linear.safetensors", "last").fit(reps, labels)
    assert head.correct(reps, labels).double().mean() > 0.95
