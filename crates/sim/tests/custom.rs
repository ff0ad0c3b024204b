//! Policies of the caller: checked where they are applied, and not called after the first error.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pliant_model::{ClusterId, Job, JobId, LoggedMemory, Platform, Procs, Run, Span, Speedup, Time};
use pliant_policy::batch::{BatchView, Submission};
use pliant_policy::custom::{BatchPolicy, CustomPolicies, PolicyError, QueueOrder, QueueView};
use pliant_policy::mapping::Mapping;
use pliant_policy::reallocation::{Algorithm, Heuristic, Reallocation};
use pliant_sim::{NoObserver, Policies, SimError, SimJob, simulate, simulate_custom};

/// Which jobs start, by a function of the view.
struct Starts<F> {
    decide: F,
    calls: AtomicUsize,
}

impl<F: Fn(&BatchView<'_>) -> Vec<JobId> + Send + Sync> BatchPolicy for Starts<F> {
    fn submitted(&self, _: Time, _: ClusterId, _: &Submission) -> Result<(), PolicyError> {
        Ok(())
    }

    fn ended(&self, _: Time, _: ClusterId, _: JobId) -> Result<(), PolicyError> {
        Ok(())
    }

    fn schedule(&self, view: &BatchView<'_>) -> Result<Vec<JobId>, PolicyError> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        Ok((self.decide)(view))
    }
}

