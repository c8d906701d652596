"""Are the images still those that the audit read when it began?"""

from dataclasses import dataclass

from holdfast.core import Check, Observation, Subject, Verdict
from holdfast.numerics.geometry.invariance import EVERY


@dataclass(frozen=True)
class ImagesUnchanged(Check):
    """Fails where images are not the same when they are read again at the end: twice, some across the set.

    So it sees a dataset whose transform is random, or that is read by several threads and not made for it, files that
    somebody writes meanwhile, and a disk that reads other bytes. Images that probes learn from are among them.
    """

    doubt = "images changed while they were read"
    invariant = EVERY

    consequence = "void"
    place = 18

    def observations(self) -> tuple[Observation, ...]:
        """None: it reads images only."""
        return ()

    def judge(self, subject: Subject) -> Verdict:
        """Read them again."""
        again = subject.read_again()
        # `how` is "" for an image that stayed the same
        changed, count = [(name, how) for name, how in again if how], len(again)
        details = {"read again": float(count), "changed": float(len(changed))}
        if changed:
            name, how = changed[0]
            meaning = (
                "The numbers are about images that are no longer there, or about others each time. Leave random "
                "augmentation out of the dataset, let nobody write its files, and run the audit again."
            )
            finding = f"{len(changed)} of {count} images changed while they were read, {name!r} first: {how}"
            return Verdict("fail", finding, meaning, details, called="Images changed")
        finding = f"{count} images, read twice again, have not changed"
        return Verdict("pass", finding, "The images stayed as they were when the audit began.", details)
