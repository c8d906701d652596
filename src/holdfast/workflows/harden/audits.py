"""The audits of a hardening: which images are held out, and what is asked of both encoders on them."""

from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

from holdfast.auditing.plan import Plan
from holdfast.auditing.plan_file import make_plan
from holdfast.auditing.request import AuditRequest
from holdfast.core import Encoder, Geometry, ImageSource, registry
from holdfast.core.source_spec import parse
from holdfast.runtime.errors import no_labels
from holdfast.sources.data import ImageSet, open_images
from holdfast.workflows.harden.plan import Hardening
from holdfast.workflows.harden.request import HardenRequest

LEAST, SHARE, MOST = 200, 0.1, 2000
"""Images held out: so many or that share, if it is more, but not beyond the last (or the profile's population)."""

PROOFS = ("breaking_radius.certified=32",)
"""What is asked besides of an encoder that learned from a bound, unless a profile is named: how far it is proved."""

BANK = 10_000
"""Images that probes learn from at most, where they are not given apart."""


LOOKED_AT = 200
"""Images that the looks along the training are taken at: so many or `SHARE`, whatever is fewer."""


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
        hardening: the hardening.
        plan: the audit without labels.
        images: the images of the audits: a data spec, or a source.
        size: how many of them are held out.
        train: whether labelled images to learn from are given apart.
    """

    hardening: Hardening
    plan: Plan
    images: str | ImageSource
    size: int
    train: bool

    @classmethod
    def of(cls, hardening: Hardening, after: str | None, opened: Opened) -> "Audits":
        """Return the audits of a hardening.

        Args:
            hardening: the hardening.
            after: how the hardened encoder is opened; None: encoders are given to the audits as they are.
            opened: what is open already.
        """
        spec, apart = hardening.test or hardening.data, opened.test is not None or hardening.test is not None
        names = [_relabel(hardening.encoder, "before"), _relabel(after, "after")] if after else ["before", "after"]
        asked = AuditRequest(
            tuple(names),
            spec,
            profile=hardening.profile,
            settings=PROOFS if hardening.certified and hardening.profile == HardenRequest.profile else (),
            norm=hardening.norm,
            eps=hardening.ball().radius,
            budget="none",
            seed=hardening.seed,
            device=hardening.device,
        )
        plan = make_plan(asked)
        images = opened.test or (spec if apart else opened.data or spec)
        available = open_images(images, seed=hardening.seed).available
        share = available if apart else min(available // 2, max(LEAST, int(SHARE * available)))
        size = min(share, max(MOST, plan.images or share))
        number = min(plan.images or size, size)
        plan = replace(plan, images=number, attacked=min(plan.attacked or number, number))
        return cls(hardening, plan, images, size, opened.train is not None or hardening.train is not None)

    def images_to_look_at(self, source: str | ImageSource, held_out: ImageSet, geometry: Geometry | None) -> ImageSet:
        """Return images that are neither learned from nor audited, by which the weights are chosen.

        The audits' own would flatter the encoder: of several looks the best on them is the best partly by chance.
        """
        seed = self.hardening.seed
        # A tenth at most, so that small sets keep most of their images to learn from
        count = max(2, min(LOOKED_AT, int(SHARE * open_images(source, seed=seed).available)))
        # Of the same order of images, in which those that are held out come first, so that as many are left
        images = open_images(source, images=count + len(held_out), seed=seed, geometry=geometry)
        images.leave_out(held_out)
        return images

    def with_labels(self, held_out: ImageSet, labelled: bool) -> Plan | None:
        """Return the audit of classifiers on the images held out; None where labels are not known.

        Clean and under PGD in the ball, on those that are attacked: the head that is in use, or a linear one that
        learns on each encoder anew; then a kNN probe on clean images.
        """
        plan, hardening = self.plan, self.hardening
        if held_out.labels is None and (self.train or hardening.head or plan.find_label_readers()):
            raise no_labels("the accuracy before and after", str(held_out))
        if held_out.labels is None or not (self.train or labelled or hardening.head):
            return None
        if hardening.head:
            clean = robust = registry.part("probes", "trained", path=hardening.head, layer="last")
            apart: dict[str, Any] = {}
        else:
            clean, robust = registry.part("probes", "knn"), registry.part("probes", "linear")
            apart = {"train": hardening.data, "train_images": BANK}
            apart = {"train": hardening.train or "train"} if self.train else apart
        accuracy = registry.part("measures", "probe_accuracy", probe=clean)
        under_attack = registry.part(
            "measures",
            "robust_accuracy",
            probe=robust,
            ball=hardening.ball(),
            attacks=[registry.part("attacks", "pgd", steps=20)],
            objectives=[registry.part("objectives", "cross_entropy")],
            first=plan.attacked,
        )
        every = {"images": len(held_out), "attacked": len(held_out)}
        return replace(plan, measures=(accuracy, under_attack), checks=(), spare=False, **every, **apart)


def _relabel(spec: str, label: str) -> str:
    """Return an encoder's spec with another label."""
    _, _, options = parse(spec)
    passed_on = {key: quote(value, safe="/:.,~-_") for key, value in options.items() if key != "label"}
    passed_on["label"] = label
    return f"{spec.strip().partition('?')[0]}?{'&'.join(f'{key}={value}' for key, value in passed_on.items())}"
