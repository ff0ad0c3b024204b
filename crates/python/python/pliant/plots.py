"""Figures of runs by matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .extras import missing

if TYPE_CHECKING:
    from ._pliant import Run

#: The units of an axis of time: from which length on, s, with its seconds.
_UNITS = (("days", 3 * 86_400, 86_400), ("hours", 3 * 3_600, 3_600), ("seconds", 0, 1))


def plot_gantt(run: Run, ax: Any = None) -> Any:
    """Draws the jobs of a run on their processors: time to the right, processors upwards, one cluster above the other."""
    axes = _axes(ax)
    import numpy
    from matplotlib import colormaps
    from matplotlib.collections import PolyCollection

    bars = run._bars().to_pydict()
    base, above = {}, 0
    for name, procs in run._clusters():
        base[name] = above
        above += procs
    unit, seconds = _unit(max(bars["end"], default=0))
    begin, end = (numpy.asarray(bars[column], float) / seconds for column in ("start", "end"))
    low = numpy.asarray([base[cluster] + first for cluster, first in zip(bars["cluster"], bars["first"])], float)
    high = low + numpy.asarray(bars["procs"], float)
    corners = numpy.stack([begin, low, begin, high, end, high, end, low], axis=-1).reshape(-1, 4, 2)
    palette = colormaps["tab20"]
    colours = [palette(job % palette.N) for job in bars["job"]]
    axes.add_collection(PolyCollection(list(corners), facecolors=colours, edgecolors="black", linewidths=0.2))
    axes.set_xlim(0, end.max() if len(end) else 1)
    axes.set_ylim(0, above)
    axes.set_xlabel(f"time, {unit}")
    if len(base) == 1:
        axes.set_ylabel("processors")
    else:
        for bottom in list(base.values())[1:]:
            axes.axhline(bottom, color="black", linewidth=0.8)
        edges = [*base.values(), above]
        axes.set_yticks([(lower + upper) / 2 for lower, upper in zip(edges, edges[1:])], list(base))
    axes.set_title(run.name)
    return axes


def plot_utilization(run: Run, ax: Any = None) -> Any:
    """Draws the utilization of each cluster over time, and the number of waiting jobs."""
    axes = _axes(ax)
    bins = run._bins().to_pydict()
    clusters = [name for name, _ in run._clusters()]
    count = len(bins["begin"]) // len(clusters)
    edges = [*bins["begin"][:count], bins["end"][count - 1]]
    unit, seconds = _unit(edges[-1])
    edges = [edge / seconds for edge in edges]
    waiting = [0.0] * count
    for index, name in enumerate(clusters):
        rows = slice(index * count, (index + 1) * count)
        axes.stairs([100 * share for share in bins["utilization"][rows]], edges, label=name)
        waiting = [total + queue for total, queue in zip(waiting, bins["queue"][rows])]
    axes.set_xlim(edges[0], edges[-1])
    axes.set_ylim(0, 100)
    axes.set_xlabel(f"time, {unit}")
    axes.set_ylabel("utilization, %")
    if len(clusters) > 1:
        axes.legend()
    right = axes.twinx()
    right.stairs(waiting, edges, color="grey", linestyle="--")
    right.set_ylim(bottom=0)
    right.set_ylabel("waiting jobs (dashed)")
    axes.set_title(run.name)
    return axes


def _axes(ax: Any) -> Any:
    try:
        import matplotlib.pyplot
    except ImportError as error:
        raise missing("matplotlib") from error
    return matplotlib.pyplot.subplots()[1] if ax is None else ax


def _unit(length: float) -> tuple[str, int]:
    return next((name, seconds) for name, least, seconds in _UNITS if length >= least)
