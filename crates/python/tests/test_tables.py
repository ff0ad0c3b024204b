"""Tables go to and come from other libraries without loss, and wrong ones are errors that name the row."""

import ctypes
import gc
import os
import subprocess
import sys
from decimal import Decimal

import duckdb
import pandas
import polars
import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pliant

EXAMPLES = int(os.environ.get("PLIANT_EXAMPLES", "10_000"))
JOBS = {"submit": [0, 5, 9], "procs": [2, 4, 1], "runtime": [30, 20, 10], "walltime": [60, 20, 90]}


def test_tables_of_other_libraries_give_the_same_run(workload: pliant.Workload) -> None:
    expected = pliant.simulate(workload, procs=128).jobs.to_pydict()
    jobs = workload.jobs
    tables = {
        "pandas": jobs.to_pandas(),
        "polars": jobs.to_polars(),
        "pyarrow": jobs.to_pyarrow(),
        "duckdb": duckdb.sql("select * from jobs").to_arrow_table(),
        "duckdb, a relation": duckdb.sql("select * from jobs"),
        "itself": jobs,
    }
    for name, table in tables.items():
        assert pliant.simulate(table, procs=128).jobs.to_pydict() == expected, name


def test_results_have_the_columns_of_the_files() -> None:
    run = pliant.simulate(polars.DataFrame(JOBS), procs=4)
    jobs = run.jobs
    assert jobs.column_names == [
        "job", "cluster", "submit", "start", "end", "procs", "walltime", "moves", "managed", "reason",
    ]  # fmt: skip
    frame = jobs.to_pandas()
    assert list(frame["start"]) == [0, 30, 50] and list(frame["end"]) == [30, 50, 60]
    assert frame["cluster"].dtype == "category" and frame["managed"].all()
    assert jobs.to_polars()["end"].to_list() == [30, 50, 60]
    assert jobs.to_pyarrow().schema.field("job").type == pyarrow.uint64()
    assert "<td>30</td>" in jobs._repr_html_() and "3 rows" in jobs._repr_html_()
    assert (run.summary["jobs"], run.summary["makespan_s"]) == (3, 60)


def test_no_copy_is_made() -> None:
    table = pliant.simulate(polars.DataFrame(JOBS), procs=4).jobs
    first, second = (table.to_pyarrow().column("start").chunk(0).buffers()[1] for _ in range(2))
    assert first.address == second.address
    polars_start = table.to_polars()["start"].to_numpy(allow_copy=False)
    assert polars_start.__array_interface__["data"][0] == first.address
    # The memory stays while one of its users does.
    del table, second, polars_start
    gc.collect()
    assert list((ctypes.c_int64 * 3).from_address(first.address)) == [0, 30, 50]


def test_clusters_are_found_by_name() -> None:
    table = pandas.DataFrame({**JOBS, "cluster": ["b", "a", "b"]})
    clusters = [{"name": "a", "procs": 8}, {"name": "b", "procs": 8}]
    run = pliant.simulate(table, platform=clusters, mapping="given")
    assert run.jobs.to_pydict()["cluster"] == ["b", "a", "b"]


def test_rows_are_sorted_by_submission() -> None:
    table = pandas.DataFrame({"job": [7, 8], "submit": [1_000, 900], "procs": [1, 1], "runtime": [5, 5]})
    jobs = pliant.simulate(table, procs=1).jobs.to_pydict()
    assert (jobs["job"], jobs["submit"], jobs["start"]) == ([8, 7], [0, 100], [0, 100])


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_times_have_types_of_their_own(unit: str) -> None:
    begin = 1_700_000_000
    submits = [begin, begin + 5, begin + 9]
    per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]

    def column(values: list, kind: pyarrow.DataType) -> pyarrow.Array:
        return pyarrow.array([None if value is None else value * per_second for value in values], pyarrow.int64()).cast(kind)

    expected = pliant.simulate(pyarrow.table({**JOBS, "walltime": [60, 20, 10]}), procs=4).jobs.to_pydict()
    for zone in (None, "Europe/Paris"):
        table = pyarrow.table({
            "submit": column(submits, pyarrow.timestamp(unit, zone)),
            "procs": JOBS["procs"],
            "runtime": column(JOBS["runtime"], pyarrow.duration(unit)),
            "walltime": column([60, None, None], pyarrow.duration(unit)),
        })  # fmt: skip
        assert pliant.simulate(table, procs=4).jobs.to_pydict() == expected
    # After the first submission, as a length of time.
    lengths = pyarrow.table({**JOBS, "submit": column([0, 5, 9], pyarrow.duration(unit))})
    assert pliant.Workload.of_table(lengths).jobs.to_pydict()["submit"] == [0, 5, 9]


