"""Holdfast: how well do an image encoder's representations hold when the image is disturbed?

The command line is `holdfast`; in Python begin with `holdfast.core` (the nouns), `holdfast.encoders.open_encoder`,
`holdfast.data.open_images`, `holdfast.audit.plan_file.make_plan` and `holdfast.audit.run.run_audit`.
"""

from importlib.metadata import version

__version__ = version("holdfast")
