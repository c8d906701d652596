"""Makes the pictures of these pages: `python docs/make_pictures.py [NAME...]`.

Each is a file of `drawings`. Curves and screenshots come from real audits of the shipped encoders; what explains an
idea is drawn. The screenshot needs chromium and is skipped without it.
"""

import importlib
import pkgutil
import sys

import drawings
import matplotlib as mpl

if __name__ == "__main__":
    drawings.PLACE.mkdir(exist_ok=True)
    with mpl.rc_context(drawings.STYLE):
        for name in sys.argv[1:] or [module.name for module in pkgutil.iter_modules(drawings.__path__)]:
            print(name)
            importlib.import_module(f"drawings.{name}").draw()
