//! The audit trail.

use super::*;

impl Bench {
    /// The records of the last event: caller, act, job and reason.
    fn records(&self) -> Vec<String> {
        let record = |command: &Command| match command {
            Command::Audit(record) => {
                let AuditRecord { by, act, job, user, why, .. } = record.as_ref();
                let subject =
                    job.as_ref().map(ToString::to_string).or(user.as_ref().map(ToString::to_string));
                Some(
                    format!("{by} {} {} {why}", act.word(), subject.unwrap_or_default())
                        .trim_end()
                        .to_owned(),
                )
            }
            _ => None,
        };
        self.commands.iter().filter_map(record).collect()
    }
}

#[test]
fn acts_are_recorded_once_with_their_callers() {
    let mut bench = Bench::new("fcfs", 1);
    bench.accepted(rigid(1, 1, 10));
    assert_eq!(bench.records(), ["user/alice accept lyon.1"]);
    bench.accepted(rigid(1, 1, 10));
    assert!(bench.records().is_empty(), "a repetition is no act");
    bench.accepted(rigid(2, 1, 10));
    bench.at(100);

    bench.cancel(1, "root");
    assert_eq!(bench.records(), ["operator/root cancel lyon.1"]);
    bench.cancel(1, "root");
    assert!(bench.records().is_empty(), "it is being ended already");
    assert_eq!(bench.cancel(2, "bob"), Answer::NoSuchJob);
    assert!(bench.records().is_empty(), "the driver records refusals");
    let alice = Caller { user: user("alice"), operator: false };
    bench.deliver(Event::Withdraw { reply: Token(0), number: 2, caller: alice });
    assert_eq!(bench.records(), ["user/alice withdraw lyon.2"]);

    bench.deliver(Event::Denied { by: user("bob"), act: "drain a server".to_owned() });
    assert_eq!(bench.records(), ["user/bob deny  drain a server"]);
    bench.deliver(Event::Drain { reply: Token(0), by: user("root"), why: "disks".to_owned() });
    assert_eq!(bench.records(), ["operator/root drain  disks"]);
    bench.deliver(Event::Resume { reply: Token(0), by: user("root"), why: "done".to_owned() });
    assert_eq!(bench.records(), ["operator/root resume  done"]);
}

#[test]
fn a_job_that_is_taken_over_is_recorded_with_its_source() {
    let mut bench = Bench::new("fcfs", 1);
    let handoff = handoff_from_paris(1, 1);
    let id = handoff.id.clone();
    bench.deliver(Event::Prepare { reply: Token(0), handoff: Box::new(handoff) });
    assert!(bench.records().is_empty(), "it may stay at paris");
    bench.deliver(Event::Commit { reply: Token(0), id, cancelled: false, attempts: 1 });
    assert_eq!(bench.records(), ["server/paris take-over paris.1"]);
}
