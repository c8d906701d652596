"""PGD of four libraries on one classifier from the same point, and AutoAttack on a linear head."""

from collections.abc import Callable
from contextlib import redirect_stdout
from io import StringIO

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.libraries.work import Work
from holdfast.core import Encoder, Rng, Shard
from holdfast.parts.attacks.pgd import Pgd
from holdfast.parts.objectives.cross_entropy import CrossEntropy
from holdfast.parts.observations.fooled import NEVER, Fooled
from holdfast.parts.probes.linear import Linear
from holdfast.parts.probes.logits import Logits
from holdfast.parts.threats.linf import Linf
from holdfast.sources.data.digits import Digits, train_images
from holdfast.sources.encoders import open_encoder

BATCH, STEPS, RADIUS, STEP = 64, 20, 8 / 255, 2 / 255
DIGITS, WEAK = 200, 0.1
"""Images and ε of AutoAttack."""


def classifier() -> tuple[nn.Module, Tensor, Tensor]:
    """Return a frozen ResNet-20 with a head, both of random weights, images, and the classes that it gives them."""
    torch.manual_seed(0)
    network = nn.Sequential(open_encoder("zoo:resnet20_32").module, nn.Linear(64, 10)).requires_grad_(False).eval()
    x = torch.rand(BATCH, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    return network, x, network(x).argmax(1)


def pgd(library: str, make: Callable[[nn.Module, Tensor, Tensor], Callable[[], Tensor]]) -> Work:
    """Return PGD of cross-entropy from x itself with so many steps of one size, the last iterate."""
    network, x, labels = classifier()
    theirs = make(network, x, labels)
    encoder = Encoder(network, mean=0.0, std=1.0, name="classifier")
    rng = Rng(0, ids=tuple(str(number) for number in range(BATCH)))
    attack = Pgd(STEPS, STEP, start="nudge", keep="last")

    def ours() -> Tensor:
        goal = CrossEntropy().pursue(encoder, network(x), F.one_hot(labels, 10).float())
        return attack(goal, x, Linf(RADIUS), rng).images[STEPS]

    def apart(mine: Tensor, other: Tensor) -> float:
        reached = [float(F.cross_entropy(network(images), labels)) for images in (mine, other)]
        return abs(reached[0] / reached[1] - 1)

    what = f"PGD of {STEPS} steps, ResNet-20, {BATCH} images of 32 x 32"
    return Work(library, what, ours, theirs, apart, "difference of the loss reached", "", 1e-4)


def foolbox() -> Work:
    """Return foolbox's LinfPGD."""

    def make(network: nn.Module, x: Tensor, labels: Tensor) -> Callable[[], Tensor]:
        from foolbox.attacks import LinfPGD
        from foolbox.criteria import Misclassification
        from foolbox.models.pytorch import PyTorchModel

        model = PyTorchModel(network, bounds=(0, 1), device="cpu")
        attack = LinfPGD(steps=STEPS, abs_stepsize=STEP, random_start=False)
        return lambda: attack.run(model, x, Misclassification(labels), epsilon=RADIUS)

    return pgd("foolbox", make)


def art() -> Work:
    """Return ART's ProjectedGradientDescentPyTorch."""

    def make(network: nn.Module, x: Tensor, labels: Tensor) -> Callable[[], Tensor]:
        from art.attacks.evasion import ProjectedGradientDescentPyTorch
        from art.estimators.classification import PyTorchClassifier

        with redirect_stdout(StringIO()):
            model = PyTorchClassifier(
                network,
                loss=nn.CrossEntropyLoss(),
                input_shape=tuple(x.shape[1:]),
                nb_classes=10,
                clip_values=(0.0, 1.0),
                device_type="cpu",
            )
            attack = ProjectedGradientDescentPyTorch(
                model, eps=RADIUS, eps_step=STEP, max_iter=STEPS, batch_size=BATCH, verbose=False
            )
        images, classes = x.numpy(), labels.numpy()
        return lambda: torch.from_numpy(attack.generate(images, classes))

    return pgd("adversarial-robustness-toolbox", make)


def torchattacks() -> Work:
    """Return torchattacks' PGD."""

    def make(network: nn.Module, x: Tensor, labels: Tensor) -> Callable[[], Tensor]:
        from torchattacks import PGD

        attack = PGD(network, eps=RADIUS, alpha=STEP, steps=STEPS, random_start=False)
        return lambda: attack(x, labels)

    return pgd("torchattacks", make)


def captum() -> Work:
    """Return captum's PGD."""

    def make(network: nn.Module, x: Tensor, labels: Tensor) -> Callable[[], Tensor]:
        from captum.robust import PGD

        attack = PGD(network, nn.CrossEntropyLoss(reduction="none"), lower_bound=0.0, upper_bound=1.0)
        return lambda: attack.perturb(x, radius=RADIUS, step_size=STEP, step_num=STEPS, target=labels).detach()

    return pgd("captum", make)


def autoattack() -> Work:
    """Return AutoAttack's robust accuracy of a linear head on digits, beside our ensemble's."""
    from pyautoattack import AutoAttack

    encoder = open_encoder("zoo:digits-simclr")
    with torch.no_grad():
        images, classes = train_images()
        head = Linear().fit(encoder(images), classes)
    last = nn.Linear(head.weights.shape[1], len(head.classes))
    last.weight.data, last.bias.data = head.weights.float(), head.bias.float()
    network = nn.Sequential(encoder.module, last).requires_grad_(False).eval()
    source = Digits()
    x = torch.stack([source.load(index) for index in range(DIGITS)])
    labels = torch.tensor([source.label(index) for index in range(DIGITS)])
    logits = network(x)
    ensemble = Fooled(ball=Linf(WEAK), probe=Logits())
    shard = Shard(
        Encoder(network, mean=0.0, std=1.0, name="classifier"),
        x,
        torch.arange(DIGITS),
        Rng(0, ids=tuple(str(number) for number in range(DIGITS))),
        logits,
        labels=labels,
        head=lambda probe, *_: probe.fit(logits, labels),
    )

    def ours() -> float:
        return float((ensemble.run(shard)["broken_by"] == NEVER).double().mean())

    def theirs() -> float:
        attack = AutoAttack(network, eps=WEAK, seed=0)
        attack.verbose = False
        moved = attack.run_standard_evaluation(x, labels, batch_size=DIGITS)
        moved = moved[0] if isinstance(moved, tuple) else moved
        return float((network(moved).argmax(1) == labels).double().mean())

    what = f"robust accuracy of a linear head, {DIGITS} digits, ℓ∞ {WEAK:g}"
    return Work("pyautoattack", what, ours, theirs, lambda a, b: a - b, "our accuracy less its", "", 0.005)


WORKS = {
    "foolbox": foolbox,
    "ART": art,
    "torchattacks": torchattacks,
    "captum": captum,
    "AutoAttack": autoattack,
}
