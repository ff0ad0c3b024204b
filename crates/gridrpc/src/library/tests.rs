use std::sync::atomic::AtomicUsize;
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

use pliant_calls::Value;

use super::*;
use crate::sessions::REPORTED_MAX;
use crate::simulated::{Behaviour, Cancels, SimulatedFederation};

const ADDRESS: HandleAddress = HandleAddress(0x1000);
const SUCC: (&str, &str, Behaviour) = ("succ", "in int n, out int m", Behaviour::Succeed);
const FAIL: (&str, &str, Behaviour) = ("fail", "in int n, out int m", Behaviour::Fail);
const RUN: (&str, &str, Behaviour) = ("run", "in int n, out int m", Behaviour::Run);
const LARGE: (&str, &str, Behaviour) = ("large", "in int n, out double v[n]", Behaviour::Succeed);
const REFUSE: (&str, &str, Behaviour) = ("refuse", "in int n, out int m", Behaviour::Refuse);

/// A library with outputs that are counted.
struct TestLibrary {
    library: Library,
    federation: SimulatedFederation,
    delivered: Arc<AtomicUsize>,
}

impl TestLibrary {
    fn new() -> TestLibrary {
        let federation = SimulatedFederation::new(&[SUCC, FAIL, RUN, REFUSE, LARGE]);
        let library = Library::new(Box::new(federation.clone()));
        TestLibrary { library, federation, delivered: Arc::default() }
    }

