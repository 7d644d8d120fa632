"""Writes every printed figure of the documentation anew: ``python tests/docs/refresh.py [PAGE ...]``.

Outputs in console blocks become what the program prints, with the page's cuts; generated parts are generated again.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # a script's own folder is all that Python looks in

from tests.docs import console, generated


def main(*pages: str) -> int:
    """0 where every page, or each of these, could be written."""
    shell = console.Shell()
    failed = 0
    for page in [Path(page).resolve() for page in pages] or console.PAGES:
        try:
            text = generated.rewritten(console.rewritten(page, shell.run))
        except ValueError as error:
            print(f"left as it is: {error}", file=sys.stderr)
            failed = 1
            continue
        if text != page.read_text("utf-8"):
            page.write_text(text, "utf-8")
            print(f"rewritten: {page.relative_to(console.ROOT)}")
    return failed


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
