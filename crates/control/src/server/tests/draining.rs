//! Drained servers.

use super::*;
use crate::reason::Cause;
use crate::replay::Machine;

impl Bench {
    fn drain(&mut self, by: &str, why: &str) -> Option<Drain> {
        self.act(Event::Drain { reply: Token(0), by: user(by), why: why.to_owned() })
    }

    fn resume(&mut self) -> Option<Drain> {
        self.act(Event::Resume { reply: Token(0), by: user("root"), why: "done".to_owned() })
    }

    fn act(&mut self, event: Event) -> Option<Drain> {
        let answer = self.deliver(event);
        assert!(!Server::is_without_effect(&self.commands), "an act is journaled");
        match answer {
            Some(Answer::Drained(state)) => state,
            other => panic!("expected the state, found {other:?}"),
        }
    }

    fn refusal(&mut self, key: u8) -> Cause {
        match self.submit(rigid(key, 1, 10)) {
            Answer::Refused(why) => why.cause(),
            other => panic!("expected a refusal, found {other:?}"),
        }
    }
}

#[test]
fn a_drained_server_accepts_no_job_and_runs_those_it_has() {
    let mut bench = Bench::new("fcfs", 1);
    let running = bench.accepted(rigid(1, 1, 10)).handle.number;
    let waiting = bench.accepted(rigid(2, 1, 10)).handle.number;
    bench.at(100);
    let drain = Drain { at: Time(100), by: user("root"), why: "new disks".to_owned() };
    assert_eq!(bench.drain("root", "new disks"), Some(drain.clone()));

    assert_eq!(bench.refusal(3), Cause::Drained);
    assert_eq!(bench.server.closed_to_others().unwrap(), drain.to_string());
    assert_eq!(drain.to_string(), "root has drained the server since 1970-01-01 00:01:40Z: new disks");
    let again = bench.accepted(rigid(1, 1, 10));
    assert_eq!(again.handle.number, running, "what was accepted before is still accepted");
    let handoff = Box::new(handoff_from_paris(1, 1));
    let reply = bench.deliver(Event::Prepare { reply: Token(1), handoff });
    assert_eq!(reply, Some(Answer::NotPrepared(drain.to_string())));

    bench.now = Time(105);
    bench.ended(running, Exit::Code(0));
    bench.at(105);
    assert_eq!(bench.state(waiting), JobState::Active);

    assert_eq!(bench.resume(), None);
    bench.accepted(rigid(3, 1, 10));
}

#[test]
fn a_drain_keeps_its_time_when_it_is_repeated_and_outlives_a_restart() {
    let mut bench = Bench::new("fcfs", 1);
    bench.drain("root", "new disks");
    bench.now = Time(200);
    assert_eq!(bench.drain("root", "new disks").unwrap().at, Time(100), "the answer was lost");
    assert_eq!(bench.drain("root", "new fans").unwrap().at, Time(200));

    let text = serde_json::to_string(&bench.server.dump(bench.now)).unwrap();
    let state: ServerState = serde_json::from_str(&text).unwrap();
    bench.server = Server::from_state(bench.server.config().clone(), state).unwrap();
    assert_eq!(bench.server.drained().unwrap().why, "new fans");
    assert_eq!(bench.refusal(1), Cause::Drained);
}
