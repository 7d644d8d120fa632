"""What a page is: how wide, whether it carries styles, and how it spells a character that it cannot carry.

width     COLUMNS, else the terminal's, else 80
styles    on a terminal, or where FORCE_COLOR is set; never under NO_COLOR or TERM=dumb. NO_COLOR wins, and turns
          bold and dim off too: a page without styles has no escape codes at all. A variable set to "" is unset.
spelling  a stream that cannot encode a character writes its ASCII spelling (``·`` as ``*``, ``→`` as ``->``), and
          where there is none its escape (``\\u84d4``). A user's own text is never respelled, only escaped.
"""

from __future__ import annotations

import codecs
import io
import os
import shutil
import unicodedata
from collections.abc import Mapping
from typing import Final, TextIO

__all__ = ["buffered", "escaped", "harden", "page_width", "spelled", "styled"]

NARROWEST: Final = 40

#: The error handler that spells, as streams know it.
SPELLING: Final = "tfinspect.spelling"

SPELLINGS: Final[Mapping[str, str]] = {
    "·": "*", "×": "x", "÷": "/", "−": "-", "±": "+/-", "√": "sqrt", "∞": "inf", "∂": "d",
    "≤": "<=", "≥": ">=", "≠": "!=", "≈": "~", "⌊": "floor(", "⌋": ")",
    "²": "^2", "³": "^3", "⁻": "^-", "ᵀ": "^T", "₀": "_0", "₁": "_1", "₂": "_2",
    "→": "->", "←": "<-", "↔": "<->", "–": "-", "—": "--", "…": "...", "‘": "'", "’": "'", "“": '"', "”": '"',
    "Φ": "Phi", "φ": "phi", "Σ": "sum", "Δ": "delta", "α": "alpha", "β": "beta", "γ": "gamma", "ε": "eps",
    "θ": "theta", "μ": "mu", "µ": "mu", "σ": "sigma", "π": "pi",
    "─": "-", "│": "|", "█": "#", "░": ".", "▓": "=", "▒": "+", "\xa0": " ", "\u202f": " ",
}  # fmt: skip


def page_width() -> int:
    """Cells in a line of standard output."""
    return max(NARROWEST, shutil.get_terminal_size((80, 24)).columns)


def styled(stream: TextIO, environ: Mapping[str, str] | None = None) -> bool:
    """Whether bold, dim and colour may be written to this stream."""
    environ = os.environ if environ is None else environ
    if environ.get("NO_COLOR") or environ.get("TERM") == "dumb":
        return False
    return bool(environ.get("FORCE_COLOR")) or on_terminal(stream)


def on_terminal(stream: TextIO | None) -> bool:
    """Whether a person watches this stream."""
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # a closed stream
        return False


def harden(stream: TextIO) -> None:
    """Make a stream spell what it cannot encode, so that no text can stop it."""
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors=SPELLING)


def buffered(stream: TextIO) -> TextIO:
    """The stream, with a buffer where PYTHONUNBUFFERED left it none.

    Without one, Python takes a write that the system cut short, as on a disk that is full, for a whole one: the end of
    the text would be lost in silence.
    """
    if not isinstance(stream, io.TextIOWrapper) or not isinstance(stream.buffer, io.RawIOBase):
        return stream
    encoding = stream.encoding
    return io.TextIOWrapper(io.BufferedWriter(stream.detach()), encoding=encoding)


def spelled(text: str, encoding: str | None) -> str:
    """Text as a stream of this encoding can carry it, for words that tfinspect chose."""
    return _carried(text, encoding, SPELLING)


def escaped(text: str, encoding: str | None) -> str:
    """Text as a stream of this encoding can carry it, for a user's own text: what it cannot carry is an escape.

    Control characters, line separators and characters that reverse the direction of a line are escapes in every
    encoding, so that no text can move the cursor or disorder a table.
    """
    if text.isascii() and text.isprintable():
        return text
    return _carried("".join(_escape(c) if _disorders(c) else c for c in text), encoding, "backslashreplace")


def _carried(text: str, encoding: str | None, errors: str) -> str:
    encoding = encoding or "utf-8"
    return text if text.isascii() else text.encode(encoding, errors).decode(encoding)


def _disorders(character: str) -> bool:
    return unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") or unicodedata.bidirectional(character) in (
        "LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI",
    )  # fmt: skip


def _escape(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")


def _spell(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    refused = error.object[error.start : error.end]
    return "".join(SPELLINGS.get(c) or _escape(c) for c in refused), error.end


codecs.register_error(SPELLING, _spell)
