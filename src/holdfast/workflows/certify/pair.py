"""What is proved and found of one image against others, by the measures that audits ask about drawn pairs."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from msgspec.structs import replace as replace_entry
from torch import Tensor

from holdfast.auditing.balls import audit_ball
from holdfast.auditing.record import software
from holdfast.config.part_syntax import part_table
from holdfast.core import Attack as AttackPart
from holdfast.core import Ball, Certifier, Divergence, Encoder, HoldfastError, Images, Measure, Observation, registry
from holdfast.core.divergence import read_divergence, require
from holdfast.core.registry import part_name
from holdfast.core.threat import image_shape
from holdfast.numerics.geometry.divergence import LinearDivergence
from holdfast.runtime.errors import BadValue, Mismatch
from holdfast.runtime.listener import Listener, Silent
from holdfast.storage.certified_pair import Against, AtEps, Attack, CertifiedPair, Proof, Smoothing
from holdfast.workflows.certify.request import CertifyOptions
from holdfast.workflows.certify.subject import Pair

GRADIENT_FREE = "square"
"""The attack at a given ε of an encoder without a gradient."""


@dataclass(frozen=True)
class Question:
    """What is asked of each pair, read.

    Attributes:
        asked: all of it, as it was given.
        certifiers: how to prove, by what they are called.
        ball: the norm.
        balls: those at which verdicts are asked for; none: the largest certified radius is.
        attack: how to search in these.
        divergence: what "nearer" means.
    """

    asked: CertifyOptions
    certifiers: dict[str, Certifier]
    ball: Ball
    balls: tuple[Ball, ...]
    attack: AttackPart
    divergence: Divergence

    @classmethod
    def read(cls, asked: CertifyOptions, eps: Any = None) -> "Question":
        """Return what is asked; a wrong word is refused before anything is computed.

        Args:
            asked: what is asked of every pair.
            eps: of this pair, in place of what is asked of all; None: the same.
        """
        # One ε, several, or none; each once, from the smallest on
        several = asked.eps if eps is None else eps
        given = () if several is None else several if isinstance(several, (list, tuple)) else (several,)
        balls = {ball.radius: ball for one in given for ball in [audit_ball(asked.norm, one, lambda: None)]}
        ball = audit_ball(asked.norm, None, lambda: None).of_usual_radius
        if not asked.certifiers:
            raise BadValue("certifiers: expected at least one, got none; leave it out for the usual ones")
        # Certifiers bound linear functions of the representation
        divergence = read_divergence(asked.divergence)
        require(divergence, LinearDivergence, "divergence with a linear margin")
        return cls(
            asked,
            {_label(one): _part("certifiers", one) for one in asked.certifiers},
            ball,
            tuple(balls[radius] for radius in sorted(balls)),
            _part("attacks", asked.attack),
            divergence,
        )

    def radii(self, certifier: Certifier) -> Measure:
        """Return the measure of the largest certified radius and of the smallest attack: Algorithm 1 of RVCL."""
        return self._measure("certified_radius", certifier=certifier, ball=self.ball, steps=self.asked.steps)

    def at(self, certifier: Certifier, ball: Ball, attack: AttackPart) -> Measure:
        """Return the measure of what is proved and found at one ε: PREDICT of Algorithm 1."""
        return self._measure("instance_accuracy", certifier=certifier, ball=ball, attack=attack)

    def _measure(self, name: str, **fields: Any) -> Measure:
        return registry.part("measures", name, negatives=1, divergence=self.divergence, **fields)

    @cached_property
    def smoothing(self) -> Measure | None:
        """The measure of the smoothed encoder's radius: Algorithm 2; None: nothing is drawn."""
        if not self.asked.draws:
            return None
        certificate = {
            "kind": "smoothing", "name": "pair_probability", "negatives": 1, "draws": self.asked.draws,
            "alpha": self.asked.alpha,
        }  # fmt: skip
        return registry.part("measures", "smoothed_radius", sigma=self.asked.sigma, certificate=certificate)


