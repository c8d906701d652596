"""Wang et al. (2025), "Non-Parametric Probabilistic Robustness"."""

from functools import cache

import numpy as np
import torch
from torch import Tensor

from benchmarks.same import inputs
from benchmarks.same.by_hand import nppr as by_hand
from benchmarks.same.comparison import ByHand, Comparison, Published
from benchmarks.same.observed import Observed
from holdfast.numerics.statistics.entropy import entropy_ratio
from holdfast.parts.estimators.counting import Counting
from holdfast.parts.learners.shared.schedule import authors_heat
from holdfast.parts.learners.shared.step import Draw, sample_relaxed
from holdfast.parts.learners.worst_mixture import WorstMixture
from holdfast.parts.measures.probabilistic.adversarial_robustness import AdversarialRobustness
from holdfast.parts.measures.probabilistic.probabilistic_robustness import ProbabilisticRobustness
from holdfast.parts.objectives.class_margin import ahead
from holdfast.parts.threats.linf import Linf
from holdfast.parts.threats.shared.generator import Design, Gaussians, Generator, Outputs
from holdfast.parts.threats.shared.upsampler import Upsampler, bicubic

PAPER = "NPPR"


def mixture() -> Gaussians:
    """Return the mixtures of `inputs.py`."""
    given = inputs.mixture()
    roots = given["L"]
    return Gaussians(given["pi_logits"], given["mu"], roots.diagonal(dim1=-2, dim2=-1), roots.tril(-1))


def zeta() -> Tensor:
    """Return normal numbers of seven draws for six images, [7, 6, 10]."""
    return inputs.single(inputs.normal(33, 7, 6, 1, 10))[:, :, 0]


def gumbel() -> Tensor:
    """Return Gumbel noise of the choice of a component, [7, 6, 3]."""
    return -(-inputs.single(inputs.uniform(32, 7, 6, 3)).log()).log()


def drawn() -> Tensor:
    """Return relaxed draws, [7, 6, 10]."""
    numbers = Draw(gumbel().transpose(0, 1), zeta().transpose(0, 1))
    return sample_relaxed(mixture(), numbers, 0.4).transpose(0, 1)


def plain() -> dict[str, np.ndarray]:
    """Return the mixtures in float64."""
    return {name: value.double().numpy() for name, value in inputs.mixture().items()}


def drawn_by_hand() -> np.ndarray:
    """Return the same by hand."""
    given, noise = plain(), gumbel().transpose(0, 1).double().numpy()
    weights = by_hand.relaxed(given["pi_logits"], noise, 0.4)
    rows = by_hand.blended(weights, given["mu"], given["L"], zeta().transpose(0, 1).double().numpy())
    return rows.swapaxes(0, 1)


def choice() -> Tensor:
    """Return normal numbers that choose components, [6, 50]."""
    return inputs.single(inputs.normal(38, 6, 50))


def numbers() -> Tensor:
    """Return normal numbers of the latent vectors of these draws, [6, 50, 10]."""
    return inputs.single(inputs.normal(39, 6, 50, 10))


@cache
def outputs() -> Outputs:
    """Return what the authors' heads say by Holdfast's network, in the fourth of ten epochs of annealing."""
    given = inputs.heads()
    design = Design(
        (2, 12, 12), 5, 4, "labels", "joint", 3, 10, hidden=8, embedding=6, upsampler="learned", convention="authors"
    )
    network = Generator(design, torch.arange(4)).eval()
    ours = network.state_dict()
    names = {
        "pi": "logits", "mu": "means", "shared_trunk": "trunk", "y_emb": "embedding",
    }  # fmt: skip
    for name, value in given.items():
        first, _, rest = name.partition(".")
        if first in names and f"{names[first]}.{rest}" in ours:
            ours[f"{names[first]}.{rest}"] = value
    network.load_state_dict(ours)
    with torch.no_grad():
        return network.outputs(
            inputs.single(inputs.normal(31, 6, 5)), torch.tensor([0, 1, 2, 3, 0, 1]), authors_heat(4, 10)
        )


