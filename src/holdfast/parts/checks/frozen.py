"""Did the encoder stay the same during the audit, and does it give the same answer twice?"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from holdfast.core import Check, Encoder, Examination, Images, Observation, Passes, Subject, Verdict
from holdfast.numerics.geometry.invariance import EVERY
from holdfast.numerics.geometry.spread import level, rounding, spread
from holdfast.parts.observations.clean import Clean


@dataclass(frozen=True)
class Frozen(Check):
    """Fails for an encoder in train mode, with changed weights or buffers, or with a random forward pass.

    Fails as well where something outside torch, whose weights cannot be seen, answers otherwise than at the beginning,
    and where a pass with gradients, as searches make it, computes something else than one without.

    Passes of a mean over draws agree. What is left of the noise is that of the difference between an image and its
    nearest one, which is what decides: of Δ̄ = (1/k) Σ_j Δ_j, with Δ_j that difference by one draw,
    √(tr Cov(Δ) / k) / ‖Δ̄‖.

    Attributes:
        examined: images that are represented several times.
        passes: how often; a mean over draws twice.
        rounding: difference of two passes, in units of `spread`, up to which it counts as rounding.
        searched: difference of a pass with gradients, in the same units, above which it is another network.
        noise: of the mean over draws, above which it warns; see above.
    """

    doubt = "answers change from pass to pass"
    invariant = EVERY

    examined: int = 8
    passes: int = 4
    rounding: float = 1e-4
    searched: float = 1e-2
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

    def own_passes(self, population: int, attacked: int) -> Passes:
        """Each image several times; of a mean over draws twice, and draw by draw with its nearest one."""
        return Passes(self.passes) * min(self.examined, population)

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
        # passes of the same images, the last one as searches make it; a coin may fall alike twice
        clean, x = Clean.of(subject), subject.batch(0, min(self.examined, subject.population))
        first, searched = _plain(encoder, x), _encode_with_grad(encoder, x)
        # `first` and `searched` are two of the passes. A mean over draws takes the same draws each time, so
        # two are enough, of which `searched` is one where it can be made.
        again = [_plain(encoder, x) for _ in range(self.passes - 2 if encoder.draws is None else searched is None)]
        # in units of how far images lie apart, beyond what the last digit of each representation can be
        last, unit = rounding(clean)[: len(x)], max(spread(clean), 1e-30)

        def differs(reps: Tensor, most: float) -> tuple[bool, float]:
            moved = (reps - first).double().norm(dim=1).cpu()
            return not (float(moved.max()) <= most * unit or bool((moved <= last).all())), float(moved.max()) / unit

        other, gap_searched = (False, 0.0) if searched is None else differs(searched, self.searched)
        # Is it the gradient, or is each pass another? One more plain pass tells
        if other and not again:
            again = [_plain(encoder, x)]
        found = [differs(reps, self.rounding) for reps in again]
        gap = max((gap for _, gap in found), default=0.0)
        if any(random for random, _ in found):
            return self._random(gap, encoder.draws is not None)
        if other:
            return self._report_grad_mismatch(gap_searched)
        # What runs outside torch shows no weights that could be compared, only what it answered at the beginning
        moved, gap_since = differs(clean[: len(x)].to(first), self.searched)
        if moved and not encoder.differentiable:
            return self._report_change(gap_since)
        if encoder.draws is not None:
            return self._of_draws(subject, x, encoder.draws)
        if gap > 0:
            meaning = "The device rounds differently on each pass; repeated audits agree only to this precision."
            finding = f"passes of the same images differ by {gap:.1e} of the spread"
            return Verdict("warn", finding, meaning, {"difference": gap})
        return Verdict(
            "pass", "eval mode, weights and buffers unchanged, passes agree to the bit", "The encoder is frozen."
        )

    def _random(self, gap: float, drawn: bool) -> Verdict:
        """Say that passes of the same images differ, and what to do."""
        if drawn:
            finding = f"passes by the same draws differ by {gap:.1e} of the spread"
            meaning = (
                "It has a generator of its own, which no seed reaches; draw from the global ones of torch or NumPy."
            )
        else:
            finding = f"stochastic: passes of the same images differ by {gap:.1e} of the spread"
            meaning = (
                "The forward pass is random (dropout, masking, sampling?), so attacks and distances measure noise; "
                "audit the mean of k draws, ?draws=k, or switch off what is random."
            )
        return Verdict("fail", finding, meaning, {"difference": gap}, called="Random")

    def _report_change(self, gap: float) -> Verdict:
        """Say that it answers otherwise than at the beginning."""
        finding = f"what it answers now differs from what it answered at the beginning by {gap:.1e} of the spread"
        meaning = (
            "What is behind it changed while it was audited (a new model in a service?), or its answers depend on the "
            "batch, so the numbers are those of no one encoder; audit it again in a new folder."
        )
        return Verdict("fail", finding, meaning, {"difference": gap})

    def _report_grad_mismatch(self, gap: float) -> Verdict:
        """Say that a pass with gradients computes something else, and what to do."""
        finding = f"with gradients it computes something else: by {gap:.1e} of the spread"
        meaning = (
            "Attacks follow the gradients of another network than the one that is judged; make what it computes "
            "independent of torch.is_grad_enabled() and requires_grad."
        )
        return Verdict("fail", finding, meaning, {"difference": gap})

    def _of_draws(self, subject: Subject, x: Images, draws: int) -> Verdict:
        """Say how much noise is left in the mean."""
        # Δ_j: the images and their nearest ones, draw by draw
        clean = Clean.of(subject).double()
        distances = torch.cdist(clean[: len(x)], clean, compute_mode="donot_use_mm_for_euclid_dist")
        made, own = rounding(clean), torch.arange(len(clean))
        same = level(distances, made, own[: len(x)], own)  # the image itself, and copies of it
        nearest = distances.masked_fill(same, torch.inf).argmin(1).tolist()
        images = torch.cat([x, *(subject.batch(i, i + 1) for i in nearest)])
        # The audit's own draws come first; a few more, where these are too few for a variance
        each = subject.encoder.each_draw(images, max(draws, self.examined)).double()
        # [draws, images, D]
        differences = each[:, : len(x)] - each[:, len(x) :]
        # √(tr Cov(Δ) / k) / ‖Δ̄‖
        left = (differences.var(0).sum(1) / draws).sqrt()
        noise = float((left / differences[:draws].mean(0).norm(dim=1).clamp_min(1e-30)).median())
        slow = subject.encoder.mean_of_draws.one_by_one
        slowly = f"; image by image, which is slow ({slow})" if slow else ""
        # Draws that are all alike: the network draws nothing
        if float((each - each[0]).norm(dim=2).max()) <= max(self.rounding * spread(clean), float(made.max())):
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


def _plain(encoder: Encoder, x: Images) -> Tensor:
    """Return representations of a pass without gradients."""
    with torch.no_grad():
        return encoder(x)


def _encode_with_grad(encoder: Encoder, x: Images) -> Tensor | None:
    """Return representations of a pass with gradients, by the same draws; None where it fails: searches say why."""
    try:
        with torch.enable_grad(), encoder.exactly():
            return encoder(x.detach().clone().requires_grad_()).detach()
    except Exception:
        return None
