"""A hook of MkDocs: how a page looks. Drawings follow light and dark, formulas are set, the version is shown.

The pages stay plain Markdown: a drawing is an image, a formula TeX between dollars, which other generators show too.
"""

import posixpath
import re
from typing import Any

from mkdocs.utils import get_relative_url

DRAWING = re.compile(r'<img alt="([^"]*)" src="([^":]+\.svg)"\s*/?>')
HEAD = re.compile(r"^.*?(?=<svg)|<metadata>.*?</metadata>", re.DOTALL)
INKS = {"#000000": "--ink", "#ffffff": "--paper", "#0067a5": "--blue", "#c2570c": "--orange", "#2d7d46": "--green",
        "#8a8f94": "--grey", "#b3202c": "--red",
        "#003c7d": "--blue", "#e09a00": "--orange", "#b34c5e": "--red", "#009e73": "--green", "#555555": "--grey",
        "#882255": "--purple", "#56b4e9": "--sky", "#999933": "--olive", "#dcdcdc": "--grid"}  # fmt: skip
"""The colours of `make_pictures.py` and of figures for papers, and the variables of `site.css` in their places."""

SETTING = """<link rel="stylesheet" href="{place}katex/katex.min.css">
<script src="{place}katex/katex.min.js"></script><script src="{place}formulas.js"></script>
"""
"""What a page with formulas loads, from the site itself."""


def on_config(config: Any) -> Any:
    """Show the version beside the name."""
    import holdfast

    config.site_name = f"{config.site_name} {holdfast.__version__}"
    return config


def on_page_content(html: str, page: Any, files: Any, **_: Any) -> str:
    """Put drawings into the page, where its colours reach them."""

    def drawn(image: re.Match[str]) -> str:
        place = posixpath.normpath(posixpath.join(posixpath.dirname(page.url), image[2]))
        return in_page(next(file for file in files if file.url == place).content_string, image[1])

    return DRAWING.sub(drawn, html)


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """Set the formulas of a page that has any."""
    if 'class="arithmatex"' not in output:
        return output
    return output.replace("</body>", SETTING.format(place=get_relative_url("scripts/", page.url)) + "</body>")


def in_page(svg: str, alt: str) -> str:
    """Return a drawing as a part of the page, in the colours of its scheme.

    Raises:
        ValueError: a colour that `INKS` does not know.
    """
    svg = HEAD.sub("", svg)
    for colour, ink in INKS.items():
        svg = svg.replace(f": {colour}", f": var({ink})")
    if lost := sorted(set(re.findall(r"(?:fill|stroke): (#\w+)", svg))):
        raise ValueError(f"{alt}: expected the colours of docs/look.py, got {', '.join(lost)}; add them to INKS")
    return f'<span class="drawing" role="img" aria-label="{alt}">{" ".join(svg.split())}</span>'
