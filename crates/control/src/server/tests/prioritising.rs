//! Priorities that operators give to waiting jobs.

use super::*;
use crate::replay::Machine;

impl Bench {
    fn prioritise(&mut self, number: u32, priority: i64) -> Answer {
        let (reply, by, why) = (Token(0), user("root"), "deadline".to_owned());
        self.deliver(Event::Prioritise { reply, number, priority, by, why }).unwrap()
    }

    fn again(&mut self) {
        let text = serde_json::to_string(&self.server.dump(self.now)).unwrap();
        let state: ServerState = serde_json::from_str(&text).unwrap();
        self.server = Server::from_state(self.server.config().clone(), state).unwrap();
    }

    /// Ends the running jobs one after the other; returns the order in which the others start.
    fn starts(&mut self) -> Vec<u32> {
        let mut started = Vec::new();
        for _ in 0..10 {
            let running: Vec<u32> = self.server.running().map(|(record, ..)| record.handle.number).collect();
            for number in running {
                self.ended(number, Exit::Code(0));
            }
            let now = self.now.0 + 1;
            started.extend(self.at(now).iter().map(|run| run.job.0));
        }
        started
    }
}

/// A cluster of one processor on which job 1 runs and jobs 2 to 4 wait.
fn busy(policy: &str) -> Bench {
    let mut bench = Bench::new(policy, 1);
    bench.deliver(Event::WaitingLimits(WaitingLimits::of_jobs(100)));
    for key in 1..=4 {
        bench.accepted(rigid(key, 1, 10));
    }
    bench.at(100);
    bench
}

#[test]
fn the_highest_priority_is_served_first_under_every_policy() {
    for policy in &pliant_policy::batch::local_names() {
        let mut bench = busy(policy);
        assert!(matches!(bench.prioritise(4, 1_000_000), Answer::Job(_)), "{policy}");
        assert!(!Server::is_without_effect(&bench.commands), "an act is journaled");
        bench.prioritise(4, 1_000_000);
        assert!(Server::is_without_effect(&bench.commands), "it has that priority already");
        bench.prioritise(2, -5);
        bench.again();
        // It comes later, and is served before the job with the lower priority.
        bench.accepted(rigid(5, 1, 10));
        assert_eq!(bench.starts(), [4, 3, 5, 2], "{policy}");
    }
}

#[test]
fn the_plan_is_made_again() {
    let mut bench = busy("cbf");
    let start = |bench: &mut Bench, number| {
        let alice = Caller { user: user("alice"), operator: false };
        bench.server.explain(bench.now, number, &alice).unwrap().waits.unwrap().plan.start.0
    };
    assert_eq!([2, 3, 4].map(|number| start(&mut bench, number)), [110, 120, 130]);
    bench.prioritise(4, 1);
    assert_eq!([2, 3, 4].map(|number| start(&mut bench, number)), [120, 130, 110]);
    bench.prioritise(4, 0);
    assert_eq!([2, 3, 4].map(|number| start(&mut bench, number)), [110, 120, 130], "as it was");
}

#[test]
fn a_priority_stays_over_holds_limits_and_changes_of_the_policy() {
    for policy in &pliant_policy::batch::local_names() {
        let mut bench = busy(policy);
        bench.prioritise(4, 7);
        bench.prioritise(3, 3);
        bench.hold(4);
        bench.deliver(Event::Configured { procs: Procs(1), policy: "easy/f1".to_owned() });
        bench.deliver(Event::Configured { procs: Procs(1), policy: policy.clone() });
        bench.release(4);
        let changes = vec![LimitChange { key: LimitKey::RunningJobs, value: Some(1) }];
        let (by, why) = (user("root"), String::new());
        bench.deliver(Event::Limit { reply: Token(0), user: user("alice"), changes, by, why });
        assert_eq!(bench.starts(), [4, 3, 2], "{policy}");
    }
}

#[test]
fn only_a_job_that_waits_in_the_embedded_queue_gets_a_priority() {
    let mut bench = busy("cbf");
    assert!(matches!(bench.prioritise(1, 1), Answer::Unsuited(why) if why.contains("ACTIVE")));
    assert_eq!(bench.prioritise(9, 1), Answer::NoSuchJob);
    assert!(Server::is_without_effect(&bench.commands));
    let mut bench = Bench::new(external::SLURM, 1);
    let entry = bench.submit(rigid(1, 1, 10));
    assert!(!matches!(entry, Answer::Accepted(_)), "no listing has come: {entry:?}");
}
