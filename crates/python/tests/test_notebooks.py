"""The notebooks run from their first cell to their last, and their outputs hold what their texts say."""

import html
import math
import os
import re
from pathlib import Path

import nbformat
import pytest
from federation import Federation, federation  # noqa: F401
from nbclient import NotebookClient

NOTEBOOKS = Path(__file__).resolve().parents[1] / "examples" / "notebooks"
LOG = "KTH-SP2-1996-2.1-cln.swf.gz"


class Outputs:
    """What the cells of an executed notebook show, by the IDs of the cells."""

    def __init__(self, notebook: nbformat.NotebookNode) -> None:
        self.cells = {cell["id"]: cell["outputs"] for cell in notebook.cells if cell.cell_type == "code"}

    def printed(self, cell: str) -> str:
        return "".join(output["text"] for output in self.cells[cell] if output["output_type"] == "stream")

    def value(self, cell: str, kind: str = "text/plain") -> str:
        """The value of the last line of a cell."""
        (value,) = (output["data"][kind] for output in self.cells[cell] if output["output_type"] == "execute_result")
        return value

    def table(self, cell: str) -> dict[str, list[str]]:
        """The rows of a data frame by their index."""
        rows = re.findall(r"<tr>\s*<th>(.*?)</th>(.*?)</tr>", self.value(cell, "text/html"), re.DOTALL)
        return {index: re.findall(r"<td>(.*?)</td>", cells) for index, cells in rows}

    def sections(self, cell: str) -> list[str]:
        """The headings that the page of a figure shows."""
        return re.findall(r"<section><h2>(.*?)</h2>", html.unescape(self.value(cell, "text/html")))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which notebooks run. Kernels of the user are not found, and nothing is written to the home folder."""
    for variable in ("JUPYTER_DATA_DIR", "JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR"):
        monkeypatch.setenv(variable, str(tmp_path / variable))
    (tmp_path / "run").mkdir()
    return tmp_path / "run"


def execute(name: str, folder: Path) -> Outputs:
    """Executes a notebook with the Python of the tests. An exception of a cell is raised with its traceback."""
    notebook = nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4)
    NotebookClient(notebook, kernel_name="python3", timeout=300, resources={"metadata": {"path": str(folder)}}).execute()
    return Outputs(notebook)


def test_each_notebook_is_tested() -> None:
    assert {path.stem for path in NOTEBOOKS.glob("*.ipynb")} == {"log_to_figure", "own_policy", "submit_sweep"}


@pytest.mark.parametrize("path", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda path: path.stem)
def test_notebooks_are_valid_and_hold_no_outputs(path: Path) -> None:
    notebook = nbformat.read(path, as_version=nbformat.NO_CONVERT)
    nbformat.validate(notebook)
    assert (notebook.nbformat, notebook.nbformat_minor) == (4, 5)
    for cell in notebook.cells:
        assert cell["source"].strip()
        if cell.cell_type == "code":
            assert (cell["outputs"], cell["execution_count"]) == ([], None), cell["id"]


def test_progress_is_shown_without_a_warning(folder: Path) -> None:
    code = "import pliant; run = pliant.simulate(pliant.generate('lublin', procs=8, jobs=200), procs=8, progress=True)"
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code, id="run")])
    NotebookClient(notebook, kernel_name="python3", timeout=300, resources={"metadata": {"path": str(folder)}}).execute()
    shown = Outputs(notebook).printed("run")
    # As text, or, where ipywidgets is installed, as a widget.
    assert "Warning" not in shown
    assert "200/200" in shown or "widget" in str(Outputs(notebook).cells["run"])


@pytest.mark.parametrize("logs", [False, True], ids=["generated", "log"])
def test_from_a_log_to_a_figure(logs: bool, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not logs:
        monkeypatch.delenv("PLIANT_TRACES", raising=False)
    elif not Path(os.environ.get("PLIANT_TRACES", "/nowhere"), LOG).exists():
        pytest.skip(f"{LOG} is not there")
    outputs = execute("log_to_figure", folder)
    name = "KTH-SP2-1996-2.1-cln: 28467" if logs else "lublin: 5000"
    assert outputs.value("log") == f"Workload({name} jobs)"
    assert len(outputs.table("columns")) == 5
    assert outputs.sections("gantt") == ["Schedule"]
    assert outputs.sections("utilization") == ["Utilization and queue length"]
    assert "<canvas" in (folder / "gantt.html").read_text()
    assert (folder / "figure.pdf").read_bytes().startswith(b"%PDF")
    assert any("image/png" in output.get("data", {}) for output in outputs.cells["figure"])
    metrics = {metric: [float(value) for value in row] for metric, row in outputs.table("compare").items()}
    assert set(metrics) == {"mean_wait_s", "p90_wait_s", "mean_bounded_slowdown", "utilization"}
    fcfs, easy = metrics["mean_wait_s"]
    assert 0 < easy < fcfs
    assert re.search(rf"^mean +{easy:.0f}\.0$", outputs.value("run"), re.MULTILINE)


def test_a_policy_of_ones_own(folder: Path) -> None:
    outputs = execute("own_policy", folder)
    rows = {name: [float(value) for value in row] for name, row in outputs.table("compare").items()}
    mean_wait, max_wait = ({name: row[column] for name, row in rows.items()} for column in (0, 1))
    # What the text under the table says.
    assert mean_wait["FirstFit"] < mean_wait["easy"] < mean_wait["fcfs"]
    assert max_wait["FirstFit"] > max_wait["easy"]
    assert max_wait["easy, response_ratio"] < max_wait["easy, shortest first"]
    assert "expected a start of at most" in outputs.printed("check")


def test_a_job_and_a_sweep(folder: Path, federation: Federation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLIANT_CONFIG", str(federation.config))
    outputs = execute("submit_sweep", folder)
    assert all(server in outputs.value("estimate") for server in ("bordeaux", "lyon", "toulouse"))
    assert re.match(r"\w+\.\d+ COMPLETED\n", outputs.printed("submit")) and "pi is 3." in outputs.printed("submit")
    assert outputs.printed("sweep") == "20 completed, 0 failed\n"
    rows = list(outputs.table("results").values())
    assert [seed for seed, *_ in rows] == [str(seed) for seed in range(1, 21)]
    assert {state for _, _, state, _ in rows} == {"completed"}
    assert len({pi for *_, pi in rows}) > 10, "the seed changes nothing"
    mean = re.fullmatch(r"pi is about ([0-9.]+)\n", outputs.printed("mean"))
    # Of two million points the standard error is 0.0012.
    assert mean and abs(float(mean[1]) - math.pi) < 0.01
    assert (folder / "pi-sweep" / "results.csv").exists()
