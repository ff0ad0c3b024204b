use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use pliant_calls::Value;

use super::*;
use crate::sessions::REPORTED_MAX;
use crate::simulated::{Behaviour, SimulatedFederation};

const ADDRESS: HandleAddress = HandleAddress(0x1000);
const SUCC: (&str, &str, Behaviour) = ("succ", "in int n, out int m", Behaviour::Succeed);
const FAIL: (&str, &str, Behaviour) = ("fail", "in int n, out int m", Behaviour::Fail);
const RUN: (&str, &str, Behaviour) = ("run", "in int n, out int m", Behaviour::Run);
const REFUSE: (&str, &str, Behaviour) = ("refuse", "in int n, out int m", Behaviour::Refuse);

/// A library with outputs that are counted.
struct Under {
    library: Library,
    federation: SimulatedFederation,
    delivered: Arc<AtomicUsize>,
}

impl Under {
    fn test() -> Under {
        let federation = SimulatedFederation::new(&[SUCC, FAIL, RUN, REFUSE]);
        Under { library: Library::new(Box::new(federation.clone())), federation, delivered: Arc::default() }
    }

    fn prepared(&self, function: &str) -> PreparedCall {
        self.library.bind(ADDRESS, function, None).unwrap();
        let binding = self.library.binding(ADDRESS).unwrap();
        let arguments = vec![Some(Value::Int(41)), None];
        let call = Call { function: binding.function.clone(), arguments, files: Default::default() };
        let delivered = self.delivered.clone();
        let deliver = Box::new(move |results: crate::federation::Results| {
            assert_eq!(results[1], Some(Value::Int(42)));
            delivered.fetch_add(1, Ordering::Relaxed);
            Ok(())
        });
        PreparedCall { handle: ADDRESS, binding, call, deliver }
    }

    fn started(&self, function: &str) -> SessionId {
        self.library.call_async(self.prepared(function)).unwrap()
    }

    fn sessions(&self) -> &Sessions {
        &self.library.sessions
    }

    fn delivered(&self) -> usize {
        self.delivered.load(Ordering::Relaxed)
    }
}

fn code<T: std::fmt::Debug>(outcome: Outcome<T>) -> Code {
    outcome.map_or_else(|failure| failure.code, |_| Code::NoError)
}

const UNKNOWN: SessionId = i32::MAX;

#[test]
fn a_call_that_waits_has_the_outcome_of_the_function() {
    let under = Under::test();
    let check = |function, expected| assert_eq!(code(under.library.call(under.prepared(function))), expected);
    check("succ", Code::NoError);
    check("fail", Code::SessionFailed);
    check("refuse", Code::RpcRefused);
    assert_eq!(under.delivered(), 1);
    // None of them is a session of the program.
    assert_eq!(under.sessions().known(), Ok(0));
    assert_eq!(under.sessions().take_failed(), Ok(None));
    assert_eq!(under.sessions().wait_any(), Ok(None));
}

#[test]
fn a_session_is_waited_for_and_probed() {
    let under = Under::test();
    let sessions = under.sessions();
    let (done, failed, running) = (under.started("succ"), under.started("fail"), under.started("run"));
    assert_eq!(code(sessions.probe(done)), Code::NoError);
    assert_eq!(code(sessions.probe(failed)), Code::SessionFailed);
    assert_eq!(code(sessions.probe(running)), Code::NotCompleted);
    assert_eq!(code(sessions.probe(UNKNOWN)), Code::InvalidSessionId);
    assert_eq!(code(sessions.wait_and(&[done, failed])), Code::SessionFailed);
    assert_eq!(code(sessions.wait_and(&[done])), Code::NoError, "it can be waited for again");
    assert_eq!(code(sessions.wait_and(&[done, UNKNOWN])), Code::InvalidSessionId);
    assert_eq!(code(sessions.wait_and(&[])), Code::NoError);
    assert_eq!(sessions.probe_or(&[running]), Ok(None));
    assert_eq!(sessions.probe_or(&[running, done]), Ok(Some((done, Ok(())))));
    assert_eq!(code(sessions.probe_or(&[running, UNKNOWN])), Code::InvalidSessionId);
    assert_eq!(sessions.wait_or(&[running, done]), Ok((done, Ok(()))));
    let (id, outcome) = sessions.wait_or(&[running, failed]).unwrap();
    assert_eq!((id, code(outcome)), (failed, Code::SessionFailed));
    assert_eq!(code(sessions.wait_or(&[done, UNKNOWN])), Code::InvalidSessionId);
    assert_eq!(code(sessions.wait_or(&[])), Code::InvalidSessionId);
    assert_eq!(under.delivered(), 1, "outputs are written once");
    assert_eq!(sessions.failure(done), Ok(None));
    assert_eq!(sessions.failure(failed).unwrap().unwrap().text, "exit code 2");
    assert_eq!(sessions.failure(running), Ok(None));
    assert_eq!(code(sessions.failure(UNKNOWN)), Code::InvalidSessionId);
}

