"""Linear radius: how far an image is proved to keep its class, and how near it was found to lose it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch

from holdfast.core import Ball, Chart, LinearProbe, Observation, Score, Subject, Table
from holdfast.numerics.statistics.statistic import Mean, Share, Statistic
from holdfast.parts.certifiers.crown import Crown
from holdfast.parts.certifiers.shared.certifier import Propagation
from holdfast.parts.measures.shared.bracket import Bracket, in_order
from holdfast.parts.measures.shared.probe import head_of, labels_of
from holdfast.parts.measures.shared.reach import chart_certificates
from holdfast.parts.observations.clean import Clean
from holdfast.parts.observations.logit_radii import LogitRadii
from holdfast.parts.observations.minimal_radii import MinimalRadii
from holdfast.parts.observations.radii import Radii
from holdfast.parts.probes.linear import Linear
from holdfast.parts.threats.linf import Linf
from holdfast.runtime.errors import BadValue


@dataclass(frozen=True)
class LinearRadius(Bracket):
    """ACR_LE = mean over images of R, the largest ε with (e_y - e_j) · h(f(x')) > 0 for all j != y in the ε-ball.

    h is a linear head trained on images that are not certified. Images of another class than h says have R = 0 and
    count; the mean over correctly classified ones only, as in the paper, is a score of its own.

    Table, one row per image, radii in pixels: `attack`, `certificate`; `correct`, 1 where h is right without attack.

    Attributes:
        ball: the norm of the radius; its own radius is not read.
        probe: how the head comes about.
        convention: "sound" bounds the margins e_y - e_j; "paper" the logits one by one, lb_y > max_{j≠y} ub_j, which
            is looser (and as sound).
        steps: of the search for the smallest attack.
        tolerance: of the search for the certified radius, in pixels.
    """

    certifier: Propagation = Crown()
    ball: Ball = Linf()
    probe: LinearProbe = Linear()
    convention: Literal["sound", "paper"] = "sound"
    steps: int = 40
    tolerance: float = 1e-6

    condition = "given the head"
    most = None
    reads_labels = True
    better = "higher"
    unit = "pixels"
    question = "How far can an image move before a linear classifier on its representation changes its prediction?"
    how_to_read = (
        "No change smaller than the certified radius (pixels of a [0, 1] image, in the norm of the ball) changes the "
        "class; a change of the attack's size does. Compare it with the certified radius, which needs no labels and is "
        "larger."
    )
    reference = "Wang & Liu (2023), section 4.2 (ACR_LE) and Theorem 15"

    def __post_init__(self) -> None:
        if self.convention not in ("sound", "paper"):
            raise BadValue(f"linear_radius convention: expected 'sound' or 'paper', got {self.convention!r}")
        super().__post_init__()

    @property
    def certificate_side(self) -> Radii | LogitRadii:
        """The certificate's side."""
        if self.convention == "paper":
            return LogitRadii(self.certifier, self.ball, self.probe, first=self.first)
        return Radii(self.certifier, self.ball, self.tolerance, probe=self.probe, first=self.first)

    @property
    def attack_side(self) -> MinimalRadii:
        """The attack's side."""
        return MinimalRadii(self.ball, self.steps, probe=self.probe, first=self.first)

    def observations(self) -> tuple[Observation, ...]:
        """Clean representations, certified radii, smallest attacks."""
        return Clean(), self.certificate_side, self.attack_side

    def observe(self, subject: Subject) -> Table:
        """Return both radii of every image."""
        proved, attacked = subject.read(self.certificate_side)["radius"], subject.read(self.attack_side)["radius"][:, 0]
        # RVCL, Eq. 7: the radius against all classes is the least of those against each
        proved = proved if proved.ndim == 1 else proved.amin(1)
        in_order(subject.ids, proved, attacked, 1e-6)
        # Only the images that were certified
        reps, labels = Clean.of(subject)[: len(proved)], labels_of(subject)[: len(proved)]
        correct = head_of(subject, self.probe).correct(reps, labels)
        # Where no attack was found there is no radius to average
        attacked = attacked.masked_fill(attacked.isinf(), torch.nan)
        return {"attack": attacked, "certificate": proved, "correct": correct.double()}

    def remarks(self, table: Table) -> str:
        """Return how many images have no certified radius, and how the bound was made."""
        failed = int((table["certificate"] == 0).sum())
        convention = "separate bounds of the logits (the paper's); " if self.convention == "paper" else ""
        return f"{convention}{failed:,} of {len(table['certificate']):,} images certified nowhere, counted as 0"

    def reduce(self, table: Table) -> dict[str, Statistic]:
        """Return the clean accuracy, the paper's mean over correctly classified images, and both sides."""
        accuracy = Share(table["correct"], condition=self.condition).say("share")
        # ACR_LE of section 4.2 is over images with g(x) = y alone
        right = table["certificate"].masked_fill(table["correct"] == 0, torch.nan)
        paper = Mean(right, condition="given the head, of correctly classified images")
        return {"clean accuracy": accuracy, "certificate, correct images": paper} | super().reduce(table)

    def charts(self, table: Table, scores: Mapping[str, Score]) -> tuple[Chart, ...]:
        """Return the certified accuracy against the radius, and how `column` spreads over the images."""
        return chart_certificates(table["correct"], table["certificate"]), *super().charts(table, scores)
