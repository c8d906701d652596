"""What can no attack do? Radii that are proved, beside the radii at which an attack was found.

python examples/certify.py                     # two encoders of digits, a minute or two
"""

import argparse
import sys

import holdfast

ENCODERS = {"plain": "zoo:digits-simclr", "hardened": "zoo:digits-simclr-adv"}


def main(words: list[str] | None = None) -> int:
    """Print both sides of each encoder's radius, in pixels of a [0, 1] image."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--attacked", type=int, default=30, help="how many images are certified")
    asked = parser.parse_args(words)

    record = holdfast.audit(
        ENCODERS, "digits", measures="certified_radius", profile="certify", images=200, attacked=asked.attacked
    )
    for name in record.encoders:
        print(name)
        for side, score in record.scores("certified_radius", name).items():
            interval = "" if score.low is None else f" [{score.low:.4f}, {score.high:.4f}]"
            value = "undefined" if score.value is None else f"{score.value:.4f}"
            print(f"  {side}: {value}{interval}")
    print("The truth about each image lies between the radius at which an attack succeeded and the certified one.")
    return len(record.failures)


if __name__ == "__main__":
    sys.exit(main())