#[test]
fn one_of_several_is_rather_one_that_was_not_reported() {
    let under = Under::test();
    let (first, second) = (under.started("run"), under.started("run"));
    under.federation.end(2, Ok(()));
    assert_eq!(under.sessions().wait_or(&[first, second]), Ok((second, Ok(()))));
    under.federation.end(1, Ok(()));
    assert_eq!(under.sessions().wait_or(&[second, first]), Ok((first, Ok(()))));
    assert_eq!(under.sessions().wait_or(&[second, first]), Ok((second, Ok(()))));
}

#[test]
fn any_session_is_given_once_in_the_order_of_ends() {
    let under = Under::test();
    let ids = [under.started("run"), under.started("run"), under.started("run")];
    for number in [2, 3, 1] {
        under.federation.end(number, Ok(()));
    }
    let given: Vec<_> = (0..3).map(|_| under.sessions().wait_any().unwrap().unwrap().0).collect();
    assert_eq!(given, [ids[1], ids[2], ids[0]]);
    assert_eq!(under.sessions().wait_any(), Ok(None));
    assert_eq!(under.delivered(), 3);
}

#[test]
fn failed_sessions_are_given_once_each() {
    let under = Under::test();
    assert_eq!(under.sessions().take_failed(), Ok(None));
    let (first, _, second) = (under.started("fail"), under.started("succ"), under.started("fail"));
    assert_eq!(code(under.sessions().wait_all()), Code::SessionFailed);
    let given: Vec<_> = (0..3).map(|_| under.sessions().take_failed().unwrap()).collect();
    assert_eq!(given, [Some(first), Some(second), None]);
    // Also before it is reported, and never again.
    let third = under.started("fail");
    assert_eq!(under.sessions().take_failed(), Ok(Some(third)));
    assert_eq!(code(under.sessions().wait_and(&[third])), Code::SessionFailed);
    assert_eq!(under.sessions().take_failed(), Ok(None));
}

#[test]
fn outputs_that_cannot_be_written_fail_the_session() {
    let under = Under::test();
    let full = || Err(Failure::new(Code::OtherErrorCode, "no space"));
    let deliver: [Deliver; 2] = [Box::new(move |_| full()), Box::new(|_| panic!("as the test asked"))];
    for deliver in deliver {
        let id = under.library.call_async(PreparedCall { deliver, ..under.prepared("succ") }).unwrap();
        assert_eq!(code(under.sessions().wait_and(&[id])), Code::SessionFailed);
        assert_eq!(under.sessions().failure(id).unwrap().unwrap().code, Code::OtherErrorCode);
        assert_eq!(under.sessions().take_failed(), Ok(Some(id)));
        assert_eq!(under.sessions().take_failed(), Ok(None));
    }
}

#[test]
fn a_cancelled_session_has_ended_without_outputs() {
    let under = Under::test();
    let (running, ended) = (under.started("run"), under.started("succ"));
    assert_eq!(under.sessions().cancel(running), Ok(()));
    assert_eq!(under.sessions().cancel(ended), Ok(()), "its end was not reported yet");
    assert_eq!(under.sessions().cancel(ended), Ok(()));
    assert_eq!(code(under.sessions().cancel(UNKNOWN)), Code::InvalidSessionId);
    assert_eq!((under.federation.running(), under.delivered()), (0, 0));
    for id in [running, ended] {
        let failure = under.sessions().wait_and(&[id]).unwrap_err();
        assert_eq!(failure, Failure::new(Code::SessionFailed, format!("session {id} was cancelled")));
    }
    assert_eq!(under.sessions().take_failed(), Ok(None), "the program asked for it");
    assert_eq!(under.sessions().wait_all(), Ok(()));
    assert_eq!(under.sessions().wait_any(), Ok(None));

    let reported = under.started("succ");
    assert_eq!(under.sessions().wait_and(&[reported]), Ok(()));
    assert_eq!(under.sessions().cancel(reported), Ok(()));
    assert_eq!(under.sessions().wait_and(&[reported]), Ok(()), "it had completed");

    let many: Vec<SessionId> = (0..100).map(|_| under.started("run")).collect();
    assert_eq!(under.sessions().cancel_all(), Ok(()));
    assert_eq!(under.federation.running(), 0);
    assert!(many.iter().all(|id| code(under.sessions().probe(*id)) == Code::SessionFailed));
}

#[test]
fn a_cancellation_that_fails_leaves_the_session() {
    let under = Under::test();
    let id = under.started("run");
    under.federation.refuse_cancels(true);
    assert_eq!(code(under.sessions().cancel(id)), Code::CommunicationFailed);
    assert_eq!(code(under.sessions().cancel_all()), Code::CommunicationFailed);
    assert_eq!(code(under.sessions().probe(id)), Code::NotCompleted);
    under.federation.end(1, Ok(()));
    assert_eq!(under.sessions().wait_and(&[id]), Ok(()));
    assert_eq!(under.delivered(), 1);
}