@dataclass(frozen=True)
class Judged:
    """The answer about an image and others, and what it looks like.

    Attributes:
        answer: what is known.
        image: its pixels, [C, H, W].
        others: those of the others, in the order of the answer.
        found: those of the nearest image that was found to be nearer to each; None where none was found.
    """

    answer: CertifiedPair
    image: Tensor
    others: list[Tensor]
    found: list[Tensor | None]


def judge(
    question: Question,
    encoder: Encoder,
    images: Images,
    ids: Sequence[str],
    listener: Listener | None = None,
    key: str = "",
) -> Judged:
    """Return what is known of the first image against each of the others.

    Args:
        question: what is asked.
        encoder: the encoder, on its device.
        images: the image, and the others that it must not be nearer to, [1 + K, C, H, W].
        ids: their names.
        listener: told what is being done.
        key: see `CertifiedPair`.
    """
    began, listener = time.perf_counter(), listener or Silent()
    encoder.prepare(seed=question.asked.seed)
    # Each pair by itself, as if nobody had named the others
    against, found = [], []
    for other in range(1, len(images)):
        pair = Pair(encoder, images[[0, other]], (ids[0], ids[other]), question.asked.seed)
        one, image = _against(question, pair, listener)
        against.append(one)
        found.append(image)
    answer = CertifiedPair(
        holdfast=software(),
        encoder=encoder.name,
        fingerprint=encoder.fingerprint,
        image=ids[0],
        shape=list(image_shape(images)),
        ball=part_name(question.ball),
        box=question.ball.is_box,
        divergence=str(question.divergence),
        against=against,
        seed=question.asked.seed,
        seconds=time.perf_counter() - began,
        key=key,
    )
    return Judged(answer, images[0].cpu(), list(images[1:].cpu()), found)


def _against(question: Question, pair: Pair, listener: Listener) -> tuple[Against, Tensor | None]:
    """Return what is known of a pair, and the image that was found."""
    own, other = pair.reps.double()
    apart = float(question.divergence(own, other))
    if torch.equal(own, other):
        raise Mismatch(
            f"{pair.ids[0]!r} and {pair.ids[1]!r} have the same representation: expected two images that encoder "
            f"{pair.encoder.name!r} tells apart, so that one can stay nearer to itself; give another picture"
        )
    # From above first: what the search met counts at every ε that is judged after it
    attack, image = _smallest(question, pair, listener)
    if question.balls:
        proofs, verdicts = _at_each(question, pair, listener)
    else:
        proofs, verdicts = [_prove(question, pair, name, listener) for name in question.certifiers], []
    name = pair.ids[1]
    smoothing = _smooth(question, pair, listener)
    return Against(
        name=name, divergence=apart, proofs=proofs, attack=attack, verdicts=verdicts, smoothing=smoothing
    ), image


def _smallest(question: Question, pair: Pair, listener: Listener) -> tuple[Attack, Tensor | None]:
    """Return the smallest change found; without a gradient, on the way to the other image alone."""
    listener.stage(f"{pair.ids[1]}: looking for the smallest change")
    # The same search as that of the measure, which keeps no pixels
    measure: Any = question.radii(next(iter(question.certifiers.values())))
    side, problem = measure.attack_side, ""
    try:
        pair.observe(side, replace(side, keep=True))
    except HoldfastError as error:
        # Halving the way to the other image takes no gradient, and ends at a real image that breaks
        problem = str(error)
        pair.observe(side, replace(side, keep=True, steps=0))
    radius, image = float(pair.column(side, "radius")), pair.column(side, "image")[0, 0]
    searched = "on the way to the other image alone" if problem else f"{question.asked.steps} gradient steps"
    if radius == float("inf"):
        return Attack(radius=None, searched=searched, problem=problem), None
    return Attack(radius=radius, searched=searched, problem=problem), image


