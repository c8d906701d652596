"""Did the encoder stay the same during the audit, and does it give the same answer twice?"""

from dataclasses import dataclass

import torch

from holdfast.core import Check, Examination, Observation, Subject, Verdict


@dataclass(frozen=True)
class Frozen(Check):
    """Fails for an encoder in train mode, with changed weights or buffers, or with a random forward pass.

    Attributes:
        examined: images that are represented twice.
        rounding: relative difference of two passes up to which it counts as rounding.
    """

    examined: int = 8
    rounding: float = 1e-5

    consequence = "void"
    place = 12

    @classmethod
    def checks_for(cls, audit: Examination) -> tuple[Check, ...]:
        """Every audit, also one that reads no images."""
        return (cls(),)

    def observations(self) -> tuple[Observation, ...]:
        """None: it makes two passes of its own."""
        return ()

    def judge(self, subject: Subject) -> Verdict:
        """Compare fingerprints before and after, and two forward passes."""
        encoder = subject.encoder
        # modes, weights and buffers
        training = [name for name, module in encoder.module.named_modules() if module.training]
        if training:
            meaning = "Dropout and BatchNorm differ in train mode, so the numbers do not describe the deployed encoder."
            return Verdict("fail", f"{len(training)} modules are in train mode, first {training[0]!r}", meaning)
        if encoder.take_fingerprint() != encoder.fingerprint:
            meaning = "The forward pass changes the network, so the numbers depend on the order of the images."
            return Verdict("fail", "weights or buffers changed during the audit", meaning)
        # two forward passes of the same images, relative to the largest representation
        x = subject.batch(0, min(self.examined, subject.population))
        with torch.no_grad():
            first, second = encoder(x), encoder(x)
        gap = float((first - second).norm(dim=1).max() / first.norm(dim=1).max().clamp_min(1e-30))
        if not gap <= self.rounding:
            meaning = "The forward pass is random (dropout, masking, sampling?): attacks and distances measure noise."
            return Verdict("fail", f"two passes of the same images differ by {gap:.1e}", meaning, {"difference": gap})
        if gap > 0:
            meaning = "The device rounds differently on each pass; repeated audits agree only to this precision."
            return Verdict("warn", f"two passes of the same images differ by {gap:.1e}", meaning, {"difference": gap})
        return Verdict(
            "pass", "eval mode, weights and buffers unchanged, two passes agree to the bit", "The encoder is frozen."
        )