#[test]
fn a_waiting_thread_is_woken_by_a_cancellation() {
    let under = Under::test();
    let id = under.started("run");
    thread::scope(|scope| {
        let waits = [
            scope.spawn(|| code(under.sessions().wait_and(&[id]))),
            scope.spawn(|| code(under.sessions().wait_all())),
            scope.spawn(|| code(under.sessions().wait_or(&[id]).and_then(|(_, outcome)| outcome))),
            scope.spawn(|| code(under.sessions().wait_any())),
        ];
        thread::sleep(Duration::from_millis(20));
        assert_eq!(under.sessions().cancel(id), Ok(()));
        let codes = waits.map(|wait| wait.join().unwrap());
        assert_eq!((codes[0], codes[2]), (Code::SessionFailed, Code::SessionFailed));
        assert_eq!(codes[3], Code::NoError, "there is none any more");
    });
}

#[test]
fn each_function_returns_when_the_library_is_closed() {
    let under = Under::test();
    let id = under.started("run");
    thread::scope(|scope| {
        let waits = [
            scope.spawn(|| code(under.sessions().wait_and(&[id]))),
            scope.spawn(|| code(under.sessions().wait_or(&[id]))),
            scope.spawn(|| code(under.sessions().wait_all())),
            scope.spawn(|| code(under.sessions().wait_any())),
            scope.spawn(|| code(under.library.call(under.prepared("run")))),
        ];
        while under.federation.running() < 2 {
            thread::yield_now();
        }
        under.library.close();
        assert_eq!(waits.map(|wait| wait.join().unwrap()), [Code::NotInitialized; 5]);
    });
    assert_eq!(code(under.sessions().probe(id)), Code::NotInitialized);
    assert_eq!(code(under.library.call_async(under.prepared("succ"))), Code::NotInitialized);
    assert_eq!(under.delivered(), 0);
}

#[test]
fn the_handle_of_a_session_is_given_until_it_is_destructed_or_bound_anew() {
    let under = Under::test();
    let id = under.started("succ");
    assert_eq!(under.library.handle(id), Ok(ADDRESS));
    assert_eq!(code(under.library.handle(UNKNOWN)), Code::InvalidSessionId);
    let other = under.started("fail");
    assert_eq!(code(under.library.handle(id)), Code::InvalidFunctionHandle);
    assert_eq!(under.library.handle(other), Ok(ADDRESS));
    under.library.destruct(ADDRESS).unwrap();
    assert_eq!(code(under.library.handle(other)), Code::InvalidFunctionHandle);
    assert_eq!(code(under.library.destruct(ADDRESS)), Code::InvalidFunctionHandle);
    assert_eq!(code(under.library.bind(HandleAddress(0), "succ", None)), Code::InvalidFunctionHandle);
    assert_eq!(code(under.library.bind(ADDRESS, "succ", Some("paris"))), Code::ServerNotFound);
    assert_eq!(code(under.library.bind(ADDRESS, "none", Some("lyon"))), Code::FunctionNotFound);
}

#[test]
fn the_oldest_reported_sessions_are_forgotten() {
    let under = Under::test();
    let failed = under.started("fail");
    assert_eq!(code(under.sessions().wait_and(&[failed])), Code::SessionFailed);
    let mut last = failed;
    for count in 0..REPORTED_MAX {
        if count == REPORTED_MAX - 1 {
            assert_eq!(code(under.sessions().probe(failed)), Code::SessionFailed);
        }
        last = under.started("succ");
        assert_eq!(under.sessions().wait_and(&[last]), Ok(()));
        // A call that waits is no session.
        assert_eq!(under.library.call(under.prepared("succ")), Ok(()));
    }
    assert_eq!(code(under.sessions().probe(failed)), Code::InvalidSessionId);
    assert_eq!(under.sessions().take_failed(), Ok(None));
    assert_eq!(code(under.sessions().probe(last)), Code::NoError);
    assert_eq!(under.sessions().known(), Ok(REPORTED_MAX));
}

/// Eight threads start, end, cancel, probe and wait at once: each session is reported, and outputs are written for those that completed.
#[test]
fn many_threads_share_the_sessions() {
    const THREADS: usize = 8;
    const EACH: usize = 200;
    let under = Under::test();
    let (completed, cancelled) = (AtomicUsize::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (under, completed, cancelled) = (&under, &completed, &cancelled);
            scope.spawn(move || {
                for round in 0..EACH {
                    let id = under.started(if round % 3 == 0 { "run" } else { "succ" });
                    let outcome = match (round % 3, (round + thread) % 4) {
                        (0, _) => under.sessions().cancel(id).and(under.sessions().wait_and(&[id])),
                        (_, 0) => under.sessions().wait_and(&[id]),
                        (_, 1) => under.sessions().probe(id),
                        (_, 2) => under.sessions().wait_or(&[id]).and_then(|(_, outcome)| outcome),
                        _ => under.sessions().wait_and(&[id, id]),
                    };
                    let count = if round % 3 == 0 { cancelled } else { completed };
                    assert_eq!(code(outcome) == Code::NoError, round % 3 != 0);
                    count.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(under.delivered(), completed.load(Ordering::Relaxed));
    assert_eq!(under.sessions().wait_any(), Ok(None));
    assert_eq!(completed.into_inner() + cancelled.into_inner(), THREADS * EACH);
}
