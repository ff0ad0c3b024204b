"""Whatever is given, the interpreter lives, and what is wrong is an exception of the package. A panic is a `PanicException`, which no test here
takes. PLIANT_EXAMPLES says how many inputs are made up for each test (200; 10,000 by hand)."""

import json
import os
import pickle
from pathlib import Path
from typing import Optional

import pyarrow
import pytest

pytest.importorskip("hypothesis")

from hypothesis import HealthCheck, given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

import pliant  # noqa: E402

many = settings(
    max_examples=int(os.environ.get("PLIANT_EXAMPLES", "200")),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
JOBS = pliant.generate("lublin", procs=8, jobs=12, load=0.9, seed=3)

WORDS = ["", "cbf", "easy", "fcfs", "h1", "luck", "paper", "regular", "minmin", "mct", "random", "wfp3", "1h", "none", "grid5000", "\0", "é"]
# Small numbers, since a large one may be a long simulation, and those at the ends of types.
NUMBERS = st.integers(-3, 40) | st.sampled_from([2**31, 2**32 - 1, 2**32, 2**63 - 1, 2**63, 2**64, -(2**63), 10**30])
VALUES = st.none() | st.booleans() | NUMBERS | st.floats() | st.sampled_from(WORDS) | st.text(max_size=4) | st.lists(st.integers(-1, 2), max_size=2)
OPTIONS = ["batch", "order", "aging", "ties", "moldable", "tuner", "slack", "share", "mapping", "realloc", "heuristic"]
OPTIONS += ["period", "threshold", "window", "plan_by", "dedicated_share", "seed"]


@many
@given(st.dictionaries(st.sampled_from(OPTIONS), VALUES, max_size=4), st.one_of(st.just(8), VALUES))
def test_any_options_give_a_run_or_an_error(options: dict, procs: object) -> None:
    try:
        run = pliant.simulate(JOBS, procs=procs, **options)  # type: ignore[arg-type]
    except (pliant.PliantError, TypeError):
        return
    assert len(run.jobs) + len(run.refused) == len(JOBS)


@many
@given(st.dictionaries(st.sampled_from(["name", "procs", "speed", "batch", "order"]), VALUES, max_size=4))
def test_any_cluster_is_a_platform_or_an_error(cluster: dict) -> None:
    try:
        platform = pliant.Platform.of_clusters([{"name": "a", "procs": 4, **cluster}])
    except (pliant.PliantError, TypeError):
        return
    assert len(platform.clusters) == 1


GENERATED = st.fixed_dictionaries(
    # So many jobs at most: the bounds of the generators permit millions.
    {"jobs": st.integers(-3, 60) | st.sampled_from([2**31, 2**32, 2**63, -(2**63), 10**30]) | st.floats() | st.text(max_size=3)},
    optional={name: VALUES for name in ("seed", "month", "days", "load", "walltime_max", "procs", "platform")},
)
KINDS = st.sampled_from(["lublin", "uniform", "gaussian", "federation", "grid5000", "pwa-g5k", "luck"])


@many
@given(KINDS | VALUES, GENERATED)
def test_any_generator_gives_jobs_or_an_error(kind: object, options: dict) -> None:
    try:
        jobs = pliant.generate(kind, **options)  # type: ignore[arg-type]
    except (pliant.PliantError, TypeError):
        return
    assert len(jobs) == options["jobs"]
    columns = jobs.jobs.to_pydict()
    assert all(1 <= runtime <= walltime for runtime, walltime in zip(columns["runtime"], columns["walltime"]))


LINE = "1 0 5 30 2 -1 -1 2 60 -1 1 3 1 -1 1 -1 -1 -1"
FIELDS = st.sampled_from(["-1", "0", "1", "30", "1e9", "nan", "-5", "99999999999999999999", "x", "4294967296", ";"])
LINES = st.lists(st.lists(FIELDS, min_size=16, max_size=19).map(" ".join) | st.just(LINE) | st.text(max_size=12), max_size=6).map("\n".join)
DOCUMENTS = {
    "toml": '[workload]\ngenerate = "lublin"\njobs = 5\nprocs = 4\nseed = 1\n',
    "json": '{"nb_res": 4, "jobs": [{"id": "1", "subtime": 0, "res": 2, "walltime": 9, "profile": "p"}], "profiles": {"p": {"type": "delay", "delay": 3}}}',
    "gwf": LINE,
}


def damaged(text: str) -> st.SearchStrategy[str]:
    """The text with a piece of it replaced."""
    piece = st.tuples(st.integers(0, len(text)), st.integers(0, 8), st.text(max_size=4) | NUMBERS.map(str))
    return piece.map(lambda cut: text[: cut[0]] + cut[2] + text[cut[0] + cut[1] :])


@many
@given(
    st.one_of(
        st.tuples(st.just("swf"), LINES.map(str.encode)),
        *(st.tuples(st.just(kind), damaged(text).map(str.encode)) for kind, text in DOCUMENTS.items()),
        st.tuples(st.sampled_from(["swf", "swf.gz", "gwf", "json", "toml", "x"]), st.binary(max_size=60)),
    )
)
def test_any_file_is_a_workload_or_an_error(tmp_path: Path, made: tuple) -> None:
    ending, content = made
    path = tmp_path / f"log.{ending}"
    path.write_bytes(content)
    try:
        jobs = pliant.read_workload(path)
        list(jobs.jobs.to_pydict())
        pliant.simulate(jobs, procs=4)
    except pliant.PliantError:
        pass


NEEDED = {name: st.lists(st.integers(1, 9), min_size=2, max_size=2) for name in ("submit", "procs", "runtime")}
NAMES = st.sampled_from(["submit", "procs", "walltime", "job", "user", "group", "executable", "cluster", "job_id", "wall_time", "wait_time"])
OF_ONE_TYPE = st.sampled_from([st.integers(-3, 20), st.floats(), st.text(max_size=3), st.binary(max_size=3), st.booleans(), st.none()])
CELLS = OF_ONE_TYPE.flatmap(lambda values: st.lists(values | st.none(), min_size=2, max_size=2))


@many
@given(st.fixed_dictionaries(NEEDED), st.dictionaries(NAMES | st.text(max_size=5), CELLS, max_size=4), st.sampled_from([None, *NEEDED]))
def test_any_columns_are_a_workload_or_an_error(needed: dict, others: dict, absent: Optional[str]) -> None:
    columns = {name: values for name, values in {**needed, **others}.items() if name != absent}
    try:
        jobs = pliant.Workload.of_table(pyarrow.table(columns))
    except pliant.InputError:
        return
    numbers = jobs.jobs.to_pydict()["job"]
    assert absent is None and len(set(numbers)) == len(numbers) == 2
    assert jobs._repr_html_().count("<tr>") == 3


PLATFORM = '[[cluster]]\nname = "a"\nprocs = 32\nspeed = 1.5\nbatch = "easy"\n[[cluster]]\nname = "b"\nprocs = 8\n'
CAMPAIGN = (
    'name = "orders"\nseeds = [1, 2]\n[[workload]]\nname = "lublin"\ngenerate = "lublin"\njobs = 10\nprocs = 8\n'
    '[[policy]]\nname = "easy"\nbatch = "easy"\norder = "sjf"\n'
)


@many
@given(damaged(PLATFORM).map(str.encode) | st.binary(max_size=40))
def test_any_file_is_a_platform_or_an_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "platform.toml"
    path.write_bytes(content)
    try:
        platform = pliant.Platform.read(path)
    except pliant.PliantError:
        return
    assert platform.total_procs == sum(cluster["procs"] for cluster in platform.clusters) > 0
    assert pickle.loads(pickle.dumps(platform)).clusters == platform.clusters


@many
@given(damaged(CAMPAIGN).map(str.encode) | st.binary(max_size=40))
def test_any_file_is_a_campaign_or_an_error(tmp_path: Path, content: bytes) -> None:
    # It is not run: a digit more is a long campaign.
    path = tmp_path / "campaign.toml"
    path.write_bytes(content)
    try:
        campaign = pliant.Campaign(path)
    except pliant.PliantError:
        return
    assert repr(campaign) and campaign.skipped == []


RETURNED = VALUES | st.lists(NUMBERS, max_size=4) | st.lists(st.floats(), max_size=4) | st.dictionaries(NUMBERS, NUMBERS, max_size=2)


@many
@given(st.lists(RETURNED, min_size=1, max_size=3), st.sampled_from(["batch", "order", "tuner", "mapping", "heuristic"]))
def test_a_policy_may_return_anything(returned: list, kind: str) -> None:
    count = 0

    def give(*_: object) -> object:
        nonlocal count
        count += 1
        return returned[count % len(returned)]

    base, method, more = {
        "batch": (pliant.BatchPolicy, "schedule", {}),
        "order": (pliant.QueueOrder, "ranks", {"batch": "easy"}),
        "tuner": (pliant.SizingRule, "choose", {"moldable": "paper"}),
        "mapping": (pliant.MappingRule, "choose", {}),
        "heuristic": (pliant.HeuristicRule, "urgencies", {"realloc": "regular", "period": 60, "threshold": 0}),
    }[kind]
    policy = type("Own", (base,), {method: give})()
    try:
        run = pliant.simulate(JOBS, platform=[{"name": "a", "procs": 8}, {"name": "b", "procs": 8}], **{kind: policy}, **more)
    except pliant.PolicyError:
        return
    assert len(run.jobs) == len(JOBS)


STATES = [thing.__reduce__() for thing in (JOBS, pliant.Platform.single(8), pliant.simulate(JOBS, procs=8))]


def changed(value: object, draw: st.DrawFn) -> object:
    """The state with one value replaced somewhere inside."""
    if isinstance(value, dict) and value and draw(st.integers(0, 9)):
        key = draw(st.sampled_from(sorted(value)))
        return {**value, key: changed(value[key], draw)}
    if isinstance(value, list) and value and draw(st.integers(0, 9)):
        index = draw(st.integers(0, len(value) - 1))
        return [*value[:index], changed(value[index], draw), *value[index + 1 :]]
    return draw(VALUES | st.just({}))


@many
@given(st.data())
def test_any_pickle_is_an_object_or_an_error(data: st.DataObject) -> None:
    restore, (text,) = data.draw(st.sampled_from(STATES))
    state = changed(json.loads(text), data.draw)
    try:
        thing = restore(json.dumps(state))
    except pliant.PliantError:
        return
    # What is taken is whole: all of it can be used.
    repr(thing)
    pickle.loads(pickle.dumps(thing))
    for name in ("jobs", "moves", "refused"):
        if hasattr(thing, name):
            getattr(thing, name).to_pydict()
    try:
        if isinstance(thing, pliant.Run):
            thing.report_html()
            thing._bins()
            thing._bars()
        elif isinstance(thing, pliant.Workload):
            pliant.simulate(thing, procs=8)
        else:
            pliant.simulate(JOBS, platform=thing)
    except pliant.PliantError:
        pass


CLIENT_FILE = """user = "alice"
certificate = "alice.pem"
[[agent]]
name = "master"
address = "127.0.0.1:9"
"""


@many
@given(damaged(CLIENT_FILE) | st.text(max_size=30))
def test_any_client_file_is_an_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "client.toml"
    path.write_bytes(text.encode(errors="surrogatepass"))
    with pytest.raises(pliant.PliantError):
        pliant.Client(path)
