"""The rows of a batch: texts with their token ids, as tables and as JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any, Final

from tfinspect.results.table import Cell, Column, Row, Table

__all__ = ["Text", "one_line", "text_table"]

#: How many ids and how many characters of a text the tables show.
_SHOWN_IDS: Final = 64
_SHOWN_CHARACTERS: Final = 400


@dataclasses.dataclass(frozen=True, slots=True)
class Text:
    """One text of the batch."""

    text: str | None
    """The text, a byte outside UTF-8 as \\xff; None where token ids were given."""
    ids: tuple[int, ...]
    """Its token ids, without padding."""

    def to_dict(self, seq_len: int) -> dict[str, Any]:
        """JSON-ready, in a batch of rows of seq_len positions."""
        return {"text": self.text, "ids": list(self.ids), "n_padding": seq_len - len(self.ids)}


def text_table(
    title: str, texts: Sequence[Text], seq_len: int, *, causal: bool, show_ids: bool = True, notes: Iterable[str] = ()
) -> Table:
    """The texts that are read, their ids, and what padding means; ids that say nothing are left out."""
    columns = (
        *((Column("text", "text", keep=9),) if any(text.text is not None for text in texts) else ()),
        Column("tokens", "tokens", "count", keep=9),
        *((Column("ids", "ids", keep=9),) if show_ids else ()),
    )
    said = list(notes)
    if any(len(text.ids) < seq_len for text in texts):
        unseen = "Under the causal mask no position of a text sees its padding, but padding costs as much as text."
        seen = "No mask covers the padding: each position sees it, and it costs as much as text."
        said.append(f"Shorter texts are padded at the end to {seq_len} positions. {unseen if causal else seen}")
    if any((show_ids and len(t.ids) > _SHOWN_IDS) or len(t.text or "") > _SHOWN_CHARACTERS for t in texts):
        said.append(
            f"Only the first {_SHOWN_CHARACTERS} characters and {_SHOWN_IDS} ids of a text are shown; "
            "--json has them all."
        )
    return Table(title, columns, tuple(map(_row, texts)), tuple(said))


def one_line(text: str | None) -> str | None:
    """The beginning of a text as one line of a table: line ends and control characters as escapes."""
    if text is None:
        return None
    shown = text[:_SHOWN_CHARACTERS]
    line = "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in shown)
    return f"{line} ..." if len(text) > len(shown) else line


def _row(text: Text) -> Row:
    ids = " ".join(map(str, text.ids[:_SHOWN_IDS])) + (" ..." if len(text.ids) > _SHOWN_IDS else "")
    cells: dict[str, Cell] = {"text": one_line(text.text), "tokens": len(text.ids), "ids": ids}
    return Row(cells)
