"""Facts are checked over generated examples, however long one of them takes on a busy machine."""

from __future__ import annotations

import hypothesis

hypothesis.settings.register_profile("tfinspect", deadline=None)
hypothesis.settings.load_profile("tfinspect")
