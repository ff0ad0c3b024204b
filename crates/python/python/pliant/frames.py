"""Tables as those of other libraries, and as text for notebooks. The methods of `Table` call these functions."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._pliant import Run, Table

ROWS_SHOWN = 10


def to_pyarrow(table: Table) -> Any:
    """A `pyarrow.Table` on the same memory."""
    import pyarrow

    return pyarrow.table(table)


def to_pandas(table: Table) -> Any:
    """A `pandas.DataFrame`: by pyarrow where it is installed, else of lists."""
    try:
        import pyarrow
    except ImportError:
        import pandas

        return pandas.DataFrame(table.to_pydict())
    return pyarrow.table(table).to_pandas()


def to_polars(table: Table) -> Any:
    """A `polars.DataFrame` on the same memory."""
    import polars

    return polars.DataFrame(table)


def table_html(table: Table) -> str:
    """The first rows of a table."""

    def row(tag: str, cells: Any) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(str(cell))}</{tag}>" for cell in cells) + "</tr>"

    rows = zip(*table.to_pydict(rows=ROWS_SHOWN).values())
    body = "".join(row("td", cells) for cells in rows)
    note = f"<p>{len(table):,} rows</p>"
    return f"<table><thead>{row('th', table.column_names)}</thead><tbody>{body}</tbody></table>{note}"


def run_html(run: Run) -> str:
    """The page of a run, in a frame of its own: its script and its style touch nothing else in a notebook."""
    page = html.escape(run.report_html(), quote=True)
    style = "width:100%;height:900px;border:0"
    return f'<iframe sandbox="allow-scripts" style="{style}" srcdoc="{page}" title="{html.escape(run.name)}"></iframe>'
