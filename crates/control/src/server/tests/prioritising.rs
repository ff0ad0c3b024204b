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
        let before = bench.server.dump(bench.now);
        bench.prioritise(4, 1_000_000);
        assert_eq!(bench.server.dump(bench.now), before, "{policy}: it has that priority already");
        let is_audited = |command: &Command| matches!(command, Command::Audit(record) if record.why == "1000000: deadline");
        assert!(bench.commands.iter().any(is_audited), "{policy}: each act is recorded");
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
        bench.deliver(Event::Configured { procs: Procs(1), policy: "easy/f1".to_owned(), host: None });
        bench.deliver(Event::Configured { procs: Procs(1), policy: policy.clone(), host: None });
        bench.release(4);
        let changes = vec![LimitChange { key: LimitKey::RunningJobs, value: Some(1) }];
        let (by, why) = (user("root"), String::new());
        bench.deliver(Event::Limit { reply: Token(0), user: user("alice"), changes, by, why });
        assert_eq!(bench.starts(), [4, 3, 2], "{policy}");
    }
}

#[test]
fn the_priority_of_one_job_does_not_reorder_others() {
    let starts = |policy: &str, act: fn(&mut Bench)| {
        let mut bench = busy(policy);
        act(&mut bench);
        let mut starts = bench.starts();
        starts.retain(|number| *number != 4);
        starts
    };
    for policy in &pliant_policy::batch::local_names() {
        let released = starts(policy, |bench| {
            bench.hold(2);
            bench.release(2);
        });
        let with_a_low_one = starts(policy, |bench| {
            bench.prioritise(4, -5);
            bench.hold(2);
            bench.release(2);
        });
        assert_eq!(with_a_low_one, released, "{policy}");
    }
}

#[test]
fn a_priority_that_is_taken_back_from_a_held_job_has_no_effect() {
    for policy in &pliant_policy::batch::local_names() {
        let starts = |priorities: &[i64]| {
            let mut bench = busy(policy);
            priorities.iter().take(1).for_each(|priority| _ = bench.prioritise(4, *priority));
            bench.hold(4);
            priorities.iter().skip(1).for_each(|priority| _ = bench.prioritise(4, *priority));
            bench.release(4);
            bench.starts()
        };
        assert_eq!(starts(&[7, 0]), starts(&[]), "{policy}");
    }
}

#[test]
fn a_priority_ends_with_the_wait_of_its_job() {
    let priorities = |bench: &mut Bench| {
        let state = serde_json::to_value(bench.server.dump(bench.now)).unwrap();
        state["batch"]["priorities"].as_array().map_or(0, Vec::len)
    };
    for policy in &pliant_policy::batch::local_names() {
        let mut bench = busy(policy);
        for number in 2..=4 {
            bench.prioritise(number, -5);
        }
        assert_eq!(priorities(&mut bench), 3, "{policy}");
        bench.cancel(3, "root");
        bench.hold(4);
        assert_eq!(priorities(&mut bench), 2, "{policy}: it stays over a hold");
        bench.ended(1, Exit::Code(0));
        bench.at(101);
        assert_eq!((bench.state(2), priorities(&mut bench)), (JobState::Active, 1), "{policy}");
        assert_eq!(
            bench.server.dump(bench.now),
            {
                bench.again();
                bench.server.dump(bench.now)
            },
            "{policy}"
        );
    }
}

#[test]
fn an_explanation_has_the_priority_of_an_operator() {
    let mut bench = busy("easy/multifactor");
    bench.prioritise(4, 7);
    let alice = Caller { user: user("alice"), operator: false };
    let given = |bench: &mut Bench, number| {
        bench.server.explain(bench.now, number, &alice).unwrap().waits.unwrap().operator_priority
    };
    assert_eq!([given(&mut bench, 3), given(&mut bench, 4)], [0, 7]);
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