    fn prepared(&self, function: &str) -> PreparedCall {
        self.library.bind(ADDRESS, function, None).unwrap();
        let binding = self.library.binding(ADDRESS).unwrap();
        let arguments = vec![Some(Value::Int(41)), None];
        let call = Call {
            function: binding.function.clone(),
            arguments,
            files: Default::default(),
            data: Default::default(),
        };
        let delivered = self.delivered.clone();
        let deliver = Box::new(move |results: crate::federation::Results| {
            assert_eq!(results[1], Some(Value::Int(42)));
            delivered.fetch_add(1, Ordering::Relaxed);
            Ok(())
        });
        PreparedCall { handle: ADDRESS, binding, call, deliver, accepted: Box::new(|_| {}) }
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
    let test = TestLibrary::new();
    let check = |function, expected| assert_eq!(code(test.library.call(test.prepared(function))), expected);
    check("succ", Code::NoError);
    check("fail", Code::SessionFailed);
    check("refuse", Code::RpcRefused);
    assert_eq!(test.delivered(), 1);
    // None of them is a session of the program.
    assert_eq!(test.sessions().counts(UNKNOWN).1, 0);
    assert_eq!(test.sessions().take_failed(), Ok(None));
    assert_eq!(test.sessions().wait_any(), Ok(None));
}

#[test]
fn a_session_is_waited_for_and_probed() {
    let test = TestLibrary::new();
    let sessions = test.sessions();
    let (done, failed, running) = (test.started("succ"), test.started("fail"), test.started("run"));
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
    assert_eq!(test.delivered(), 1, "outputs are written once");
    assert_eq!(sessions.failure(done), Ok(None));
    assert_eq!(sessions.failure(failed).unwrap().unwrap().text, "exit code 2");
    assert_eq!(sessions.failure(running), Ok(None));
    assert_eq!(code(sessions.failure(UNKNOWN)), Code::InvalidSessionId);
}

#[test]
fn one_of_several_is_preferably_one_that_was_not_reported() {
    let test = TestLibrary::new();
    let (first, second) = (test.started("run"), test.started("run"));
    test.federation.end(2, Ok(()));
    assert_eq!(test.sessions().wait_or(&[first, second]), Ok((second, Ok(()))));
    test.federation.end(1, Ok(()));
    assert_eq!(test.sessions().wait_or(&[second, first]), Ok((first, Ok(()))));
    assert_eq!(test.sessions().wait_or(&[second, first]), Ok((second, Ok(()))));
}

#[test]
fn any_session_is_given_once_in_the_order_of_ends() {
    let test = TestLibrary::new();
    let ids = [test.started("run"), test.started("run"), test.started("run")];
    for number in [2, 3, 1] {
        test.federation.end(number, Ok(()));
    }
    let given: Vec<_> = (0..3).map(|_| test.sessions().wait_any().unwrap().unwrap().0).collect();
    assert_eq!(given, [ids[1], ids[2], ids[0]]);
    assert_eq!(test.sessions().wait_any(), Ok(None));
    assert_eq!(test.delivered(), 3);
}

#[test]
fn failed_sessions_are_given_once_each() {
    let test = TestLibrary::new();
    assert_eq!(test.sessions().take_failed(), Ok(None));
    let (first, _, second) = (test.started("fail"), test.started("succ"), test.started("fail"));
    assert_eq!(code(test.sessions().wait_all()), Code::SessionFailed);
    let given: Vec<_> = (0..3).map(|_| test.sessions().take_failed().unwrap()).collect();
    assert_eq!(given, [Some(first), Some(second), None]);
    // Also before it is reported, and never again.
    let third = test.started("fail");
    assert_eq!(test.sessions().take_failed(), Ok(Some(third)));
    assert_eq!(code(test.sessions().wait_and(&[third])), Code::SessionFailed);
    assert_eq!(test.sessions().take_failed(), Ok(None));
}

#[test]
fn outputs_that_cannot_be_written_fail_the_session() {
    let test = TestLibrary::new();
    let full = || Err(Failure::new(Code::OtherErrorCode, "no space"));
    let deliver: [Deliver; 2] = [Box::new(move |_| full()), Box::new(|_| panic!("as the test asked"))];
    for deliver in deliver {
        let id = test.library.call_async(PreparedCall { deliver, ..test.prepared("succ") }).unwrap();
        assert_eq!(code(test.sessions().wait_and(&[id])), Code::SessionFailed);
        assert_eq!(test.sessions().failure(id).unwrap().unwrap().code, Code::OtherErrorCode);
        assert_eq!(test.sessions().take_failed(), Ok(Some(id)));
        assert_eq!(test.sessions().take_failed(), Ok(None));
    }
}

#[test]
fn a_cancelled_session_has_ended_without_outputs() {
    let test = TestLibrary::new();
    let (running, ended) = (test.started("run"), test.started("succ"));
    assert_eq!(test.sessions().cancel(running), Ok(()));
    assert_eq!(test.sessions().cancel(ended), Ok(()), "its end was not reported yet");
    assert_eq!(test.sessions().cancel(ended), Ok(()));
    assert_eq!(code(test.sessions().cancel(UNKNOWN)), Code::InvalidSessionId);
    assert_eq!((test.federation.running(), test.delivered()), (0, 0));
    for id in [running, ended] {
        let failure = test.sessions().wait_and(&[id]).unwrap_err();
        assert_eq!(failure, Failure::new(Code::SessionFailed, format!("session {id} was cancelled")));
    }
    assert_eq!(test.sessions().take_failed(), Ok(None), "the program asked for it");
    assert_eq!(test.sessions().wait_all(), Ok(()));
    assert_eq!(test.sessions().wait_any(), Ok(None));

    let reported = test.started("succ");
    assert_eq!(test.sessions().wait_and(&[reported]), Ok(()));
    assert_eq!(test.sessions().cancel(reported), Ok(()));
    assert_eq!(test.sessions().wait_and(&[reported]), Ok(()), "it had completed");

    let many: Vec<SessionId> = (0..100).map(|_| test.started("run")).collect();
    assert_eq!(test.sessions().cancel_all(), Ok(()));
    assert_eq!(test.federation.running(), 0);
    assert!(many.iter().all(|id| code(test.sessions().probe(*id)) == Code::SessionFailed));
}

#[test]
fn a_cancellation_that_fails_leaves_the_session() {
    let test = TestLibrary::new();
    let id = test.started("run");
    test.federation.set_cancels(Cancels::Refuse);
    assert_eq!(code(test.sessions().cancel(id)), Code::CommunicationFailed);
    assert_eq!(code(test.sessions().cancel_all()), Code::CommunicationFailed);
    assert_eq!(code(test.sessions().probe(id)), Code::NotCompleted);
    test.federation.end(1, Ok(()));
    assert_eq!(test.sessions().wait_and(&[id]), Ok(()));
    assert_eq!(test.delivered(), 1);
}

#[test]
fn a_session_that_completes_while_it_is_cancelled_keeps_its_outputs_if_the_cancellation_fails() {
    let test = TestLibrary::new();
    let (kept, dropped) = (test.started("run"), test.started("run"));
    test.federation.set_cancels(Cancels::CompleteAndRefuse);
    assert_eq!(code(test.sessions().cancel(kept)), Code::CommunicationFailed);
    assert_eq!(test.sessions().wait_any(), Ok(Some((kept, Ok(())))));
    assert_eq!(test.delivered(), 1);
    test.federation.set_cancels(Cancels::CompleteAndSucceed);
    assert_eq!(test.sessions().cancel(dropped), Ok(()));
    assert_eq!(code(test.sessions().probe(dropped)), Code::SessionFailed);
    assert_eq!(test.sessions().wait_any(), Ok(None), "the cancellation has reported its end");
    assert_eq!((test.delivered(), test.sessions().take_failed()), (1, Ok(None)));
}

#[test]
fn a_session_that_ends_as_cancelled_after_its_cancellation_failed_is_a_cancelled_one() {
    let test = TestLibrary::new();
    let (own, others) = (test.started("run"), test.started("run"));
    test.federation.set_cancels(Cancels::Refuse);
    assert_eq!(code(test.sessions().cancel(own)), Code::CommunicationFailed);
    test.federation.cancel_from_elsewhere(1);
    assert_eq!(test.sessions().take_failed(), Ok(None));
    test.federation.cancel_from_elsewhere(2);
    assert_eq!(test.sessions().take_failed(), Ok(Some(others)), "this program has not cancelled it");
    let failure = test.sessions().failure(others).unwrap().unwrap();
    assert_eq!(failure, Failure::new(Code::SessionFailed, "the call was cancelled by another client"));
}

#[test]
fn a_cancelled_session_that_does_not_end_in_time_is_an_error() {
    let test = TestLibrary::new();
    let id = test.started("run");
    test.federation.set_cancels(Cancels::Hang);
    assert_eq!(code(test.sessions().cancel_each(&[id], Instant::now())), Code::CommunicationFailed);
    assert_eq!(code(test.sessions().probe(id)), Code::NotCompleted);
    test.federation.end(1, Ok(()));
    assert_eq!(
        code(test.sessions().probe(id)),
        Code::SessionFailed,
        "a server has accepted the cancellation"
    );
    assert_eq!(test.delivered(), 0);
}

#[test]
fn a_waiting_thread_is_woken_by_a_cancellation() {
    let test = TestLibrary::new();
    let id = test.started("run");
    thread::scope(|scope| {
        let waits = [
            scope.spawn(|| code(test.sessions().wait_and(&[id]))),
            scope.spawn(|| code(test.sessions().wait_all())),
            scope.spawn(|| code(test.sessions().wait_or(&[id]).and_then(|(_, outcome)| outcome))),
        ];
        let any = scope.spawn(|| test.sessions().wait_any());
        while test.sessions().counts(id).0 < waits.len() {
            thread::yield_now();
        }
        assert_eq!(test.sessions().cancel(id), Ok(()));
        assert_eq!(waits.map(|wait| wait.join().unwrap()), [Code::SessionFailed; 3]);
        assert_eq!(any.join().unwrap(), Ok(None), "there is none any more");
    });
}

#[test]
fn a_probe_leaves_the_session_to_functions_that_wait() {
    let test = TestLibrary::new();
    let (first, second, failed) = (test.started("succ"), test.started("succ"), test.started("fail"));
    assert_eq!(test.sessions().probe(first), Ok(()));
    assert_eq!(test.sessions().probe_or(&[second, first]), Ok(Some((second, Ok(())))));
    assert_eq!(code(test.sessions().probe(failed)), Code::SessionFailed);
    assert_eq!(test.delivered(), 2, "its outputs are written");
    assert_eq!(test.sessions().wait_any(), Ok(Some((first, Ok(())))));
    assert_eq!(test.sessions().wait_or(&[first, second]), Ok((second, Ok(()))));
    assert_eq!(code(test.sessions().wait_all()), Code::SessionFailed);
    assert_eq!(test.sessions().wait_any(), Ok(None));
    assert_eq!((test.sessions().wait_all(), test.delivered()), (Ok(()), 2));
}

#[test]
fn a_session_that_has_failed_is_known_as_such_at_once() {
    let test = TestLibrary::new();
    let id = test.started("run");
    thread::scope(|scope| {
        let wait = scope.spawn(|| code(test.sessions().wait_and(&[id])));
        test.federation.end(1, Err(Failure::new(Code::RpcRefused, "as the test asked")));
        // While the other thread may report it.
        assert_eq!(test.sessions().failure(id).unwrap().unwrap().code, Code::RpcRefused);
        assert_eq!(wait.join().unwrap(), Code::SessionFailed);
    });
}

/// A session whose outputs are written by a thread that waits for the test: how to let it go on, and a receiver that gets a message when the
/// writing begins.
fn held(test: &TestLibrary) -> (SessionId, mpsc::Sender<()>, mpsc::Receiver<()>) {
    let ((go_on, held), (writing, begins)) = (mpsc::channel(), mpsc::channel());
    let deliver = Box::new(move |_| {
        writing.send(()).unwrap();
        held.recv().unwrap();
        Ok(())
    });
    let id = test.library.call_async(PreparedCall { deliver, ..test.prepared("succ") }).unwrap();
    (id, go_on, begins)
}

#[test]
fn no_function_returns_from_a_closed_library_while_outputs_are_written() {
    let test = TestLibrary::new();
    let (id, go_on, begins) = held(&test);
    let running = test.started("run");
    thread::scope(|scope| {
        let writes = scope.spawn(|| code(test.sessions().wait_and(&[id])));
        begins.recv().unwrap();
        let waits = [
            scope.spawn(|| code(test.sessions().wait_and(&[id]))),
            scope.spawn(|| code(test.sessions().wait_or(&[running]))),
        ];
        while test.sessions().counts(id).0 + test.sessions().counts(running).0 < waits.len() {
            thread::yield_now();
        }
        // As finalize begins.
        test.sessions().close();
        let late = scope.spawn(|| code(test.sessions().probe(id)));
        let finalize = scope.spawn(|| test.library.close());
        for _ in 0..100 {
            thread::yield_now();
        }
        assert!(!waits.iter().any(|wait| wait.is_finished()) && !late.is_finished());
        go_on.send(()).unwrap();
        assert_eq!(waits.map(|wait| wait.join().unwrap()), [Code::NotInitialized; 2]);
        assert_eq!(late.join().unwrap(), Code::NotInitialized);
        assert_eq!(writes.join().unwrap(), Code::NoError, "its outputs are written");
        finalize.join().unwrap();
    });
    assert!(test.federation.is_shut_down());
}

#[test]
fn a_session_whose_outputs_are_written_is_cancelled_only_afterwards() {
    let test = TestLibrary::new();
    let (id, go_on, begins) = held(&test);
    thread::scope(|scope| {
        let writes = scope.spawn(|| code(test.sessions().wait_and(&[id])));
        begins.recv().unwrap();
        let cancels = [
            scope.spawn(|| code(test.sessions().cancel(id))),
            scope.spawn(|| code(test.sessions().cancel_all())),
        ];
        while test.sessions().counts(id).0 < cancels.len() {
            thread::yield_now();
        }
        go_on.send(()).unwrap();
        assert_eq!(writes.join().unwrap(), Code::NoError);
        assert_eq!(cancels.map(|cancel| cancel.join().unwrap()), [Code::NoError; 2]);
        assert_eq!(test.sessions().probe(id), Ok(()), "it had completed");
    });
}

#[test]
fn no_session_starts_while_too_large_outputs_are_not_written() {
    let test = TestLibrary::new();
    let elements = 1 << 16;
    test.library.bind(ADDRESS, "large", None).unwrap();
    let binding = test.library.binding(ADDRESS).unwrap();
    let start = || {
        let arguments = vec![Some(Value::Int(elements)), None];
        let call = Call {
            function: binding.function.clone(),
            arguments,
            files: Default::default(),
            data: Default::default(),
        };
        let deliver = Box::new(|_| Ok(()));
        test.library.call_async(PreparedCall {
            handle: ADDRESS,
            binding: binding.clone(),
            call,
            deliver,
            accepted: Box::new(|_| {}),
        })
    };
    let ids: Vec<SessionId> = (0..2).map(|_| start().unwrap()).collect();
    let failure = start().unwrap_err();
    assert_eq!(failure.code, Code::OtherErrorCode);
    assert!(failure.text.contains("found 1048576") && failure.text.contains("wait"), "{}", failure.text);
    assert_eq!(test.sessions().wait_and(&ids[..1]), Ok(()));
    let third = start().unwrap();
    assert_eq!(code(start().map(drop)), Code::OtherErrorCode);
    assert_eq!(test.sessions().cancel(third), Ok(()), "outputs that are dropped do not count");
    start().unwrap();
}

#[test]
fn a_binding_has_a_number_that_no_later_library_gives() {
    let (before, after) = (TestLibrary::new(), TestLibrary::new());
    let number = |test: &TestLibrary, function| test.prepared(function).binding.number;
    let first = number(&before, "succ");
    assert!(number(&after, "run") > first && number(&before, "succ") > first + 1);
}

#[test]
fn each_function_returns_when_the_library_is_closed() {
    let test = TestLibrary::new();
    let id = test.started("run");
    thread::scope(|scope| {
        let waits = [
            scope.spawn(|| code(test.sessions().wait_and(&[id]))),
            scope.spawn(|| code(test.sessions().wait_or(&[id]))),
            scope.spawn(|| code(test.sessions().wait_all())),
            scope.spawn(|| code(test.sessions().wait_any())),
            scope.spawn(|| code(test.library.call(test.prepared("run")))),
        ];
        while test.federation.running() < 2 {
            thread::yield_now();
        }
        test.library.close();
        assert_eq!(waits.map(|wait| wait.join().unwrap()), [Code::NotInitialized; 5]);
    });
    assert_eq!(code(test.sessions().probe(id)), Code::NotInitialized);
    assert_eq!(code(test.library.call_async(test.prepared("succ"))), Code::NotInitialized);
    assert_eq!(test.delivered(), 0);
}

#[test]
fn the_handle_of_a_session_is_given_until_it_is_destructed_or_bound_anew() {
    let test = TestLibrary::new();
    let id = test.started("succ");
    assert_eq!(test.library.handle(id), Ok(ADDRESS));
    assert_eq!(code(test.library.handle(UNKNOWN)), Code::InvalidSessionId);
    let other = test.started("fail");
    assert_eq!(code(test.library.handle(id)), Code::InvalidFunctionHandle);
    assert_eq!(test.library.handle(other), Ok(ADDRESS));
    test.library.destruct(ADDRESS).unwrap();
    assert_eq!(code(test.library.handle(other)), Code::InvalidFunctionHandle);
    assert_eq!(code(test.library.destruct(ADDRESS)), Code::InvalidFunctionHandle);
    assert_eq!(code(test.library.bind(HandleAddress(0), "succ", None)), Code::InvalidFunctionHandle);
    assert_eq!(code(test.library.bind(ADDRESS, "succ", Some("paris"))), Code::ServerNotFound);
    assert_eq!(code(test.library.bind(ADDRESS, "none", Some("lyon"))), Code::FunctionNotFound);
}

#[test]
fn the_oldest_reported_sessions_are_forgotten() {
    let test = TestLibrary::new();
    let failed = test.started("fail");
    assert_eq!(code(test.sessions().wait_and(&[failed])), Code::SessionFailed);
    let mut last = failed;
    for count in 0..REPORTED_MAX {
        if count == REPORTED_MAX - 1 {
            assert_eq!(code(test.sessions().probe(failed)), Code::SessionFailed);
        }
        last = test.started("succ");
        assert_eq!(test.sessions().wait_and(&[last]), Ok(()));
        // A call that waits is no session.
        assert_eq!(test.library.call(test.prepared("succ")), Ok(()));
    }
    assert_eq!(code(test.sessions().probe(failed)), Code::InvalidSessionId);
    assert_eq!(test.sessions().take_failed(), Ok(None));
    assert_eq!(code(test.sessions().probe(last)), Code::NoError);
    assert_eq!(test.sessions().counts(last).1, REPORTED_MAX);
}

/// Eight threads start, end, cancel, probe and wait at once: each session is reported, and outputs are written for those that completed.
#[test]
fn many_threads_share_the_sessions() {
    const THREADS: usize = 8;
    const EACH: usize = 200;
    let test = TestLibrary::new();
    let (completed, cancelled) = (AtomicUsize::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (test, completed, cancelled) = (&test, &completed, &cancelled);
            scope.spawn(move || {
                for round in 0..EACH {
                    let id = test.started(if round % 3 == 0 { "run" } else { "succ" });
                    let outcome = match (round % 3, (round + thread) % 4) {
                        (0, _) => test.sessions().cancel(id).and(test.sessions().wait_and(&[id])),
                        (_, 0) => test.sessions().wait_and(&[id]),
                        (_, 1) => test.sessions().probe(id),
                        (_, 2) => test.sessions().wait_or(&[id]).and_then(|(_, outcome)| outcome),
                        _ => test.sessions().wait_and(&[id, id]),
                    };
                    let count = if round % 3 == 0 { cancelled } else { completed };
                    assert_eq!(code(outcome) == Code::NoError, round % 3 != 0);
                    count.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(test.delivered(), completed.load(Ordering::Relaxed));
    assert_eq!(test.sessions().wait_all(), Ok(()), "some were only probed");
    assert_eq!(test.sessions().wait_any(), Ok(None));
    assert_eq!(completed.into_inner() + cancelled.into_inner(), THREADS * EACH);
}
