"""Screenshots of reports, for the pages: taken by chromium, as small as they may be."""

import shutil
import subprocess
import tempfile
from pathlib import Path

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars")
WIDTH = 1280


def browser() -> str:
    """Return the browser that is there; "" where there is none."""
    return next((path for name in BROWSERS if (path := shutil.which(name))), "")


def screenshot(page: Path, target: Path, *, section: str = "", height: int = 900, colours: int = 250) -> None:
    """Write a PNG of so many colours of what a browser shows of a page.

    Args:
        page: an HTML file.
        target: the PNG.
        section: of a report, shown open and alone, by its name in links; "": the page as it opens.
        height: of the window, which is 1280 pixels wide.
        colours: how many at most.

    Raises:
        SystemExit: no chromium.
    """
    from PIL import Image

    if not (program := browser()):
        raise SystemExit("expected chromium or google-chrome among the programs, there is none: install one")
    with tempfile.TemporaryDirectory() as folder:
        shot, shown = Path(folder) / "shot.png", Path(folder) / "shown.html"
        text = page.read_text(encoding="utf-8")
        if section:
            style = f"<style>main > :not(#{section}) {{ display: none }}</style></head>"
            text = text.replace("</head>", style, 1).replace(f'id="{section}"', f'id="{section}" open', 1)
        shown.write_text(text, encoding="utf-8")
        flags = [*FLAGS, f"--window-size={WIDTH},{height}", f"--screenshot={shot}"]
        subprocess.run([program, *flags, shown.as_uri()], check=True, capture_output=True)
        with Image.open(shot) as picture:
            # median cut, the usual method, turns the few pixels of an orange curve brown
            palette = picture.convert("RGB").quantize(colours, method=Image.Quantize.MAXCOVERAGE, kmeans=1)
            palette.save(target, optimize=True)
