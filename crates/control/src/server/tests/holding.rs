//! Held jobs.

use super::*;

impl Bench {
    pub(super) fn hold(&mut self, number: u32) -> Answer {
        self.deliver(Event::Hold { reply: Token(0), number, by: user("root"), why: "too large".to_owned() })
            .unwrap()
    }

    pub(super) fn release(&mut self, number: u32) -> Answer {
        self.deliver(Event::Release { reply: Token(0), number, by: user("root"), why: "checked".to_owned() })
            .unwrap()
    }

    pub(super) fn is_unplanned(&mut self, number: u32) -> Option<String> {
        let alice = Caller { user: user("alice"), operator: false };
        self.server.explain(self.now, number, &alice).unwrap().unplanned
    }
}

#[test]
fn a_held_job_starts_after_its_release_only_and_is_in_no_plan() {
    use crate::replay::Machine;
    for policy in &pliant_policy::batch::local_names() {
        let mut bench = Bench::new(policy, 1);
        for key in 1..=3 {
            bench.accepted(rigid(key, 1, 10));
        }
        bench.at(100);
        assert!(matches!(bench.hold(1), Answer::Unsuited(_)), "it runs");
        assert!(Server::is_without_effect(&bench.commands));
        assert!(matches!(bench.hold(2), Answer::Job(_)), "{policy}");
        assert!(!Server::is_without_effect(&bench.commands), "an act is journaled");
        bench.hold(2);
        assert!(Server::is_without_effect(&bench.commands), "it is held already");
        let why = "root has held the job since 1970-01-01 00:01:40Z: too large";
        assert_eq!(bench.is_unplanned(2).as_deref(), Some(why));

        // What waits behind it starts first, and a restart keeps it.
        let text = serde_json::to_string(&bench.server.dump(bench.now)).unwrap();
        let state: ServerState = serde_json::from_str(&text).unwrap();
        bench.server = Server::from_state(bench.server.config().clone(), state).unwrap();
        bench.now = Time(105);
        bench.ended(1, Exit::Code(0));
        bench.at(130);
        assert_eq!((bench.state(2), bench.state(3)), (JobState::Queued, JobState::Active), "{policy}");
        bench.now = Time(135);
        bench.ended(3, Exit::Code(0));
        bench.at(200);
        assert_eq!(bench.state(2), JobState::Queued, "{policy}");

        bench.release(2);
        assert_eq!(bench.is_unplanned(2), None);
        bench.at(200);
        assert_eq!(bench.state(2), JobState::Active, "{policy}");
    }
}

#[test]
fn a_held_job_can_be_cancelled() {
    let mut bench = Bench::new("cbf", 1);
    bench.accepted(rigid(1, 1, 10));
    bench.hold(1);
    bench.cancel(1, "alice");
    assert_eq!(bench.state(1), JobState::Canceled);
    assert!(matches!(bench.release(1), Answer::Unsuited(_)));
    assert_eq!(bench.release(9), Answer::NoSuchJob);
}

#[test]
fn a_held_job_stays_held_while_its_cluster_changes() {
    let mut bench = Bench::new("cbf", 2);
    let configure = |bench: &mut Bench, procs: u32, policy: &str| {
        bench.deliver(Event::Configured { procs: Procs(procs), policy: policy.to_owned(), host: None });
    };
    bench.accepted(rigid(1, 2, 10));
    bench.hold(1);
    configure(&mut bench, 1, "fcfs");
    assert!(bench.at(110).is_empty());
    assert!(bench.is_unplanned(1).unwrap().starts_with("root has held the job since"));

    bench.release(1);
    assert!(bench.at(120).is_empty());
    let why = bench.is_unplanned(1).unwrap();
    assert!(why.starts_with("it needs 2 processors"), "{why}");
    configure(&mut bench, 2, "cbf");
    assert_eq!(bench.at(130).len(), 1);
    assert_eq!(bench.state(1), JobState::Active);
}