fn batch<F>(decide: F) -> (Arc<Starts<F>>, CustomPolicies)
where
    F: Fn(&BatchView<'_>) -> Vec<JobId> + Send + Sync + 'static,
{
    let policy = Arc::new(Starts { decide, calls: AtomicUsize::new(0) });
    (Arc::clone(&policy), CustomPolicies { batch: Some(policy), ..CustomPolicies::default() })
}

/// Jobs 100, 101, ... that wait for each other on 8 processors.
fn jobs(count: i64) -> Vec<SimJob> {
    let job = |id: i64| Job {
        log_id: 100 + id as u64,
        submit: Time(id * 7),
        procs: Procs(1 + id as u32 * 5 % 8),
        walltime: Span(90),
        runtime: Span(10 + id * 13 % 80),
        user: -1,
        group: -1,
        executable: -1,
        origin: None,
        memory: LoggedMemory::default(),
        resources: None,
    };
    let sim = |id| SimJob { job: job(id), speedup: Speedup::Rigid, true_speedup: None, managed: true };
    (0..count).map(sim).collect()
}

fn policies() -> Policies {
    Policies { mapping: Mapping::Given, ..Policies::default() }
}

fn run(batch: &str, custom: &CustomPolicies) -> Result<Run, SimError> {
    let platform = Platform::single(Procs(8), batch).unwrap();
    simulate_custom(&platform, jobs(200), &policies(), custom, &mut NoObserver)
}

fn first_come(view: &BatchView<'_>) -> Vec<JobId> {
    first_come_of(view, |_| true)
}

/// The first jobs of those that `starts` admits, as far as they fit.
fn first_come_of(view: &BatchView<'_>, starts: impl Fn(&Submission) -> bool) -> Vec<JobId> {
    let mut free = view.free();
    let fitting = view.queue().filter(|job| starts(job)).take_while(|job| {
        let fits = job.procs <= free;
        free.0 = free.0.saturating_sub(job.procs.0);
        fits
    });
    fitting.map(|job| job.job).collect()
}

#[test]
fn first_come_first_served_by_the_caller_is_the_built_in_policy() {
    let platform = Platform::single(Procs(8), "fcfs").unwrap();
    let expected = simulate(&platform, jobs(200), &policies(), &mut NoObserver).unwrap();
    assert_eq!(run("cbf", &batch(first_come).1).unwrap().jobs, expected.jobs);
    assert!(expected.jobs.iter().any(|job| job.wait() > Span(0)));
}

#[test]
fn the_first_impossible_decision_ends_the_simulation() {
    let (policy, custom) = batch(|view| view.queue().map(|job| job.job).collect());
    let Err(SimError::Custom { error, log_id }) = run("cbf", &custom) else { panic!("expected an error") };
    // Jobs 100 and 101 have 1 and 6 of the 8 processors when job 102 comes and asks for 3: nothing is asked, since it does not fit. Job
    // 103 has all 8, job 104 asks for 5, and so on, until a smaller one fits and the policy starts all.
    let PolicyError::Overbooked { now, procs, free, .. } = error else { panic!("{error}") };
    assert!(procs > free && now > Time(0), "{error}");
    assert!(log_id.is_some_and(|job| job > 101), "{log_id:?}");
    let calls = policy.calls.load(Ordering::Relaxed);
    assert!(calls < 10, "called {calls} times: it is not called after the error");
    let (_, twice) = batch(|view| view.queue().flat_map(|job| [job.job, job.job]).take(2).collect());
    let found = run("cbf", &twice).unwrap_err();
    let expected = PolicyError::NotWaiting { now: Time(0), job: JobId(0) };
    assert_eq!(found, SimError::Custom { error: expected, log_id: Some(100) });
    assert!(found.to_string().starts_with("job 100: "), "{found}");
}

#[test]
fn ranks_of_the_caller_are_checked() {
    struct Ranks(fn(usize) -> Vec<f64>);
    impl QueueOrder for Ranks {
        fn ranks(&self, view: &QueueView<'_>) -> Result<Vec<f64>, PolicyError> {
            Ok((self.0)(view.jobs.len()))
        }
    }
    let order = |ranks| {
        let order = Some((Arc::new(Ranks(ranks)) as Arc<dyn QueueOrder>, Default::default()));
        CustomPolicies { order, ..CustomPolicies::default() }
    };
    let found = run("easy", &order(|_| Vec::new())).unwrap_err().to_string();
    assert_eq!(found, "expected 1 ranks, one for each job, at 0 s, found 0");
    let found = run("easy", &order(|jobs| vec![f64::NAN; jobs])).unwrap_err().to_string();
    assert_eq!(found, "job 100: expected numbers as ranks at 0 s, found NaN");
    // Equal ranks are the order of submission.
    let equal = run("easy", &order(|jobs| vec![0.0; jobs])).unwrap();
    assert_eq!(equal.jobs, run("easy", &CustomPolicies::default()).unwrap().jobs);
    assert!(matches!(run("cbf", &order(|jobs| vec![0.0; jobs])), Err(SimError::Batch(_))));
}

#[test]
fn a_cycle_that_may_be_discarded_has_no_batch_policy_of_the_caller() {
    let reallocation = Some(Reallocation::new(Algorithm::NoWorse, Heuristic::Mct));
    let policies = Policies { reallocation, ..policies() };
    let platform = Platform::single(Procs(8), "cbf").unwrap();
    let (_, custom) = batch(first_come);
    let found = simulate_custom(&platform, jobs(9), &policies, &custom, &mut NoObserver);
    assert_eq!(found, Err(SimError::CustomOnTrial));
}

#[test]
fn jobs_that_a_policy_never_starts_are_an_error_and_not_lost() {
    let (_, custom) = batch(|view| first_come_of(view, |job| job.procs <= Procs(6)));
    let left: Vec<SimJob> = jobs(200).into_iter().filter(|job| job.job.procs > Procs(6)).collect();
    let found = run("cbf", &custom).unwrap_err();
    let SimError::Custom { error: PolicyError::NeverStarted { count, .. }, log_id } = found else {
        panic!("{found}")
    };
    assert_eq!((count, log_id), (left.len(), Some(left[0].job.log_id)));
    assert!(
        found.to_string().starts_with(&format!("job {}: expected all jobs to start", left[0].job.log_id))
    );
    let all = run("cbf", &batch(first_come).1).unwrap();
    assert_eq!(all.jobs.len() + all.refused.len(), 200);
}
