//! A job for tests.

use pliant_control::job::{JobRecord, JobState, Work};
use pliant_control::names::Key;
use pliant_control::reason::DiscoverySummary;
use pliant_model::{Estimate, Procs, Span, Speedup, Time};

/// A job of one processor that alice has submitted at the start of time.
pub(crate) fn waiting_job() -> JobRecord {
    let (procs, walltime) = (Procs(1), Span(10));
    JobRecord {
        handle: "lyon.1".parse().expect("a job ID"),
        key: Key([0; 16]),
        owner: "alice".parse().expect("a name"),
        name: "pi".to_owned(),
        work: Work::new(procs, walltime, Speedup::Rigid),
        state: JobState::Queued,
        submitted: Time(0),
        expected: Estimate { procs, walltime, start: Time(0) },
        procs,
        walltime,
        started: None,
        ended: None,
        exit: None,
        requeues: 0,
        compared: Vec::new(),
        discovery: DiscoverySummary::default(),
        pinned: false,
        hops: Vec::new(),
        unit_runtime: None,
        runtime: None,
        size_choice: None,
        gpus: None,
        estimates: Vec::new(),
        claim: None,
    }
}
