"""Audit a model of timm on a folder of pictures: what does a disturbance of 4/255 do to its representations?

pip install -c constraints.txt -e '.[timm]'
python examples/audit_timm.py path/to/pictures --model resnet18.a1_in1k
"""

import argparse
import sys

import holdfast


def main(words: list[str] | None = None) -> int:
    """Print the record of one model, and write its report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pictures", help="a folder; labels are not needed")
    parser.add_argument("--model", default="resnet18.a1_in1k", help="name in timm; ?weights=random downloads nothing")
    parser.add_argument("--attacked", type=int, default=50, help="how many pictures are attacked")
    parser.add_argument("--report", default="timm.html")
    asked = parser.parse_args(words)

    # The spec brings mean, standard deviation and the size of pictures; a network of your own would need them here.
    record = holdfast.audit(
        f"timm:{asked.model}",
        asked.pictures,
        measures=["breakaway_risk", "universal_quantile", "nearest_neighbour_accuracy"],
        profile="quick",
        eps=4 / 255,
        attacked=asked.attacked,
    )
    print(record)
    risk = record["breakaway_risk"]
    print(f"An attacked picture is farther from itself than {risk.value:.2%} of all other pictures are.")
    print(f"report: {record.report(asked.report)}")
    return len(record.failures)


if __name__ == "__main__":
    sys.exit(main())
