"""The top of the demo's report, in a browser."""

import subprocess
import sys
import tempfile
from pathlib import Path

from screenshots import browser, screenshot

from drawings import PLACE


def draw() -> None:
    """The top of the demo's report, in a browser."""
    if not browser():
        print("report: skipped, there is no chromium")
        return
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        subprocess.run([sys.executable, "-m", "holdfast", "demo", "--out", str(run)], check=True)
        screenshot(run / "report.html", PLACE / "report.png", height=920)
        screenshot(run / "report.html", PLACE / "answer.png", height=465)  # its first table alone, for the README
