"""Robust probe: what a linear head gains that was learned on attacked images, clean, corrupted and attacked."""

from dataclasses import dataclass, replace
from typing import Literal

import torch

from holdfast.core import (
    Attack,
    Ball,
    LinearProbe,
    Measure,
    Objective,
    Observation,
    Score,
    Search,
    Subject,
    Table,
    Threat,
)
from holdfast.core.observation import learning_of
from holdfast.numerics.geometry.invariance import AXES
from holdfast.numerics.statistics.statistic import Difference, Fixed, Share, Statistic
from holdfast.parts.attacks.pgd import Pgd
from holdfast.parts.measures.shared.disturbed import SIX, index_by_title
from holdfast.parts.measures.shared.probe import head_of, labels_of
from holdfast.parts.objectives.cross_entropy import CrossEntropy
from holdfast.parts.observations.clean import Clean
from holdfast.parts.observations.fooled import WRONG, Fooled
from holdfast.parts.observations.represented import Represented
from holdfast.parts.observations.training import Training
from holdfast.parts.probes.linear import Linear
from holdfast.parts.probes.robust_linear import RobustLinear
from holdfast.parts.threats.l2 import L2
from holdfast.runtime.checked import Count

HEADS = ("standard", "robust")


@dataclass(frozen=True)
class RobustProbe(Measure):
    """Acc(robust head) - Acc(standard head), the mean of clean and corrupted accuracy, on the same images.

    Also apart: accuracy on clean images, on corrupted ones (the mean over corruptions), and under attacks, each head
    attacked for itself; and the share of rightly classified images that the attacks turn.

    Table, one row per image and for each HEAD (standard, robust): `right@HEAD`, on the clean image; `TITLE@HEAD`, under
    each corruption, and `corrupted@HEAD`, their mean; `attacked@HEAD`, whether no attack turned it; `turned@HEAD`, 1 or
    0 where the head is right without attack, else NaN; `both@HEAD`, the mean of right and corrupted; `gain`, how much
    more of it the robust head has; `radius`, at which that was learned, and `kept`, 1 where it is the standard head.

    Attributes:
        standard: how the head comes about that is compared with.
        robust: the head that minimises its loss on attacked images.
        threats: the corruptions, one after the other; of a noise, one draw for each image.
        ball: where tested images are attacked, in pixels of the encoder's input.
        attacks: on either head, one after the other, see `robust_accuracy`.
        objectives: what each attack maximises, a function of the logits.
        first: how many images are tested; None: all that the audit attacks.
    """

    invariant = AXES

    standard: LinearProbe = Linear()
    robust: RobustLinear = RobustLinear()
    threats: tuple[Threat, ...] = SIX
    ball: Ball = L2(0.25)
    attacks: tuple[Attack, ...] = (Pgd(20),)
    objectives: tuple[Objective, ...] = (CrossEntropy(),)
    first: Count | None = None

    reads_labels = True
    better = "higher"
    unit = "share"
    question = (
        "How much accuracy does a linear head gain, on clean and on corrupted images, when it is trained on attacked "
        "images?"
    )
    how_to_read = (
        "Both heads use the same encoder. The robust head is trained on images attacked through the encoder by up to "
        "ε, in pixels of the input. Above 0 it is more accurate than the standard head, averaged over clean and "
        "corrupted images. Both are tested on the same images; each is attacked separately."
    )
    reference = "Ko et al. (2022), Tables 3, 7 and 9 (robust linear probing)"

    def __post_init__(self) -> None:
        index_by_title(self, self.threats)
        self.attack_outcomes["robust"].key()  # refuses attacks and objectives that do not go together

    @property
    def probes(self) -> dict[str, LinearProbe]:
        """Both probes by their names."""
        return dict(zip(HEADS, (self.standard, self.robust), strict=True))

    @property
    def attack_outcomes(self) -> dict[str, Fooled]:
        """What the attacks on each head did."""
        return {
            name: Fooled(self.attacks, self.objectives, self.ball, probe, first=self.first)
            for name, probe in self.probes.items()
        }

    @property
    def representations(self) -> dict[str, Represented]:
        """The corrupted images that it reads, by the title of their corruption."""
        return {
            title: Represented(threat=t, first=self.first) for title, t in index_by_title(self, self.threats).items()
        }

    @property
    def column(self) -> str:
        """What the robust head gains on each image."""
        return "gain"

    def observations(self) -> tuple[Observation, ...]:
        """Representations of tested and of training images, clean and corrupted, and attacks."""
        return Clean(), *self.representations.values(), Training(), *self.attack_outcomes.values()

    def relies_on(self, score: str) -> tuple[Search, ...]:
        """Return the searches for what is about attacked images."""
        return super().relies_on(score) if score.startswith(("attacked", "turned")) else ()

    def if_weak(self, score: str) -> Literal["at least", "at most", "void"]:
        """A stronger attack turns more images; what is gained could be more or less."""
        if score.endswith(("gain", "change")):
            return "void"
        return "at least" if score.startswith("turned") else "at most"

    def observe(self, subject: Subject) -> Table:
        """Return whether each head is right on every image, clean, corrupted and attacked."""
        # each head on the same images: clean, under each corruption and on average, attacked
        count = subject.attacked if self.first is None else min(self.first, subject.attacked)
        labels, clean = labels_of(subject)[:count], Clean.of(subject)[:count]
        table: Table = {}
        for name, probe in self.probes.items():
            head = head_of(subject, probe)
            right = (head.ranks(clean, labels) == 0).double()
            under = {
                title: (head.ranks(subject.read(observation)["reps"], labels) == 0).double()
                for title, observation in self.representations.items()
            }
            # Each head is attacked for itself: attacks made on the other one would flatter it
            broken_by = subject.read(self.attack_outcomes[name])["broken_by"]
            corrupted = torch.stack(list(under.values())).mean(0)
            table |= {f"right@{name}": right} | {f"{title}@{name}": hits for title, hits in under.items()}
            table |= {f"corrupted@{name}": corrupted, f"attacked@{name}": (broken_by == -1).double()}
            # Of images that the head had right; the others could not be turned
            turned = (broken_by >= 0).double()
            turned[broken_by == WRONG] = torch.nan
            table |= {f"turned@{name}": turned, f"both@{name}": (right + corrupted) / 2}
        # how the robust head was learned: its ε, and whether it is the standard head after all
        course = subject.read(learning_of(self.robust))
        kept = not len(course["loss"]) or int(course["loss"].argmin()) == 0
        table |= {"radius": torch.full((count,), float(course["radius"]), dtype=torch.float64)}
        table |= {"kept": torch.full_like(table["radius"], float(kept))}
        return table | {"gain": table["both@robust"] - table["both@standard"]}

    def reduce(self, table: Table) -> dict[str, Statistic]:
        """Return both heads' accuracies and the gain, clean, corrupted and attacked, and of clean and corrupted."""
        radius, note = float(table["radius"][0]), ""
        if table["kept"][0] > 0:
            same = "the robust head is the standard one"
            note = f"{same}: ε is 0" if radius == 0 else f"{same}: no other lost less to the attacks on it"
        at = Score(
            radius, None, None, len(table["gain"]), "none: what the head was learned at", note=note, unit="pixels"
        )
        reduced: dict[str, Statistic] = {"ε of the robust head": Fixed(at).say(better="neither")}

        def tell(gain: Score) -> Score:
            return replace(gain, note="; ".join(filter(None, [note, gain.note])))

        copies = {"right": "clean", "corrupted": "corrupted", "attacked": "attacked", "turned": "turned by attacks"}
        for column, title in (copies | {"both": "clean and corrupted"}).items():
            both = {name: self._share(table, column, name) for name in HEADS}
            if column == "turned":
                both = {name: share.say(better="lower") for name, share in both.items()}
            # Both heads judge the same images, so their errors are correlated and
            # the difference is known better
            gain = Difference(both["robust"], both["standard"]).restate(tell)
            gain = gain.say(better="lower") if column == "turned" else gain
            reduced |= {f"{title}, {name}": share for name, share in both.items()}
            reduced[f"{title}, {'change' if column == 'turned' else 'gain'}"] = gain
        return reduced

    def _share(self, table: Table, column: str, name: str) -> Statistic:
        """Return the mean of a column; the corrupted versions of one image, and the image itself, are a cluster."""
        titles = [f"{title}@{name}" for title in self.representations]
        # The clean image counts as often as all corrupted ones, so that
        # `both` is the mean of the two means
        columns = {"corrupted": titles, "both": titles + [f"right@{name}"] * len(titles)}.get(column)
        if columns is None:
            return Share(table[f"{column}@{name}"], condition="given the head")
        # All versions of one image are one unit
        units = torch.arange(len(table["gain"])).repeat(len(columns))
        return Share(torch.cat([table[title] for title in columns]), units, "given the head")