def test_times_of_data_frames() -> None:
    frame = pandas.DataFrame({
        "submit": pandas.to_datetime(["2026-01-01 08:00:00", "2026-01-01 08:00:05"]),
        "procs": [2, 4],
        "runtime": pandas.to_timedelta(["00:00:30", "00:01:00"]),
    })  # fmt: skip
    for table in (frame, polars.from_pandas(frame)):
        jobs = pliant.simulate(table, procs=4).jobs.to_pydict()
        assert (jobs["submit"], jobs["start"], jobs["end"]) == ([0, 5], [0, 30], [30, 90])


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ([3, 1, 3], "row 0: .* found a value of the type Int64"),
        ([None, ["a"], None], "row 1: .* found a value of the type List"),
        ([b"a", b"b", b"a"], "row 0: .* found a value of the type Binary"),
        ([None, None, True], "row 2: .* found a value of the type Boolean"),
        (pyarrow.array([3, 1, 3]).dictionary_encode(), "row 0: .* found a value of the type Int64"),
        (pyarrow.DictionaryArray.from_arrays(pyarrow.array([0, 1, 7], pyarrow.int8()), ["a", "b"], safe=False),
         "row 2: .* found the key 7 of a dictionary with 2 values"),
        (pyarrow.DictionaryArray.from_arrays(pyarrow.array([0, -1, 0], pyarrow.int8()), ["a", "b"], safe=False), "row 1: .* found the key -1"),
    ],
)  # fmt: skip
def test_a_cluster_that_is_no_text_is_an_error(values, found: str) -> None:
    with pytest.raises(pliant.InputError, match=found.replace("row", "^row").replace(": .*", ": cluster: .*", 1)):
        pliant.Workload.of_table(pyarrow.table({**JOBS, "cluster": values}))


def test_rows_count_from_the_begin_of_the_table() -> None:
    table = pyarrow.concat_tables([pyarrow.table(JOBS), pyarrow.table({**JOBS, "procs": [1, 0, 1]})])
    with pytest.raises(pliant.InputError, match="row 4: procs: .* found 0"):
        pliant.Workload.of_table(table)


def test_decimals_are_errors_of_the_package() -> None:
    halves = [Decimal("0.5"), Decimal("1.25"), Decimal(2)]
    for column in (pyarrow.array(halves), pyarrow.array(halves, pyarrow.decimal128(5, 2))):
        with pytest.raises(pliant.InputError, match="row 0: submit: .* found a value of the type Decimal"):
            pliant.Workload.of_table(pyarrow.table({**JOBS, "submit": column}))
    for values in (halves, [Decimal("NaN"), Decimal("Infinity"), Decimal(1)], [Decimal(1), "x", b"y"]):
        with pytest.raises(pliant.InputError):
            pliant.Workload.of_table(pandas.DataFrame({**JOBS, "submit": values}))
    with pytest.raises(pliant.InputError):
        pliant.Workload.of_table(duckdb.sql("select 0.5 as submit, 1 as procs, 2 as runtime"))


