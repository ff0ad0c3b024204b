//! A resident process: it takes calls in turn, dies, is killed, is cancelled, and survives its server.

use std::fs;
use std::path::Path;

use pliant_calls::Value;
use pliant_client::Client;
use pliant_client::calls::{CallEnd, CallOrder, StartedCall, TypedService};
use pliant_control::job::{Exit, JobState};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use super::{compiled, completed, doubles, int, resident_order, source, started, text};
use crate::harness::*;

const SIGNATURE: &str = r#"["in int mode", "in int n", "in double a[n][n]", "inout double b[n]", "in file data", "out int pid",
             "out string text[64]", "out file copy", "in string gate"]"#;

async fn resident(folder: &Path, keys: &str) -> (Federation, Client, TypedService) {
    let program = compiled(&source("service.c"), folder);
    let service = format!(
        "[[service]]\nname = \"solve\"\nsignature = {SIGNATURE}\nresident = true\ncommand = [\"{}\"]\nspeedup = \"rigid:1\"\n\
         runtime = \"60s\"\n{keys}\n",
        program.display()
    );
    let (federation, client) = started(&service).await;
    let service = client.typed_service("solve", None).await.unwrap();
    (federation, client, service)
}

fn pid(results: &[Option<Value>]) -> i32 {
    match results[5] {
        Some(Value::Int(pid)) => pid,
        ref other => panic!("{other:?}"),
    }
}

/// Waits until the service has begun that call.
async fn begun(folder: &Path, count: usize) {
    until("the call to begin", async || {
        let lines = fs::read_to_string(folder.join("gate")).unwrap_or_default().lines().count();
        (lines == count).then_some(())
    })
    .await;
}

async fn failure(client: &Client, order: &CallOrder) -> (Exit, String) {
    match client.call(order).await.unwrap() {
        CallEnd::Failed { exit, reason } => (exit, reason),
        end => panic!("{end:?}"),
    }
}