def temperatures() -> list[float]:
    """Return the factors of π, μ, covariances and the hidden layer in five epochs."""
    rows = [authors_heat(epoch, 10) for epoch in (1, 4, 9, 10, 30)]
    return [one for heat in rows for one in (1 / heat.weights, 1 / heat.means, heat.spread**2, 1 / heat.trunk)]


def picture() -> Tensor:
    """Return what the up-sampler makes of three latent vectors."""
    given, sampler = inputs.heads(), Upsampler("learned", 10, (2, 12, 12), 4)
    sampler.load_state_dict({"weight": given["up"], "bias": given["up bias"]})
    return sampler(inputs.single(inputs.normal(35, 3, 10)))


def logits() -> tuple[Tensor, Tensor]:
    """Return logits of 32 draws for six images, and their classes."""
    return inputs.single(inputs.normal(37, 32, 6, 4)), torch.tensor([0, 1, 2, 3, 0, 1])


def loss() -> float:
    """Return the loss of the learner, κ = 1."""
    rows, labels = logits()
    target = torch.nn.functional.one_hot(labels, 4).float()
    values = torch.stack([ahead(row, row, target, 0) for row in rows])
    return float(WorstMixture(loss="softplus", kappa=1.0)._loss(values).mean())


def guesses() -> Tensor:
    """Return which of 50 draws of eight images a classifier gets wrong, [8, 50]."""
    return torch.from_numpy(np.random.RandomState(36).randint(0, 3, (50, 8)) != np.arange(8) % 3).T


def held() -> Tensor:
    """Return the share of draws that hold, for each image."""
    measure = ProbabilisticRobustness(estimator=Counting(50))
    seen = {f"{measure.failure}.failed": guesses().to(torch.int8), f"{measure.failure}.wrong": torch.zeros(8)}
    return measure.observe(Observed(torch.zeros(8, 2), lambda _: seen))["held"]


def found() -> np.ndarray:
    """Return how far an attack got with nine images: above 0 they fail."""
    return inputs.normal(45, 9)


def robust() -> float:
    """Return AR of these."""
    measure = AdversarialRobustness()
    seen = {"value": torch.from_numpy(found()), "wrong": torch.zeros(9, dtype=torch.float64)}
    table = measure.observe(Observed(torch.zeros(9, 2), lambda _: seen))
    return float(measure.score(table)["images that hold"].value or 0)


