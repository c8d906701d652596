"""What docs/benchmarks.md begins with: how many targets are met, and the ratios that most readers look for."""

from dataclasses import dataclass

from benchmarks import targets
from benchmarks.store import Runs
from benchmarks.tables import figures, markdown


@dataclass(frozen=True)
class Line:
    """A line of the summary: the smallest and the largest median of some rows.

    Attributes:
        what: what is measured, in words.
        benchmark: which measures it.
        rows: beginnings of the names of its rows.
        unit: of its rows; those in other units are left out.
    """

    what: str
    benchmark: str
    rows: tuple[str, ...]
    unit: str = "x"

    def answer(self, runs: Runs) -> str:
        """Return the range of the rows, with their unit; "not measured" where there are none."""
        run = runs.get(self.benchmark)
        rows = [row for row in run.results if row.name.startswith(self.rows) and row.unit == self.unit] if run else []
        if not rows:
            return "not measured"
        ends = dict.fromkeys(figures(pick(row.value for row in rows)) for pick in (min, max))
        return f"{' to '.join(ends)} {self.unit}"


LINES = (
    *(Line(f"step of an attack / of the bare frozen network, {title}", "attack_step",
           tuple(f"{attack}, from its own work, {network}" for attack in targets.ATTACKS))
      for title, network, _ in targets.NETWORKS),
    Line("smoothing / bare passes, four networks", "sampling", ("sampling ",)),
    Line("training step against an adversary / bare loop", "training_step",
         tuple(f"training step, {network}, adversary" for network in ("cnn_b_cifar", "resnet20_32"))),
    Line("16 measures in one audit / one after the other", "whole_audit", ("whole audit / measures",)),
    Line("PGD / foolbox, ART, torchattacks, captum", "libraries",
         tuple(f"{library}, PGD of 20 steps" for library in
               ("foolbox", "adversarial-robustness-toolbox", "torchattacks", "captum"))),
    Line("robust accuracy / AutoAttack's own code", "libraries", ("pyautoattack, ",)),
    Line("CROWN / auto_LiRPA", "libraries", ("auto_LiRPA, CROWN",)),
    Line("until a command answers (help, lists, pages, Tab)", "startup",
         ("holdfast --help, processor", "holdfast list", "holdfast show", "Tab after"), "s"),
)  # fmt: skip


def table(runs: Runs) -> str:
    """Return the number of targets that are met, and the lines as a Markdown table."""
    verdicts = [verdict for *_, verdict, _, _ in targets.rows(runs)]
    met = f"Of {len(verdicts)} [targets](#targets), {verdicts.count('met')} are met."
    return f"{met}\n\n" + markdown(("what", "least to most"), [(line.what, line.answer(runs)) for line in LINES])