async fn ended(client: &Client, call: &StartedCall) -> CallEnd {
    client.wait_call(call).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_takes_calls_in_turn_and_is_started_again_when_it_has_died() {
    let folder = tempfile::tempdir().unwrap();
    let (federation, client, service) = resident(folder.path(), "").await;
    let order = |mode| resident_order(&service, mode, folder.path());
    let results = completed(&client, &order(0)).await;
    let first = pid(&results);
    let copy = Some(Value::File("copy".to_owned()));
    assert_eq!(
        results,
        [None, None, None, doubles(&[21.0, 43.0]), None, int(first), text("done"), copy, None]
    );
    assert_eq!(fs::read_to_string(folder.path().join("copy")).unwrap(), "content");
    assert_eq!(pid(&completed(&client, &order(0)).await), first, "the process stays");

    // A failure that the service reports, and results that are not what the signature says, cost the process nothing.
    assert_eq!(failure(&client, &order(1)).await, (Exit::Code(1), "the matrix is singular".to_owned()));
    let (exit, reason) = failure(&client, &order(3)).await;
    assert_eq!(
        (exit, reason.as_str()),
        (Exit::Code(1), "the results of the resident process: `b`: expected double[2], found double[1]")
    );
    assert_eq!(pid(&completed(&client, &order(0)).await), first);

    // It dies: its call fails with the reason, and those behind it go on with another process.
    let dying = client.start_call(&order(2)).await.unwrap();
    let behind = client.start_call(&order(0)).await.unwrap();
    let CallEnd::Failed { exit, reason } = ended(&client, &dying).await else { panic!("it was killed") };
    assert_eq!(
        (exit, reason.as_str()),
        (Exit::Signal(9), "the resident process ended with signal 9 during the call")
    );
    let CallEnd::Completed(results) = ended(&client, &behind).await else { panic!("it goes on") };
    let second = pid(&results);
    assert_ne!(second, first);
    let (_, reason) = failure(&client, &order(4)).await;
    assert!(reason.starts_with("the resident process has written something else than an answer"), "{reason}");
    let third = pid(&completed(&client, &order(0)).await);
    assert!(third != second);

    // What a call writes to standard error is kept with its job.
    let call = client.start_call(&order(0)).await.unwrap();
    ended(&client, &call).await;
    assert_eq!(fetched(&client, &call.job).await["stderr"], b"mode 0\n");
    drop(federation);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_a_job_that_is_listed_and_cancelled() {
    let folder = tempfile::tempdir().unwrap();
    let (federation, client, service) = resident(folder.path(), "").await;
    let order = |mode| resident_order(&service, mode, folder.path());
    let running = client.start_call(&order(5)).await.unwrap();
    begun(folder.path(), 1).await;
    let behind = client.start_call(&order(0)).await.unwrap();
    let withdrawn = client.start_call(&order(0)).await.unwrap();
    assert_eq!(client.probe_call(&running).await.unwrap(), None);
    let record = client.job(&running.job).await.unwrap();
    assert_eq!((record.state, record.name.as_str()), (JobState::Active, "solve"));
    // One that waits for its turn is cancelled at once, and the process of the call that is cancelled ends.
    assert_eq!(client.cancel_call(&withdrawn).await.unwrap(), CallEnd::Cancelled);
    assert_eq!(client.probe_call(&running).await.unwrap(), None);
    assert_eq!(client.cancel_call(&running).await.unwrap(), CallEnd::Cancelled);
    let CallEnd::Completed(results) = ended(&client, &behind).await else { panic!("it goes on") };
    assert_eq!(results[3], doubles(&[21.0, 43.0]));
    drop(federation);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_survives_its_server_and_is_carried_out_once() {
    let folder = tempfile::tempdir().unwrap();
    let (mut federation, client, service) = resident(folder.path(), "").await;
    let running = client.start_call(&resident_order(&service, 6, folder.path())).await.unwrap();
    let behind = client.start_call(&resident_order(&service, 0, folder.path())).await.unwrap();
    begun(folder.path(), 1).await;
    federation.kill("lyon");
    federation.revive("lyon");
    fs::write(folder.path().join("gate.open"), "").unwrap();
    for call in [&running, &behind] {
        let CallEnd::Completed(results) = ended(&client, call).await else { panic!("it completes") };
        assert_eq!(results[3], doubles(&[21.0, 43.0]));
    }
    begun(folder.path(), 1).await;
    // The supervisor that is killed takes its call with it, and none that waits.
    fs::remove_file(folder.path().join("gate.open")).unwrap();
    let running = client.start_call(&resident_order(&service, 6, folder.path())).await.unwrap();
    begun(folder.path(), 2).await;
    let behind = client.start_call(&resident_order(&service, 0, folder.path())).await.unwrap();
    let lock = fs::read_to_string(federation.job_folder(&running.job).join("lock")).unwrap();
    kill_process(Pid::from_raw(lock.trim().parse().unwrap()).unwrap(), Signal::KILL).unwrap();
    let CallEnd::Failed { exit: Exit::Lost(why), .. } = ended(&client, &running).await else {
        panic!("it is lost")
    };
    assert!(why.contains("supervisor"), "{why}");
    let CallEnd::Completed(results) = ended(&client, &behind).await else { panic!("it goes on") };
    assert_eq!(results[3], doubles(&[21.0, 43.0]));
    begun(folder.path(), 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_lost_with_its_host_and_begun_again_only_if_that_is_declared() {
    for keys in ["", "idempotent = true"] {
        let folder = tempfile::tempdir().unwrap();
        let (mut federation, client, service) = resident(folder.path(), keys).await;
        let running = client.start_call(&resident_order(&service, 6, folder.path())).await.unwrap();
        let behind = client.start_call(&resident_order(&service, 0, folder.path())).await.unwrap();
        begun(folder.path(), 1).await;
        let state = federation.job_folder(&running.job).ancestors().nth(2).unwrap().to_owned();
        assert!(state.join("boot").exists(), "{}", state.display());
        federation.kill("lyon");
        // As after a restart of the host, which ends all processes and may lose what was not synced.
        fs::write(state.join("boot"), "another boot\n").unwrap();
        federation.revive("lyon");
        fs::write(folder.path().join("gate.open"), "").unwrap();
        for call in [&running, &behind] {
            match ended(&client, call).await {
                CallEnd::Failed { exit: Exit::Lost(why), .. } if keys.is_empty() => {
                    assert!(why.contains("restarted"), "{why}");
                }
                CallEnd::Completed(results) if !keys.is_empty() => {
                    assert_eq!(results[3], doubles(&[21.0, 43.0]));
                }
                end => panic!("{keys}: {end:?}"),
            }
        }
        begun(folder.path(), if keys.is_empty() { 1 } else { 2 }).await;
        // The journal may have lacked the last calls, whose IDs their users have.
        let next = client.start_call(&resident_order(&service, 0, folder.path())).await.unwrap();
        assert!(next.job.number > 10_000, "{}", next.job);
        ended(&client, &next).await;
        federation.kill("lyon");
        federation.revive("lyon");
        let again = client.start_call(&resident_order(&service, 0, folder.path())).await.unwrap();
        assert_eq!(again.job.number, next.job.number + 1, "in the same boot nothing is skipped");
        ended(&client, &again).await;
        drop(federation);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_ends_when_it_is_idle_and_with_its_server() {
    let folder = tempfile::tempdir().unwrap();
    let (mut federation, client, service) = resident(folder.path(), "idle = \"1s\"").await;
    let order = || resident_order(&service, 0, folder.path());
    let is_gone = |pid: i32| test_kill_process(Pid::from_raw(pid).unwrap()).is_err();
    let first = pid(&completed(&client, &order()).await);
    until("the idle process to end", async || is_gone(first).then_some(())).await;
    let second = pid(&completed(&client, &order()).await);
    assert_ne!(first, second);
    federation.stop("lyon");
    until("the process to end with its server", async || is_gone(second).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn arguments_and_results_that_are_too_long_for_a_message_go_as_files() {
    let folder = tempfile::tempdir().unwrap();
    let program = compiled(
        &super::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/resident-service/product.c"),
        folder.path(),
    );
    let service = format!(
        "[[service]]\nname = \"product\"\nresident = true\nspeedup = \"rigid:1\"\nruntime = \"10s\"\n\
         signature = [\"in int n\", \"in double a[n][n]\", \"in double b[n][n]\", \"out double c[n][n]\"]\ncommand = [\"{}\"]\n",
        program.display()
    );
    let (federation, client) = started(&service).await;
    let service = client.typed_service("product", None).await.unwrap();
    let n = 200;
    let matrix = |element: fn(usize, usize) -> f64| {
        let elements = (0..n * n).map(|at| element(at / n, at % n)).collect();
        Some(Value::Matrix {
            rows: n as u64,
            columns: n as u64,
            elements: pliant_calls::Array::Double(elements),
        })
    };
    let (a, double) = (|i, j| (i * 7 + j) as f64, |i, j| if i == j { 2.0 } else { 0.0 });
    let order = CallOrder::new(service, vec![int(n as i32), matrix(a), matrix(double), None]);
    let results = completed(&client, &order).await;
    assert_eq!(results, [None, None, None, matrix(|i, j| 2.0 * (i * 7 + j) as f64)]);
    drop(federation);
}
