//! Mandatory requests that wait move to servers that would complete them sooner.

use pliant_client::{ExplorationCalls, ExplorationSpec, Explorer, RequestEvent};
use pliant_control::optional::server::RequestState;
use pliant_journal::open_sqlite;
use pliant_model::SpanMs;
use pliant_policy::optional::{Kind, Reallocation};
use pliant_wire::{Attempt, Call};
use tokio::time::Instant;

use super::{pauses, server};
use crate::harness::{Federation, TIMEOUT, fresh_key, until};

fn pause(number: u32, attempt: u32, ms: u32) -> Call {
    let arguments = [("ms".to_owned(), ms.to_string())].into();
    Call { number, kind: Kind::Mandatory, attempt, arguments }
}

/// Occupies a core of a server with a long request.
async fn occupy(federation: &Federation, server: &str, ms: u32) -> ExplorationCalls {
    let mut calls = federation.client("bob").calls(fresh_key(), "pause", None, TIMEOUT);
    calls.discover(10).await.unwrap();
    calls.call_async(&server.parse().unwrap(), pause(0, 0, ms));
    until("the core to be taken", async || {
        (calls.probe(0).await == Some(RequestState::Running)).then_some(())
    })
    .await;
    calls
}

/// How many requests have run to their end at a server, by its journal. The server is killed: one that ends in order keeps its
/// last state only.
fn finished(federation: &mut Federation, name: &str) -> usize {
    federation.kill(name);
    let mut journal = open_sqlite(&federation.folder(name).join("state/optional")).unwrap();
    let entries = journal.entries(0, u32::MAX).unwrap();
    entries.iter().filter(|entry| entry.event.contains(r#""exit":"completed""#)).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_behind_others_moves_to_a_server_that_is_free_and_runs_once() {
    let clusters = ["lyon", "nancy"].map(|name| server(name, "cores = 1\npause = true"));
    let mut federation = Federation::start(&clusters).await;
    let bob = occupy(&federation, "lyon", 600_000).await;
    // Two mandatory requests on two servers: one of them has bob's before it, for ten minutes.
    let spec = ExplorationSpec {
        mandatory: 2,
        most: 2,
        reallocation: Some(Reallocation { every: SpanMs(200), least_gain: SpanMs(100) }),
        ..pauses(300, 2, SpanMs(60_000))
    };
    let client = federation.client("alice");
    let explorer = Explorer::new(&client, &spec, None).unwrap();
    let explored = explorer.run(std::future::pending(), |_| {}).await.unwrap();
    assert_eq!((explored.progress.mandatory, explored.progress.failed), (2, 0));
    assert_eq!(bob.open(), 1, "bob's request is still there");
    // Both ran at nancy, once each.
    assert_eq!([finished(&mut federation, "lyon"), finished(&mut federation, "nancy")], [0, 2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn withdrawn_requests_may_come_back_and_running_ones_stay() {
    let federation = Federation::start(&[server("lyon", "cores = 1\npause = true")]).await;
    let mut calls = federation.client("alice").calls(fresh_key(), "pause", None, TIMEOUT);
    calls.discover(10).await.unwrap();
    let lyon = "lyon".parse().unwrap();
    calls.call_async(&lyon, pause(0, 0, 600_000));
    calls.call_async(&lyon, pause(1, 0, 20));
    until("the first to run", async || (calls.probe(0).await == Some(RequestState::Running)).then_some(()))
        .await;
    calls.expect(&lyon);
    let event = calls.wait_any_until(Instant::now() + TIMEOUT).await.unwrap();
    let RequestEvent::Expected { prospects, .. } = &event else { panic!("{event:?}") };
    // Nothing has ended yet: the wait of the second request is not known.
    assert_eq!((prospects.more.wait, prospects.waiting.as_slice()), (None, [(1, None)].as_slice()));
    // The first one runs: it is not given back, so only the second is.
    calls.withdraw(&lyon, 0.into());
    calls.withdraw(&lyon, 1.into());
    let event = calls.wait_any_until(Instant::now() + TIMEOUT).await.unwrap();
    assert_eq!(event, RequestEvent::Withdrawn { id: 1.into(), server: lyon.clone() });
    assert_eq!(calls.probe(0).await, Some(RequestState::Running));
    // The same attempt is not taken again, the next one is.
    calls.call_async(&lyon, pause(1, 0, 20));
    let event = calls.wait_any_until(Instant::now() + TIMEOUT).await.unwrap();
    assert_eq!(event, RequestEvent::Withdrawn { id: 1.into(), server: lyon.clone() });
    calls.call_async(&lyon, pause(1, 1, 20));
    assert_eq!(calls.probe(1).await, Some(RequestState::Waiting));
    calls.cancel(&lyon, 0);
    let event = calls.wait_any_until(Instant::now() + TIMEOUT).await.unwrap();
    assert!(
        matches!(&event, RequestEvent::Ended { number: 1, state: RequestState::Completed, .. }),
        "{event:?} of {:?}",
        Attempt { number: 1, attempt: 1 }
    );
}
