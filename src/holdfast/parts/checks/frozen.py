"""Did the encoder stay the same during the audit, and does it give the same answer twice?"""

import math
from dataclasses import dataclass

import torch

from holdfast.core import Check, Examination, Images, Observation, Subject, Verdict
from holdfast.parts.observations.clean import Clean


@dataclass(frozen=True)
class Frozen(Check):
    """Fails for an encoder in train mode, with changed weights or buffers, or with a random forward pass.

    Passes of a mean over draws agree. What is left of the noise is that of the difference between an image and its
    nearest one, which is what decides: of Δ̄ = (1/k) Σ_j Δ_j, with Δ_j that difference by one draw,
    √(tr Cov(Δ) / k) / ‖Δ̄‖.

    Attributes:
        examined: images that are represented several times.
        passes: how often; a mean over draws twice.
        rounding: relative difference of two passes up to which it counts as rounding.
        noise: of the mean over draws, above which it warns; see above.
    """

    examined: int = 8
    passes: int = 4
    rounding: float = 1e-5
    noise: float = 0.1

    consequence = "void"
    place = 12

    @classmethod
    def checks_for(cls, audit: Examination) -> tuple[Check, ...]:
        """Every audit, also one that reads no images."""
        return (cls(),)

    def observations(self) -> tuple[Observation, ...]:
        """Clean representations: they tell which images are near each other."""
        return (Clean(),)

    def judge(self, subject: Subject) -> Verdict:
        """Compare fingerprints before and after, and several forward passes."""
        encoder = subject.encoder
        # modes, weights and buffers
        training = [name for name, module in encoder.module.named_modules() if module.training]
        if training:
            meaning = "Dropout and BatchNorm differ in train mode, so the numbers do not describe the deployed encoder."
            return Verdict("fail", f"{len(training)} modules are in train mode, first {training[0]!r}", meaning)
        if encoder.take_fingerprint() != encoder.fingerprint:
            meaning = "The forward pass changes the network, so the numbers depend on the order of the images."
            return Verdict("fail", "weights or buffers changed during the audit", meaning)
        # forward passes of the same images, relative to the largest representation; a coin may fall alike twice
        x = subject.batch(0, min(self.examined, subject.population))
        with torch.no_grad():
            first, *again = (encoder(x) for _ in range(self.passes if encoder.draws is None else 2))
        moved = torch.stack([(reps - first).norm(dim=1) for reps in again])
        gap = float(moved.max() / first.norm(dim=1).max().clamp_min(1e-30))
        if not gap <= self.rounding and encoder.draws is None:
            finding = f"stochastic: passes of the same images differ by {gap:.1e}"
            meaning = (
                "The forward pass is random (dropout, masking, sampling?), so attacks and distances measure noise; "
                "audit the mean of k draws, ?draws=k, or switch off what is random."
            )
            return Verdict("fail", finding, meaning, {"difference": gap}, called="Random")
        if not gap <= self.rounding:
            finding = f"passes by the same draws differ by {gap:.1e}"
            meaning = (
                "It has a generator of its own, which no seed reaches; draw from the global ones of torch or NumPy."
            )
            return Verdict("fail", finding, meaning, {"difference": gap}, called="Random")
        if encoder.draws is not None:
            return self._of_draws(subject, x, encoder.draws)
        if gap > 0:
            meaning = "The device rounds differently on each pass; repeated audits agree only to this precision."
            return Verdict("warn", f"passes of the same images differ by {gap:.1e}", meaning, {"difference": gap})
        return Verdict(
            "pass", "eval mode, weights and buffers unchanged, passes agree to the bit", "The encoder is frozen."
        )

    def _of_draws(self, subject: Subject, x: Images, draws: int) -> Verdict:
        """Say how much noise is left in the mean."""
        # Δ_j: the images and their nearest ones, draw by draw
        clean = subject.read(Clean())["reps"].double()
        distances = torch.cdist(clean[: len(x)], clean)
        same = distances <= self.rounding * clean.norm(dim=1).max()  # the image itself, and copies of it
        nearest = distances.masked_fill(same, torch.inf).argmin(1).tolist()
        images = torch.cat([x, *(subject.batch(i, i + 1) for i in nearest)])
        each = subject.encoder.each_draw(images, max(draws, self.examined)).double()
        differences = each[:, : len(x)] - each[:, len(x) :]
        # √(tr Cov(Δ) / k) / ‖Δ̄‖
        left = (differences.var(0).sum(1) / draws).sqrt()
        noise = float((left / differences[:draws].mean(0).norm(dim=1).clamp_min(1e-30)).median())
        slow = subject.encoder.mean_of_draws.one_by_one
        slowly = f"; image by image, which is slow ({slow})" if slow else ""
        if float((each - each[0]).norm(dim=2).max()) <= self.rounding * float(each.norm(dim=2).max()):
            finding = f"the mean of {draws} draws that are all the same{slowly}"
            meaning = f"Nothing in it is random, or it seeds itself; leave draws out: they cost {draws} times as much."
            return Verdict("warn", finding, meaning, {"noise": 0.0})
        finding = (
            f"stochastic, and audited as the mean of {draws} draws, whose noise is {100 * noise:.2g} % of the "
            f"difference between nearest images (median of {len(x)}){slowly}"
        )
        details = {"noise": noise}
        if not noise <= self.noise:
            needed = math.ceil(draws * (noise / self.noise) ** 2)
            meaning = (
                f"Other draws could give other neighbours; the noise falls as 1/√k, so take ?draws={needed} or more."
            )
            return Verdict("warn", finding, meaning, details)
        return Verdict(
            "pass", finding, "The same draws are used throughout, and their number is large enough.", details
        )
