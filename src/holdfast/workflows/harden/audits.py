"""The audits of a hardening: which images are held out, and what is asked of both encoders on them."""

from dataclasses import dataclass, replace
from urllib.parse import quote

from holdfast.auditing.plan import Plan
from holdfast.auditing.plan_file import make_plan
from holdfast.core import Encoder, ImageSource, registry
from holdfast.core.spec_string import parse
from holdfast.runtime.errors import no_labels
from holdfast.sources.data import ImageSet, open_images
from holdfast.workflows.harden.plan import Hardening

LEAST, SHARE, MOST = 200, 0.1, 2000
"""Images held out: so many or that share, if it is more, but not beyond the last (or the profile's population)."""

BANK = 10_000
"""Images that probes learn from at most, where they are not given apart."""


@dataclass(frozen=True)
class Opened:
    """What is open already, instead of the specs of a hardening.

    Attributes:
        encoder: the encoder; it is left as it is.
        data: images to learn from.
        test: images of the audits.
        train: labelled images that probes learn from.
    """

    encoder: Encoder | None = None
    data: ImageSource | None = None
    test: ImageSource | None = None
    train: ImageSource | None = None


@dataclass(frozen=True)
class Audits:
    """What is asked of the encoder before and after, on images that are not learned from.

    Attributes:
        asked: the hardening.
        plan: the audit without labels.
        images: the images of the audits: a data spec, or a source.
        size: how many of them are held out.
        train: whether labelled images to learn from are given apart.
    """

    asked: Hardening
    plan: Plan
    images: str | ImageSource
    size: int
    train: bool

    @classmethod
    def of(
        cls,
        asked: Hardening,
        after: str | None,
        opened: Opened,
    ) -> "Audits":
        """Return the audits of a hardening.

        Args:
            asked: the hardening.
            after: how the hardened encoder is opened; None: encoders are given to the audits as they are.
            opened: what is open already.

        Raises:
            HoldfastError: images or a profile that nobody knows.
        """
        told, apart = asked.test or asked.data, opened.test is not None or asked.test is not None
        names = [_labelled(asked.encoder, "before"), _labelled(after, "after")] if after else ["before", "after"]
        ball, run = asked.ball(), {"seed": asked.seed, "device": asked.device}
        plan = make_plan(names, told, profile_name=asked.profile, norm=registry.part_name(ball), eps=ball.radius, **run)
        images = opened.test or (told if apart else opened.data or told)
        there = open_images(images, seed=asked.seed).available
        share = there if apart else min(there // 2, max(LEAST, int(SHARE * there)))
        size = min(share, max(MOST, plan.images or share))
        number = min(plan.images or size, size)
        plan = replace(plan, images=number, attacked=min(plan.attacked or number, number))
        return cls(asked, plan, images, size, opened.train is not None or asked.train is not None)

    def with_labels(self, held: ImageSet, known: bool) -> Plan | None:
        """Return the audit of classifiers on the images held out; None where labels are not known.

        A kNN probe on all of them, and a linear one, clean and under PGD in the ball, on those that are attacked.

        Args:
            held: the images held out.
            known: whether the images to learn from have labels.

        Raises:
            HoldfastError: no labels where they are asked for.
        """
        plan, asked = self.plan, self.asked
        if held.labels is None and (self.train or plan.labelled()):
            raise no_labels("the accuracy before and after", str(held))
        if held.labels is None or not (self.train or known):
            return None
        apart = {"train": asked.train or "train"} if self.train else {"train": asked.data, "train_images": BANK}
        neighbours = registry.part("measures", "probe_accuracy", probe={"name": "knn"})
        robust = registry.part(
            "measures",
            "robust_accuracy",
            probe={"name": "linear"},
            ball=asked.ball(),
            attacks=[registry.part("attacks", "pgd", steps=20)],
            objectives=[registry.part("objectives", "cross_entropy")],
            first=plan.attacked,
        )
        every = {"images": len(held), "attacked": len(held)}
        return replace(plan, measures=(neighbours, robust), checks=(), spare=False, **every, **apart)


def _labelled(spec: str, label: str) -> str:
    """Return an encoder's spec with another label."""
    _, _, options = parse(spec)
    kept = {key: quote(value, safe="/:.,~-_") for key, value in options.items() if key != "label"} | {"label": label}
    return f"{spec.strip().partition('?')[0]}?{'&'.join(f'{key}={value}' for key, value in kept.items())}"
