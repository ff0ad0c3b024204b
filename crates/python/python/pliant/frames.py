"""Tables as those of other libraries, and as text for notebooks. The methods of `Table` call these functions."""

from __future__ import annotations

import html
import os
from typing import TYPE_CHECKING, Any, Iterable, Union

from .errors import FileError
from .extras import missing

if TYPE_CHECKING:
    from ._pliant import Platform, Run, Table, Workload

ROWS_SHOWN = 10
#: The highest frame of a chart in a notebook, in pixels; what is longer is scrolled.
HIGHEST = 1_200


def _height(least: int, of_cluster: int, run: Run) -> int:
    """The height of a chart of all clusters of a run, in pixels."""
    return min(least + of_cluster * len(run.summary["clusters"]), HIGHEST)


def to_pyarrow(table: Table) -> Any:
    """A `pyarrow.Table` on the same memory."""
    try:
        import pyarrow
    except ImportError as error:
        raise missing("pyarrow") from error
    return pyarrow.table(table)


def to_pandas(table: Table) -> Any:
    """A `pandas.DataFrame`: by pyarrow where it is installed, else of lists."""
    try:
        import pandas
    except ImportError as error:
        raise missing("pandas") from error
    try:
        import pyarrow
    except ImportError:
        return pandas.DataFrame(table.to_pydict())
    return pyarrow.table(table).to_pandas()


def to_polars(table: Table) -> Any:
    """A `polars.DataFrame` on the same memory."""
    try:
        import polars
    except ImportError as error:
        raise missing("polars") from error
    return polars.DataFrame(table)


def table_html(table: Table) -> str:
    """The first rows of a table."""
    rows = zip(*table.to_pydict(rows=ROWS_SHOWN).values())
    return _rows_html(table.column_names, rows, f"{len(table):,} rows")


def workload_html(workload: Workload) -> str:
    """The first jobs of a workload."""
    rows = zip(*workload.jobs.to_pydict(rows=ROWS_SHOWN).values())
    return _rows_html(workload.jobs.column_names, rows, f"{workload.name}: {len(workload):,} jobs")


def platform_html(platform: Platform) -> str:
    """The clusters of a platform."""
    clusters = platform.clusters
    rows = ([cluster["name"], cluster["procs"], cluster["speed"], cluster["batch"]] for cluster in clusters)
    note = f"{len(clusters):,} clusters, {platform.total_procs:,} processors"
    return _rows_html(["name", "procs", "speed", "batch"], rows, note)


def _rows_html(columns: Iterable[str], rows: Iterable[Iterable[object]], note: str) -> str:
    """Rows as a table with a note under it."""

    def row(tag: str, cells: Iterable[object]) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(str(cell))}</{tag}>" for cell in cells) + "</tr>"

    body = "".join(row("td", cells) for cells in rows)
    return f"<table><thead>{row('th', columns)}</thead><tbody>{body}</tbody></table><p>{html.escape(note)}</p>"


class Figure:
    """A figure that a notebook shows: an HTML page that needs nothing else. `height` is that of its frame there, in pixels."""

    def __init__(self, page: str, title: str, height: int) -> None:
        self.page = page
        self.title = title
        self.height = height

    def write(self, path: Union[str, os.PathLike[str]]) -> None:
        """Writes the page to a file."""
        try:
            with open(path, "w", encoding="utf-8") as file:
                file.write(self.page)
        except OSError as error:
            raise FileError(f"{os.fspath(path)}: {error.strerror}") from error

    def _repr_html_(self) -> str:
        # In a frame of its own: its script and its style touch nothing else in a notebook.
        page, title = html.escape(self.page, quote=True), html.escape(self.title, quote=True)
        style = f"width:100%;height:{self.height}px;border:0"
        return f'<iframe sandbox="allow-scripts" style="{style}" srcdoc="{page}" title="{title}"></iframe>'

    def __repr__(self) -> str:
        return f"Figure({self.title})"


def report(run: Run) -> Figure:
    """The page of a run."""
    return Figure(run.report_html(), run.name, 900)


def run_html(run: Run) -> str:
    """The page of a run, as a notebook shows it."""
    return report(run)._repr_html_()


class GanttChart(Figure):
    """The Gantt chart of a run."""

    def __init__(self, run: Run) -> None:
        super().__init__(run._gantt_html(), f"{run.name}: schedule", _height(590, 130, run))
        self.run = run

    def plot(self, ax: Any = None) -> Any:
        """Draws the chart with matplotlib into `ax`, by default new axes, which it returns."""
        from .plots import plot_gantt

        return plot_gantt(self.run, ax)


class UtilizationChart(Figure):
    """Utilization and queue length of a run over time."""

    def __init__(self, run: Run) -> None:
        super().__init__(run._utilization_html(), f"{run.name}: utilization", _height(250, 150, run))
        self.run = run

    def plot(self, ax: Any = None) -> Any:
        """Draws the chart with matplotlib into `ax`, by default new axes, which it returns: the utilization of each cluster, and on
        axes of its own at the right the number of waiting jobs of all clusters."""
        from .plots import plot_utilization

        return plot_utilization(self.run, ax)


def gantt(run: Run) -> GanttChart:
    """The Gantt chart of a run."""
    return GanttChart(run)


def utilization(run: Run) -> UtilizationChart:
    """Utilization and queue length of a run over time."""
    return UtilizationChart(run)
