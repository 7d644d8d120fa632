"""Facts are checked over generated examples, however long one of them takes on a busy machine.

Where CI is set, every run draws the same examples, so that a change is judged by itself; elsewhere each run draws anew.
"""

from __future__ import annotations

import os

import hypothesis

hypothesis.settings.register_profile("tfinspect", deadline=None, derandomize=bool(os.environ.get("CI")))
hypothesis.settings.load_profile("tfinspect")
