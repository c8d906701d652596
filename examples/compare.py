"""Which of several encoders is the most robust? Paired intervals on the same images, corrected for many comparisons.

python examples/compare.py                                        # three encoders of digits
python examples/compare.py timm:resnet18 timm:vit_tiny_patch16_224 --data path/to/pictures
"""

import argparse
import sys

import holdfast


def main(words: list[str] | None = None) -> int:
    """Print which differences chance does not explain, and write the comparison's page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = ["zoo:digits-supervised", "zoo:digits-simclr", "zoo:digits-simclr-adv"]
    parser.add_argument("encoders", nargs="*", default=default, help="see holdfast list encoders")
    parser.add_argument("--data", default="digits")
    parser.add_argument("--eps", type=float, default=0.05, help="in pixels of a [0, 1] image")
    parser.add_argument("--attacked", type=int, default=100, help="how many images are attacked")
    parser.add_argument("--page", default="comparison.html")
    asked = parser.parse_args(words)

    # Each in an audit of its own, as one would over months; the same seed and images make them comparable.
    records = [
        holdfast.audit(encoder, asked.data, profile="quick", eps=asked.eps, attacked=asked.attacked)
        for encoder in asked.encoders
    ]
    found = holdfast.compare(*records)
    print(found)
    print(f"page: {found.report(asked.page)}")
    return sum(len(record.failures) for record in records)


if __name__ == "__main__":
    sys.exit(main())
