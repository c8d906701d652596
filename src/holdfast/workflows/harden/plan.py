"""What is hardened, against what, and for how long; and the training that this asks for."""

import shlex
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from typing import NamedTuple

from holdfast.auditing.balls import audit_ball, shape_of
from holdfast.config.part_syntax import part_table
from holdfast.core import Attack, Ball, Method, Objective, registry
from holdfast.numerics.geometry.views import Views
from holdfast.runtime.doors import read_bytes
from holdfast.runtime.durations import seconds
from holdfast.runtime.errors import BadData, BadValue, Missing, first_line, unknown
from holdfast.runtime.option import fields_of
from holdfast.sources.data import ImageSet
from holdfast.storage.documents import parse_json
from holdfast.training.adversary import Adversary
from holdfast.training.certified import Certified
from holdfast.training.lora import Lora
from holdfast.training.optimiser import Optimiser
from holdfast.training.pace import Pace
from holdfast.training.recipe import Recipe
from holdfast.workflows.harden.rate import RATES
from holdfast.workflows.harden.request import HardenRequest

ATTACKS: dict[str, Objective | None] = {
    "untargeted": registry.part("objectives", "untargeted"),
    "targeted": registry.part("objectives", "targeted"),
    "loss": None,
}
"""What an adversary may maximise; None: the training loss itself."""


class Choice(NamedTuple):
    """What an objective of a hardening consists of.

    Attributes:
        method: what the encoder learns.
        attack: what the adversary maximises, where nobody says.
        clean: weight of the loss of images that are not attacked, beside 1 of those that are.
        views: augmentation, where nobody says.
    """

    method: str
    attack: str = "untargeted"
    clean: float = 1.0
    views: str = "full"


OBJECTIVES = {
    "auto": Choice("self_distillation", views="light"),
    "fare": Choice("self_distillation", views="light", clean=0.0),
    "tecoa": Choice("tecoa", views="light", clean=0.0, attack="loss"),
}
"""Objectives that are more than a method: that of Holdfast, and those of papers.

fare: min E max ‖f(x') - f_0(x)‖², Eq. 3 and 4 of Schlarmann et al. (2024), "Robust CLIP", arXiv 2402.12336; tecoa: see
the method.
"""

VIEWS = {
    "none": Views(crop=(1.0, 1.0), flip=0.0, colour=0.0, colour_share=0.0, grey=0.0),
    "light": Views(crop=(0.7, 1.0), colour=0.0, colour_share=0.0, grey=0.0),
    "full": Views(),
}
"""How images are augmented: not at all; by large crops and mirror images; as contrastive methods need it."""

WARMUP = 0.1
"""Share of the training in which the rate rises: Adam's first steps move every weight by the whole of it."""

LONGEST = 0.5
"""Longest step of the attack, in units of ε."""

RECORD = "harden.json"
"""What came of a hardening, in its run folder."""


