//! Jobs that are simulated while they are read give the same run, or the reader's error.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use pliant_model::{Job, LoggedMemory, Platform, Procs, Span, Speedup, Time};
use pliant_sim::{NoObserver, Observer, Policies, SimError, SimJob, StreamError, simulate, simulate_stream};

fn job(id: i64) -> SimJob {
    let job = Job {
        log_id: id as u64,
        submit: Time(id * 7),
        procs: Procs(1 + id as u32 * 5 % 4),
        walltime: Span(90),
        runtime: Span(10 + id * 13 % 80),
        user: -1,
        group: -1,
        executable: -1,
        origin: None,
        memory: LoggedMemory::default(),
        resources: None,
    };
    SimJob { job, speedup: Speedup::Rigid, true_speedup: None, managed: true }
}

fn platform() -> Platform {
    Platform::single(Procs(4), "cbf").unwrap()
}

#[test]
fn a_stream_gives_the_run_of_its_jobs() {
    let jobs: Vec<SimJob> = (0..500).map(job).collect();
    let whole = simulate(&platform(), &jobs, &Policies::default(), &mut NoObserver).unwrap();
    let read = jobs.into_iter().map(Ok::<_, String>);
    let streamed = simulate_stream(&platform(), read, &Policies::default(), &mut NoObserver).unwrap();
    assert_eq!(streamed, whole);
    assert_eq!(whole.jobs.len(), 500);
}

#[test]
fn the_readers_error_ends_the_run_soon() {
    /// Counts its calls.
    struct Calls(usize);
    impl Observer for Calls {
        fn progress(&mut self, _: usize, _: usize, _: Time) -> bool {
            self.0 += 1;
            true
        }
    }
    // The queue is long: its jobs end one by one over tens of thousands of instants.
    let waiting = (0..40_000).map(|id| {
        let mut waiting = job(id);
        (waiting.job.submit, waiting.job.procs) = (Time::ZERO, Procs(4));
        Ok(waiting)
    });
    let mut calls = Calls(0);
    let fcfs = Platform::single(Procs(4), "fcfs").unwrap();
    let read = waiting.chain([Err("line 9")]).chain((0..9).map(|id| Ok(job(id))));
    let found = simulate_stream(&fcfs, read, &Policies::default(), &mut calls);
    assert!(matches!(found, Err(StreamError::Source("line 9"))), "{found:?}");
    assert_eq!(calls.0, 0, "the observer gets no progress of a stopped run");
}

#[test]
fn simulation_errors_differ_from_read_errors() {
    let unsorted = [job(3), job(2)].map(Ok::<_, String>);
    let found = simulate_stream(&platform(), unsorted, &Policies::default(), &mut NoObserver);
    assert!(matches!(found, Err(StreamError::Sim(SimError::Unsorted(1)))), "{found:?}");
}