def _prove(question: Question, pair: Pair, name: str, listener: Listener) -> Proof:
    """Return the largest ε that a certifier proves."""
    measure: Any = question.radii(question.certifiers[name])
    listener.stage(f"{pair.ids[1]}: the largest certified ε, {name}")
    began = time.perf_counter()
    # A certifier that reads no such network proves a radius of 0
    refused = _observe(pair, measure.certificate_side, {"radius": torch.zeros(1, 1, dtype=torch.float64)})
    (radius,) = pair.measure(measure, "certificate")
    return Proof(certifier=name, radius=radius, refused=refused, seconds=time.perf_counter() - began)


def _at_each(question: Question, pair: Pair, listener: Listener) -> tuple[list[Proof], list[AtEps]]:
    """Return what is known at each given ε, and the largest one that each certifier proves."""
    verdicts, proofs = [], {name: Proof(certifier=name, radius=0.0, seconds=0.0) for name in question.certifiers}
    for ball in question.balls:
        listener.stage(f"{pair.ids[1]}: ε {ball.radius_text}")
        attack, by, whole = _attack_at(question, pair, ball), [], True
        for name, certifier in question.certifiers.items():
            measure: Any = question.at(certifier, ball, attack)
            began, proof = time.perf_counter(), proofs[name]
            # What proves nothing bounds no margin at all
            nothing = {"lower": torch.full((1, 1), -torch.inf), "vacuous": torch.ones(1, 1, dtype=torch.bool)}
            refused = _observe(pair, measure.certificate_side, nothing)
            # Shares of one pair, so each is 0 or 1
            attacked, certified = pair.measure(measure, "attack", "certificate")
            whole = whole and attacked == 1
            if certified == 1:
                by.append(name)
                proof = replace_entry(proof, radius=ball.radius)
            seconds = float(proof.seconds) + time.perf_counter() - began
            proofs[name] = replace_entry(proof, refused=proof.refused or refused, seconds=seconds)
        # A proof and a broken image never meet: the measure raises where they do
        verdict = "certified" if by else "undecided" if whole else "broken"
        verdicts.append(AtEps(eps=ball.radius, verdict=verdict, by=by))
    return list(proofs.values()), verdicts


def _attack_at(question: Question, pair: Pair, ball: Ball) -> AttackPart:
    """Make the search at an ε, and return how: without a gradient where the encoder has none."""
    certifier = next(iter(question.certifiers.values()))
    measure: Any = question.at(certifier, ball, question.attack)
    try:
        pair.observe(measure.attack_side)
        return question.attack
    except HoldfastError:
        # As for the smallest change: some search is better than none, and what it finds is as true
        instead = registry.part("attacks", GRADIENT_FREE)
        measure = question.at(certifier, ball, instead)
        pair.observe(measure.attack_side)  # whose error is that of any encoder that cannot be attacked at all
        return instead


def _observe(pair: Pair, observation: Observation, nothing: dict[str, Tensor]) -> str:
    """Observe what is proved, or take nothing for it, and return why."""
    try:
        pair.observe(observation)
    except HoldfastError as error:
        pair.take(observation, nothing)
        return str(error)
    return ""


def _smooth(question: Question, pair: Pair, listener: Listener) -> Smoothing | None:
    """Return the radius of the smoothed encoder."""
    if question.smoothing is None:
        return None
    listener.stage(f"{pair.ids[1]}: drawing noise")
    # Noise may carry pixels out of what an encoder takes: then that is said
    about = Smoothing(sigma=question.asked.sigma, confidence=1 - question.asked.alpha)
    try:
        draws, probability, radius = pair.measure(question.smoothing, "draws", "probability", "radius")
    except HoldfastError as error:
        return replace_entry(about, problem=str(error))
    return replace_entry(about, draws=int(draws), probability=probability, radius=radius)


def _part(kind: str, given: Any) -> Any:
    """Return a part that is one already, or that a text or a table describes."""
    # Texts first: "beta_crown[splits=50]"
    if isinstance(given, str):
        given = part_table(given)
    return registry.build({"kind": kind, **given} if isinstance(given, Mapping) else given)


def _label(given: Any) -> str:
    """Return what a part is called that was given as a text, a table, or as it is."""
    return given if isinstance(given, str) else part_name(_part("certifiers", given))
