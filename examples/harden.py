"""Mend an encoder without labels, and ask again on images that it has not seen.

python examples/harden.py                      # the embedded digits, a minute
"""

import argparse
import sys
from pathlib import Path

from rich.console import Console

from holdfast.report.documents.hardening import document
from holdfast.report.render import print_document
from holdfast.workflows.harden.plan import Hardening
from holdfast.workflows.harden.run import harden


def main(words: list[str] | None = None) -> int:
    """Print what each measure says before and after, and the price."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--encoder", default="zoo:digits-supervised", help="see holdfast list encoders")
    parser.add_argument("--data", default="digits?part=train", help="images to learn from; labels are not needed")
    parser.add_argument("--eps", type=float, default=0.1, help="in pixels of a [0, 1] image")
    parser.add_argument("--steps", type=int, default=400, help="of the training")
    parser.add_argument("--out", type=Path, default=Path("hardened"))
    asked = parser.parse_args(words)

    # The views of photos are mirrored and cropped; an 8x8 digit would be another digit then.
    plan = Hardening(asked.encoder, asked.data, eps=asked.eps, steps=asked.steps, views="none")
    hardened = harden(plan, asked.out)
    if hardened is None:  # one of the processes of torchrun that only help to train
        return 0
    found = hardened.record
    print_document(
        document(found), Console()
    )  # every measure before and after, paired; the price; how to open the encoder
    return len(found.failures)


if __name__ == "__main__":
    sys.exit(main())