COMPARISONS = (
    Comparison(
        "Definition 1: AR", "`adversarial_robustness`",
        ByHand(lambda: float(np.mean(found() <= 0)), "a mean"), "9 images, given results of an attack", 1e-12, robust,
    ),
    Comparison(
        "Definition 2: PR of each image", "`probabilistic_robustness`", Published("nppr", "PR",
        "`src/gmm4pr.py`, `compute_pr`"),
        "8 images, 50 given draws", 1e-6, held,
    ),
    Comparison(
        "Definition 2: PR of each image", "`probabilistic_robustness`",
        ByHand(lambda: by_hand.robustness(guesses().numpy()), "a mean"), "8 images, 50 given draws", 1e-12, held,
    ),
    Comparison(
        "Section 4, Fig. 3: weights of the mixture from the class", "learner `worst_mixture`, `convention=authors`",
        Published("nppr", "logits", "`src/gmm4pr.py`"), "6 images, given weights, temperatures of epoch 4 of 10", 1e-6,
        lambda: outputs().logits,
    ),
    Comparison(
        "Section 4, Fig. 3: means from the representation", "learner `worst_mixture`, `convention=authors`",
        Published("nppr", "means", "`src/gmm4pr.py`"), "6 images, given weights, temperatures of epoch 4 of 10", 2e-6,
        lambda: outputs().means,
    ),
    Comparison(
        "Eq. 11: loss of a draw, κ = 1", "learner `worst_mixture`, `loss=softplus`",
        Published("nppr", "loss", "`src/gmm4pr.py`, `pr_loss`"), "32 draws of 6 images, 4 classes", 1e-6, loss,
    ),
    Comparison(
        "Eq. 11: loss of a draw, κ = 1", "learner `worst_mixture`, `loss=softplus`",
        ByHand(lambda: by_hand.softplus_margin(logits()[0].double().numpy(), logits()[1].numpy(), 1), "a loop"),
        "32 draws of 6 images, 4 classes", 1e-6, loss,
    ),
    Comparison(
        "Eq. 12: the component that is drawn", "noise `mixture`",
        ByHand(lambda: by_hand.chosen(plain()["pi_logits"], choice().numpy()), "cumulated weights"),
        "50 draws of 6 images, the same normal numbers", 0, lambda: mixture().choose(choice()).argmax(-1),
    ),
    Comparison(
        "Eq. 13: a draw of the mixture", "noise `mixture`",
        ByHand(
            lambda: by_hand.drawn(
                plain()["mu"], plain()["L"], by_hand.chosen(plain()["pi_logits"], choice().numpy()),
                numbers().double().numpy()
            ),
            "means and roots one by one",
        ),
        "50 draws of 6 images, full covariances", 1e-6, lambda: mixture().mix(mixture().choose(choice()), numbers()),
    ),
    Comparison(
        "Eq. 47 to 50: relaxed draws", "learner `worst_mixture`",
        Published("nppr", "draws", "`src/gmm4pr.py`, `_rsample_from_gmm`"),
        "7 draws of 6 images, full covariances; they draw ζ anew for each component, here it is the same for all",
        2e-6, drawn,
    ),
    Comparison(
        "Eq. 47 to 50: relaxed draws", "learner `worst_mixture`", ByHand(drawn_by_hand, "sums over components"),
        "7 draws of 6 images, full covariances", 2e-6, drawn,
    ),
    Comparison(
        "Eq. 44 and 45: linear map and bicubic interpolation", "`worst_mixture`, `upsampler=learned`",
        Published("nppr", "picture", "`src/gmm4pr.py`, `build_decoder_from_flag`"),
        "3 pictures of 2 x 12 x 12 from 10 numbers",
        2e-6, picture,
    ),
    Comparison(
        "Eq. 44 and 45: bicubic interpolation", "`worst_mixture`, `upsampler=bicubic`",
        ByHand(
            lambda: by_hand.upsampled(inputs.normal(44, 3, 4, 4), 11),
            "the cubic kernel with a = -.75, torch's; the paper names no a",
        ),
        "3 pictures of 4 x 4 to 11 x 11", 1e-6,
        lambda: bicubic(4, 11).mT.double() @ torch.from_numpy(inputs.normal(44, 3, 4, 4)) @ bicubic(4, 11).double(),
    ),
    Comparison(
        "Section 4: perturbations brought into the ℓ∞ ball", "ball `linf`, `squash`",
        Published("nppr", "in the ball", "`src/gmm4pr.py`, `_project_to_budget`"), "2 pictures of 4 x 4, ε = 8/255",
        1e-6,
        lambda: Linf(8 / 255).squash(inputs.single(inputs.normal(34, 2, 1, 4, 4))),
    ),
    Comparison(
        "Table 4: temperatures", "learner `worst_mixture`, `convention=authors`",
        Published("nppr", "temperatures", "`configs/train_gmm_cfg.py`"), "epochs 1, 4, 9, 10 and 30 of 10", 1e-12,
        temperatures,
    ),
    Comparison(
        "Eq. 51: entropy ratio, mean", "`worst_noise_robustness`",
        Published("nppr", "1 - entropy ratio", "`src/gmm4pr.py`, `compute_regularization`", lambda value: 1 - value),
        "6 images, 3 components; they penalise 1 less the ratio", 1e-6,
        lambda: float(entropy_ratio(mixture().weights).mean()),
    ),
    Comparison(
        "Eq. 51: entropy ratio", "`worst_noise_robustness`",
        ByHand(lambda: by_hand.entropy_ratio(np.exp(plain()["pi_logits"])), "SciPy's entropy"),
        "6 images, 3 components", 1e-6,
        lambda: entropy_ratio(mixture().weights),
    ),
)  # fmt: skip
