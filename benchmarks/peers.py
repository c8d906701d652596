"""PGD of foolbox and of ART, made to pursue Holdfast's untargeted objective; extra `bench`."""

from collections.abc import Callable
from contextlib import redirect_stdout
from io import StringIO

import torch
from torch import Tensor, nn
from torch.nn.modules.loss import _Loss


def foolbox_pgd(network: nn.Module, x: Tensor, clean: Tensor, steps: int, radius: float) -> Callable[[], object]:
    """Return foolbox's LinfPGD on ||f(x') - f(x)||², to be called.

    Raises:
        ImportError: foolbox is not installed.
    """
    from eagerpy.astensor import astensor
    from eagerpy.tensor.tensor import Tensor as AnyTensor
    from foolbox.attacks import LinfPGD
    from foolbox.criteria import Misclassification
    from foolbox.models.base import Model
    from foolbox.models.pytorch import PyTorchModel

    class Drift(LinfPGD):
        def get_loss_fn(self, model: Model, labels: AnyTensor) -> Callable[[AnyTensor], AnyTensor]:
            reference = astensor(clean)
            return lambda images: (model(images) - reference).square().sum()

    model = PyTorchModel(network, bounds=(0, 1), device="cpu")
    labels = torch.zeros(len(x), dtype=torch.long)
    attack = Drift(steps=steps)
    return lambda: attack.run(model, x, Misclassification(labels), epsilon=radius)


def art_pgd(network: nn.Module, x: Tensor, clean: Tensor, steps: int, radius: float) -> Callable[[], object]:
    """Return ART's ProjectedGradientDescentPyTorch on ||f(x') - f(x)||², to be called.

    Raises:
        ImportError: adversarial-robustness-toolbox is not installed.
    """
    from art.attacks.evasion import ProjectedGradientDescentPyTorch
    from art.estimators.classification import PyTorchClassifier

    class Drift(_Loss):
        def forward(self, reps: Tensor, reference: Tensor) -> Tensor:
            return (reps - reference).square().sum()

    with redirect_stdout(StringIO()):
        estimator = PyTorchClassifier(
            network,
            loss=Drift(reduction="sum"),
            input_shape=tuple(x.shape[1:]),
            nb_classes=clean.shape[1],
            clip_values=(0.0, 1.0),
            device_type="cpu",
        )
        attack = ProjectedGradientDescentPyTorch(
            estimator,
            eps=radius,
            eps_step=2.5 * radius / steps,
            max_iter=steps,
            num_random_init=1,
            batch_size=len(x),
            verbose=False,
        )
    images, reference = x.numpy(), clean.numpy()
    return lambda: attack.generate(images, reference)


PEERS: dict[str, Callable[[nn.Module, Tensor, Tensor, int, float], Callable[[], object]]] = {
    "foolbox": foolbox_pgd,
    "ART": art_pgd,
}
"""Name of a peer -> what makes its attack."""