@dataclass(frozen=True)
class Hardening(HardenRequest):
    """What is hardened, against what, and for how long; see `HardenRequest` for what is asked.

    Without an attack, the adversary maximises what the objective's `Choice` says, and the images are augmented as it
    says. Without a rate it is the largest that is borne, see `losses`, or .01 for objectives that forget what was
    before; it is that of Adam in units of each tensor's root mean square, rises for a tenth of the steps or of the
    time, then falls to 0 along a cosine.

    Attributes:
        pace: of a hardening that followed the clock, to do it again in as many steps, see `Pace`.
    """

    _: KW_ONLY
    pace: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for field, value, choices in (
            ("attack of a hardening", self.attack or "loss", ATTACKS),
            ("views of a hardening", self.views or "light", VIEWS),
            ("objective", self.objective_name, {*OBJECTIVES, *registry.names("methods")}),
        ):
            if value not in choices:
                raise unknown(field, value, choices)
        if not self.seconds > 0:
            raise BadValue(f"budget: expected a time above 0, got {self.seconds:g} s; for example 30m")
        if self.head is not None and not Path(self.head).is_file():
            raise Missing(f"head: expected a .safetensors or .onnx file, got {self.head!r}; check the path")
        if self.patience == 0 or self.attack_steps == 0 or self.attack_step == 0:
            raise BadValue(
                f"hardening: expected patience, attack_steps and attack_step above 0, got {self.patience}, "
                f"{self.attack_steps} and {self.attack_step}"
            )
        self.recipe()  # raises now what it refuses
        if self.pace or self.steps is not None:
            Pace(self.steps, marks=self.pace)

    @property
    def seconds(self) -> float:
        """The time that the training takes, by the clock; the audits come on top."""
        return seconds(self.budget) if isinstance(self.budget, str) else self.budget

    def ball(self) -> Ball:
        """Return the ball; without ε, the one that is usual for images of which nothing is known."""
        return audit_ball(self.norm, self.eps, lambda: None)

    def in_ball(self, images: ImageSet) -> "Hardening":
        """Return the same with an ε: its own, or the one that is usual for the images that it learns from."""
        return replace(self, eps=audit_ball(self.norm, self.eps, lambda: shape_of(images)).radius)

    @property
    def objective_name(self) -> str:
        """The name of its objective, without parameters."""
        return part_table(self.objective)["name"]

    @property
    def choice(self) -> Choice:
        """What its objective consists of."""
        return OBJECTIVES.get(self.objective_name, Choice(self.objective_name))

    @property
    def remembers(self) -> bool:
        """Whether its loss knows the representations from before, and so tells when they are lost."""
        return self.choice.method == "self_distillation" and "teacher" not in part_table(self.objective)

    def method(self) -> Method:
        """Return what the encoder learns."""
        return registry.build({**part_table(self.objective), "kind": "methods", "name": self.choice.method})

    def attack_of_training(self) -> Attack:
        """Return PGD from a random point.

        Three steps that reach every edge of the ball from every start, .83 ε each, are so coarse that networks learn to
        beat them instead of the ball; steps of half of ε cost the same.
        """
        steps, radius = self.attack_steps, self.ball().radius
        size = self.attack_step or min(LONGEST, 2.5 / steps) * radius
        return registry.part("attacks", "pgd", steps=steps, step_size=size, keep="last")

    def recipe(self) -> Recipe:
        """Return the recipe of the training; without steps, its pace says how long it is."""
        maximised = ATTACKS[self.attack or self.choice.attack]
        adversary = Adversary(self.ball(), self.attack_of_training(), maximised, clean=self.choice.clean)
        certified = None
        if self.certified is not None:  # a bound of all images of the ball, in place of the worst that is found
            certifier = registry.build({**part_table(self.certified), "kind": "certifiers"})
            certified = Certified(self.ball(), certifier, self.choice.clean)
        return Recipe(
            self.encoder,
            self.data,
            self.method(),
            seed=self.seed,
            steps=self.steps,
            batch_size=self.batch_size,
            views=VIEWS[self.views or self.choice.views],
            optimiser=Optimiser("adam", self.rate or RATES[0], weight_decay=0.0, warmup=WARMUP, scaled=True),
            adversary=None if certified else adversary,
            certified=certified,
            batchnorm=self.batchnorm,
            ema=self.ema,
            clip=self.clip,
            precision=self.precision,
            freeze=self.freeze,
            # α = 2 r, as is usual; a rate in units of the weights makes it immaterial
            lora=Lora(self.lora, self.lora_rank, 2.0 * self.lora_rank) if self.lora else None,
            device=self.device,
        )

    def command(self, folder: Path, clocked: bool = False) -> str:
        """Return the command that does exactly this again: in as many steps, at the pace of the folder's record."""
        apart = {"encoder", "budget"} | ({"steps"} if clocked else set())
        written = [field for field in fields_of(HardenRequest) if field.name not in apart]
        options = {f.name: value for f in written if (value := getattr(self, f.name)) != f.default}
        options |= {"pace": folder / RECORD} if clocked else {}
        # What is given several times is several options
        listed = {key: value if isinstance(value, tuple) else (value,) for key, value in options.items()}
        words = [w for key, each in listed.items() for one in each for w in (f"--{key.replace('_', '-')}", str(one))]
        return shlex.join(["holdfast", "harden", self.encoder, *words, "--out", str(folder)])


def read_pace(path: Path) -> tuple[int, tuple[int, ...]]:
    """Return the steps of a hardening and its pace, from its record."""
    try:
        record = parse_json(read_bytes(path))
        return int(record["steps"]), tuple(int(mark) for mark in record["pace"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadData(f"pace: expected the {RECORD} of a hardening, got {str(path)!r} ({first_line(error)})") from error
