"""Campaigns: many simulations, in parallel, kept in a folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional

from .frames import Figure
from .progress import reported

if TYPE_CHECKING:
    from ._pliant import Campaign
    from .progress import Progress


class CampaignRun:
    """What is in the folder of a campaign after a run of it."""

    def __init__(self, folder: Path, facts: dict[str, Any]) -> None:
        self.folder = folder
        self.name: str = facts["name"]
        self.kind: str = facts["kind"]
        self.simulated: int = facts["simulated"]
        """Runs that were simulated now."""
        self.kept: int = facts["kept"]
        """Runs that were in the folder before."""
        self.planned: int = facts["planned"]
        """Runs of the whole campaign."""
        self.damaged: int = facts["damaged"]
        """Damaged records, whose runs were simulated again."""
        self.runs: list[dict[str, Any]] = facts["runs"]
        """The runs of a campaign of simulations with their metrics, in order; a data frame takes them as they are."""
        self._page: str = facts["page"]

    def report_html(self) -> str:
        """The page of ``pliant report``: one HTML file that needs nothing else."""
        return self._page

    def _repr_html_(self) -> str:
        return Figure(self._page, self.name, 900)._repr_html_()

    def __repr__(self) -> str:
        return f"CampaignRun({self.name}: {self.simulated} simulated, {self.kept} kept of {self.planned}, in {self.folder})"


def run(
    campaign: Campaign,
    out: Path,
    threads: Optional[int],
    shard: Optional[str],
    progress: Progress,
) -> CampaignRun:
    """Runs what is left of a campaign in a folder."""
    with reported(progress, "runs") as report:
        facts = campaign._run(out, 0 if threads is None else threads, "1/1" if shard is None else shard, report.call)
    return CampaignRun(Path(out), facts)