def test_without_the_library_the_error_says_what_to_install() -> None:
    for package in ("pandas", "polars", "pyarrow"):
        code = (
            f"import sys; sys.modules['{package}'] = None\n"
            "import pliant\n"
            f"try: pliant.generate('lublin', jobs=5, procs=4).jobs.to_{package}()\n"
            "except ImportError as error: print(error)\n"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout == f"expected the package {package}, found none: pip install {package}\n"


def test_wrong_tables_are_errors() -> None:
    def check(words: str, **columns) -> None:
        with pytest.raises(pliant.InputError, match=words):
            pliant.simulate(pyarrow.table({**JOBS, **columns}), procs=4)

    check("row 1: procs: expected a whole number from 1 to 4294967295, found 0", procs=[1, 0, 1])
    check("row 0: submit: .* found 0.5", submit=[0.5, 1.0, 2.0])
    check("row 2: submit: .* found none", submit=[0, 1, None])
    check("row 0: runtime: .* found a value of the type Utf8", runtime=["1", "2", "3"])
    halves = pyarrow.array([500, 1_000, 2_000], pyarrow.int64())
    check("row 0: submit: .* found 0.5 s", submit=halves.cast(pyarrow.timestamp("ms")))
    check("row 0: runtime: .* found 0.5 s", runtime=halves.cast(pyarrow.duration("ms")))
    check("row 0: runtime: .* found a value of the type Timestamp", runtime=halves.cast(pyarrow.timestamp("ms")))
    check("row 0: procs: .* found a value of the type Duration", procs=halves.cast(pyarrow.duration("ms")))
    check("row 0: expected a runtime of at most the walltime, found 30 and 10", walltime=[10, 10, 10])
    with pytest.raises(pliant.InputError, match="expected the column runtime, found submit, procs"):
        pliant.simulate(pyarrow.table({"submit": [0], "procs": [1]}), procs=4)
    with pytest.raises(pliant.InputError, match="expected a table with jobs, found no row"):
        pliant.simulate(pyarrow.table({name: pyarrow.array([], pyarrow.int64()) for name in JOBS}), procs=4)
    for other in ([1, 2, 3], "log.swf", JOBS):
        with pytest.raises(TypeError, match=f"expected a Workload, as of pliant.read_workload.*; found {type(other).__name__}$"):
            pliant.simulate(other, procs=4)


@pytest.mark.parametrize(
    ("found", "known"),
    [
        *[(name, "walltime") for name in ("wall_time", "Walltime", "walltime_s", "wallltime", "walltimes", "wall time")],
        *[(name, "user") for name in ("user_id", "users", "User", "usr")],
        *[("job_id", "job"), ("Job", "job"), ("groups", "group"), ("clusters", "cluster"), ("executabel", "executable")],
        *[("run_time", "runtime"), ("nprocs", "procs"), ("submits", "submit")],
    ],
)
def test_a_misspelt_column_is_an_error(found: str, known: str) -> None:
    # Without the column of that name, if the table has it.
    columns = {**{name: values for name, values in JOBS.items() if name != known}, found: [1, 2, 3]}
    words = f"^column {found}: expected a name that is not close to {known}\nhint: rename it to {known}, or drop it; the columns submit, .*ignored$"
    with pytest.raises(pliant.InputError, match=words):
        pliant.Workload.of_table(pandas.DataFrame(columns))


def test_columns_for_other_purposes_are_ignored() -> None:
    others = ("wait_time", "wait_times", "used", "uses_gpu", "queue", "status", "start", "end", "name", "job_name", "wall", "order", "état", "")
    table = {**{name: values for name, values in JOBS.items() if name != "walltime"}, **{name: [1, 2, 3] for name in others}}
    jobs = pliant.Workload.of_table(pandas.DataFrame(table)).jobs.to_pydict()
    assert jobs["walltime"] == JOBS["runtime"] and jobs["job"] == [1, 2, 3]
    # A name that is close to one that is there, too, is for another purpose.
    table = {**JOBS, "walltime_s": [1, 2, 3], "job": [7, 8, 9], "job_id": ["a", "b", "c"]}
    jobs = pliant.Workload.of_table(pandas.DataFrame(table)).jobs.to_pydict()
    assert jobs["walltime"] == JOBS["walltime"] and jobs["job"] == [7, 8, 9]


def test_a_column_is_there_once() -> None:
    table = pyarrow.Table.from_arrays([pyarrow.array([1, 2, 3])] * 4, ["submit", "procs", "runtime", "procs"])
    with pytest.raises(pliant.InputError, match="expected one column procs, found 2"):
        pliant.Workload.of_table(table)


def test_each_job_has_a_number_of_its_own() -> None:
    def check(words: str, numbers: list) -> None:
        rows = {name: [1] * len(numbers) for name in ("submit", "procs", "runtime")}
        table = pyarrow.table({**rows, "job": pyarrow.array(numbers, pyarrow.int64())})
        halves = pyarrow.Table.from_batches([*table.slice(0, 2).to_batches(), *table.slice(2).to_batches()])
        with pytest.raises(pliant.InputError, match=words):
            pliant.Workload.of_table(halves)

    check("row 3: job: expected a number that no other row has, found 7, which row 1 has\nhint: without the column job", [9, 7, 8, 7, 9])
    check("row 1: .* found 5, which row 0 has", [5, 5, 5])
    # A null gives the position of the row.
    check("row 1: .* found 2, which row 0 has", [2, None, 3])
    descending = pyarrow.table({**JOBS, "job": [3, 2, 1]})
    assert pliant.Workload.of_table(descending).jobs.to_pydict()["job"] == [3, 2, 1]


def test_workloads_and_platforms_are_shown_in_notebooks() -> None:
    jobs = pliant.generate("lublin", procs=8, jobs=1_200, seed=1)
    shown = jobs._repr_html_()
    assert "<th>runtime</th>" in shown and shown.count("<tr>") == 11 and "1,200 jobs</p>" in shown
    platform = pliant.Platform.of_clusters([{"name": "a<b", "procs": 1_000, "speed": 1.5}, {"name": "c", "procs": 24, "batch": "easy"}])
    shown = platform._repr_html_()
    assert "<td>a&lt;b</td><td>1000</td><td>1.5</td><td>cbf</td>" in shown
    assert shown.endswith("<p>2 clusters, 1,024 processors</p>")


numbers = st.integers(-(2**63), 2**63 - 1) | st.integers(-2, 500)
columns = st.lists(st.tuples(numbers, numbers, numbers, numbers), min_size=1, max_size=12)


@settings(max_examples=EXAMPLES, deadline=None)
@given(columns, st.sampled_from(["cbf", "easy", "fcfs", "backfill"]), st.integers(1, 64))
def test_any_numbers_give_a_schedule_or_an_error(rows, batch: str, procs: int) -> None:
    names = ("submit", "procs", "runtime", "walltime")
    table = pyarrow.table({name: [row[at] for row in rows] for at, name in enumerate(names)})
    try:
        run = pliant.simulate(table, procs=procs, batch=batch)
    except pliant.InputError:
        return
    # No more processors are in use at any time than there are.
    jobs = run.jobs.to_pydict()
    events = [(at, change) for start, end, procs_ in zip(jobs["start"], jobs["end"], jobs["procs"])
              for at, change in ((start, procs_), (end, -procs_))]  # fmt: skip
    used = 0
    for _, change in sorted(events):
        used += change
        assert 0 <= used <= procs
    assert len(run.jobs) + len(run.refused) == len(rows)


def test_memory_does_not_grow() -> None:
    def resident() -> int:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096

    jobs = pliant.generate("lublin", procs=128, jobs=500, seed=1)

    class Fcfs(pliant.BatchPolicy):
        def schedule(self, now, queue, free):
            return [0] if queue.procs[0] <= free else []

    class Failing(pliant.BatchPolicy):
        def schedule(self, now, queue, free):
            raise KeyError(now)

    def rounds(count: int) -> None:
        for number in range(count):
            own = number % 10 == 0
            run = pliant.simulate(jobs.jobs.to_pyarrow(), procs=128, batch=Fcfs() if own else "easy")
            run.jobs.to_pandas()
            run.summary
            if own:
                run.gantt()
                with pytest.raises(KeyError):
                    pliant.simulate(jobs, procs=128, batch=Failing())

    rounds(100)
    before = resident()
    rounds(1_000)
    # A leak of one table of 500 jobs in each round would be 40 MB.
    assert resident() - before < 10_000_000


@pytest.mark.parametrize("column", [pandas.Series([1, 2]), polars.Series([1, 2]), pyarrow.chunked_array([[1, 2]])])
def test_one_column_is_no_table(column) -> None:
    with pytest.raises(pliant.InputError, match=f"expected a table with columns, found a {type(column).__name__}"):
        pliant.simulate(column, procs=4)


def test_what_is_no_table_is_named() -> None:
    with pytest.raises(TypeError, match="found dict$"):
        pliant.simulate({"submit": [0]}, procs=4)
    with pytest.raises(TypeError, match=r"found LazyFrame, whose method collect\(\) may give one"):
        pliant.simulate(polars.DataFrame({"submit": [0], "procs": [1], "runtime": [1]}).lazy(), procs=4)
