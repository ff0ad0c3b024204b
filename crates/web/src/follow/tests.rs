//! Records for tests of lists and charts.

use pliant_control::job::{JobRecord, JobState, Work};
use pliant_control::names::{Handle, Key};
use pliant_control::reason::DiscoverySummary;
use pliant_model::{Estimate, Procs, Span, Speedup, Time};

use super::Follower;
use crate::types::ClusterView;

/// A waiting job of alice that was submitted at that time.
pub(crate) fn record(server: &str, number: u32, submitted: i64) -> JobRecord {
    let walltime = Span(600);
    JobRecord {
        handle: Handle { server: server.parse().unwrap(), number },
        key: Key([0; 16]),
        owner: "alice".parse().unwrap(),
        name: "pi".to_owned(),
        work: Work::new(Procs(4), walltime, Speedup::Rigid),
        state: JobState::Queued,
        submitted: Time(submitted),
        expected: Estimate { procs: Procs(4), walltime, start: Time(submitted + 60) },
        procs: Procs(4),
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

/// The same, ended.
pub(crate) fn ended(server: &str, number: u32, submitted: i64) -> JobRecord {
    let started = Time(submitted + 60);
    JobRecord {
        state: JobState::Completed,
        started: Some(started),
        ended: Some(started + Span(300)),
        ..record(server, number, submitted)
    }
}

impl Follower {
    /// Has it know these jobs, as if an agent had just listed them.
    pub(crate) fn fill(&self, jobs: impl Iterator<Item = JobRecord>) {
        let mut state = self.state.lock();
        jobs.for_each(|job| drop(state.jobs.list(&job)));
        state.jobs.read_until(None);
        state.answered = Some(std::time::Instant::now());
    }
}

/// A cluster that is up.
pub(crate) fn cluster(server: &str, procs: u32) -> ClusterView {
    ClusterView {
        server: server.to_owned(),
        state: "up",
        procs,
        free_procs: Some(procs),
        speed: 1.0,
        policy: "cbf".to_owned(),
        queued: 0,
        active: 0,
        via: server.to_owned(),
        clock_ahead_s: None,
        certificate_not_after_s: None,
    }
}

#[test]
fn the_end_of_the_own_certificate_is_a_warning() {
    let own = super::OwnCertificate { end: Time(1_000_000), warning_s: 14 * 86_400 };
    let at = |left: i64| own.warning(1_000_000 - left).unwrap_or_default();
    assert_eq!(at(14 * 86_400), "");
    assert!(at(14 * 86_400 - 1).contains("within 14 days"), "{}", at(14 * 86_400 - 1));
    assert!(at(3_600).contains("within 2 hours") && at(0).contains("has ended"));
}

#[tokio::test]
async fn certificates_of_daemons_that_have_ended_or_end_soon_are_warnings() {
    let (_, _, web, _dir) = crate::routes::tests::closed();
    let at = crate::types::now().0;
    let of = |server: &str, end: i64| ClusterView {
        certificate_not_after_s: Some(at + end),
        ..cluster(server, 2)
    };
    let day = 86_400;
    let mut state = web.follower.state.lock();
    state.clusters.clusters =
        vec![of("lyon", -day), of("nice", day), of("paris", 15 * day), cluster("tours", 2)];
    state.clusters.certificate_not_after_s = Some(at + 13 * day);
    let expected = [
        "the certificate of server lyon has ended",
        "the certificate of server nice ends within two weeks",
        "the certificate of the agent ends within two weeks",
    ];
    let about_certificates = |state: &super::FollowedState| -> Vec<String> {
        state.health().warnings.into_iter().filter(|text| text.starts_with("the certificate")).collect()
    };
    assert_eq!(about_certificates(&state), expected);
    state.clusters.certificate_not_after_s = Some(at - day);
    assert_eq!(about_certificates(&state)[2], "the certificate of the agent has ended");
}
