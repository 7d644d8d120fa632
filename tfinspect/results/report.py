"""What every result offers: to any renderer as a `Report`, and by itself, as an `Answer`, in a notebook."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from tfinspect.errors import InputError
from tfinspect.results.agreement import Agreement
from tfinspect.results.table import Table

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["Answer", "Report"]


class Report(Protocol):
    """A frozen answer to one question."""

    schema: ClassVar[str]
    """Name and version of its JSON form: "tfinspect.params/1"."""

    @property
    def conventions(self) -> str:
        """One line that says what is counted and how: it opens the report."""

    @property
    def agreements(self) -> tuple[Agreement, ...]:
        """Each figure that has a second path; empty before the check has run."""

    def tables(self) -> tuple[Table, ...]:
        """The answer as tables, in reading order."""

    def to_dict(self) -> dict[str, Any]:
        """The answer as JSON-ready values: integers exact, shapes symbolic and concrete."""


class Answer:
    """What every result class inherits: how a notebook shows it, and its tables as data frames."""

    main_table: ClassVar[int | str] = 0
    """The table that answers the question: its place, or its title."""

    def unfolded(self) -> Any:
        """The same answer with every row in its tables, where they fold some."""
        return self

    def to_dataframe(self: Report, table: int | str | None = None) -> DataFrame:
        """One table as a pandas data frame: figures as they are, no totals among the rows.

        The table is the main one, or that of this index in `tables()`, or of this title. Columns go by their keys; what
        a reader sees above them, units included, is in `frame.attrs["titles"]`. The heading that rows stand under, and
        their depth where it differs, are columns too: "heading" and "level".

        Raises:  InputError for a table that is not there, MissingExtra without pandas.
        """
        from tfinspect.results.frame import frame

        whole = self.unfolded() if isinstance(self, Answer) else self
        main = self.main_table if isinstance(self, Answer) else 0
        return frame(_chosen(whole.tables(), main if table is None else table))

    def _repr_mimebundle_(self: Report, **_: Any) -> dict[str, str]:
        """One line where IPython shows text: the fields, which hold everything, would fill the file of a notebook."""
        return {"text/plain": f"{type(self).__name__}: {self.conventions}"}

    def _repr_html_(self: Report) -> str:
        """The report as a notebook shows it; a huge one in part, saying what is left out."""
        from tfinspect.render.to_html import html

        return html(self)


def _chosen(tables: tuple[Table, ...], wanted: int | str) -> Table:
    if isinstance(wanted, str):
        exact = [table for table in tables if table.title == wanted]
        begun = [table for table in tables if table.title.casefold().startswith(wanted.casefold())]
        if exact or len(begun) == 1:
            return (exact or begun)[0]
    elif -len(tables) <= wanted < len(tables):
        return tables[wanted]
    titles = "; ".join(f"{number} {table.title}" for number, table in enumerate(tables))
    raise InputError(f"there is no table {wanted!r} here", f"the tables are: {titles}")
