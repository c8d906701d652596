"""Write the pages of Holdfast's own profiles into the file from which `holdfast show PROFILE` reads them."""

import json
import re

from holdfast.auditing.profile_files import profile_names
from holdfast.report.profile_page import WRITTEN, work_out


def pages() -> str:
    """Return the file's text: a line for each question, without texts that stand elsewhere."""
    data = {}
    for name in sorted(profile_names()):
        page = work_out(name)
        rows = [[question.measure, question.per_image, question.added] for question in page.questions]
        data[name] = {key: value for key, value in vars(page).items() if key != "description"} | {"questions": rows}
    text = json.dumps(data, ensure_ascii=False, indent=1)
    return re.sub(r'\[\n +(".*"),\n +(.*),\n +(.*)\n +\]', r"[\1, \2, \3]", text) + "\n"


if __name__ == "__main__":
    WRITTEN.write_text(pages(), encoding="utf-8")
