//! What users see: results, shares, Ctrl-C, and what is refused.

use pliant_client::{ExplorationCalls, RequestEvent};
use pliant_control::optional::server::RequestState;
use pliant_policy::optional::Kind;
use pliant_testing::claims::holds;
use pliant_wire::Call;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::time::Instant;

use super::server;
use crate::harness::{CommandUser, Federation, MASTER, TIMEOUT, document, until};

#[tokio::test(flavor = "multi_thread")]
async fn c004_20_results_are_kept_and_shares_are_shown() {
    let federation = Federation::start(&[server("lyon", "cores = 2")]).await;
    let alice = CommandUser::new(&federation, "alice");
    let (code, said, stderr) =
        alice.run("explore say --vary text=one,two,three --min 1 --max 3 --deadline 10s --out kept");
    assert_eq!(code, 0, "{stderr}");
    assert_eq!(
        (&said["mandatory"]["completed"], &said["optional"]["completed"]),
        (&1.into(), &2.into()),
        "{said}"
    );
    holds(
        "C004-20",
        "pliant explore --min 1 --max 3 --deadline 10s: one mandatory request, two optional ones",
    );
    let kept =
        |number: u32| std::fs::read_to_string(alice.dir().join("kept/out").join(number.to_string())).unwrap();
    assert_eq!([0, 1, 2].map(kept), ["<one>", "<two>", "<three>"]);
    let listed = std::fs::read(alice.dir().join("kept/results.json")).unwrap();
    let listed = document(&listed);
    let row = &listed["results"][2];
    assert_eq!(
        (&row["arguments"]["text"], &row["optional"], &row["file"]),
        (&"three".into(), &true.into(), &"out/2".into())
    );

    let bob = CommandUser::new(&federation, "bob");
    bob.run("explore say text=x --max 1 --deadline 5s --out kept");
    let users = |user: &CommandUser| user.run("users").1["users"].as_array().unwrap().clone();
    let root = CommandUser::operator(&federation);
    let all = users(&root);
    assert_eq!([&all[0]["user"], &all[1]["user"]], [&Value::from("alice"), &Value::from("bob")]);
    assert!(all.iter().all(|user| user["satisfaction"].as_f64().unwrap() > 0.0), "{all:?}");
    // A user sees no share of another user.
    let own = users(&bob);
    assert_eq!((own.len(), &own[0]["user"]), (1, &Value::from("bob")));
}

#[tokio::test(flavor = "multi_thread")]
async fn ctrl_c_cancels_open_requests_and_keeps_results() {
    let federation = Federation::start(&[server("lyon", "cores = 1\npause = true")]).await;
    let alice = CommandUser::new(&federation, "alice");
    let mut command = alice.command("explore pause ms=100 --min 1 --max 1000 --deadline 1h --out kept");
    let child = command.spawn().unwrap();
    until("a result", async || alice.dir().join("kept/out/2").exists().then_some(())).await;
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    let said = document(&output.stdout);
    assert!(said["optional"]["completed"].as_u64().unwrap() >= 2, "{said}");
    nothing_left(&alice).await;
    let results = std::fs::read(alice.dir().join("kept/results.json")).unwrap();
    let results = document(&results);
    let there = std::fs::read_dir(alice.dir().join("kept/out")).unwrap().count();
    assert_eq!(results["results"].as_array().unwrap().len(), there);
    // It is over, and not failed.
    let (code, again, stderr) = alice.run("explore pause ms=100 --min 1 --max 1000 --deadline 1h --out kept");
    assert_eq!((code, &again["optional"]), (130, &said["optional"]), "{stderr}");
    assert!(
        stderr.contains("kept: this exploration was interrupted") && stderr.contains("another --out"),
        "{stderr}"
    );
}

/// Waits until no request of a user is on the platform.
async fn nothing_left(user: &CommandUser) {
    until("nothing to be left", async || {
        let own = user.run("users").1;
        (own["users"][0]["requests"] == 0).then_some(())
    })
    .await;
}

/// What no server could ever take has failed; what it could is done.
#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_value_among_good_ones_fails_alone() {
    let federation = Federation::start(&[server("lyon", "cores = 1\npause = true")]).await;
    let alice = CommandUser::new(&federation, "alice");
    let line = "explore pause --vary ms=1,0,2,3 --min 3 --deadline 30s --out kept";
    let (code, said, stderr) = alice.run(line);
    assert_eq!(code, 3, "{stderr}");
    let refusal = "server lyon does not take request 1: ";
    assert!(stderr.contains(refusal) && stderr.contains("1 of 3 mandatory requests failed"), "{stderr}");
    let completed = (&said["mandatory"]["completed"], &said["optional"]["completed"], &said["failed"]);
    assert_eq!(completed, (&2.into(), &1.into(), &1.into()), "{said}");
    let why = std::fs::read_to_string(alice.dir().join("kept/failed/1")).unwrap();
    assert!(why.starts_with(refusal), "{why}");
    nothing_left(&alice).await;
    assert_eq!(alice.run(line).0, 3, "it stays so");
}

/// The first ten are listed, and the file that has the others.
#[tokio::test(flavor = "multi_thread")]
async fn many_wrong_values_are_reported_in_a_few_lines() {
    let federation = Federation::start(&[server("lyon", "cores = 1\npause = true")]).await;
    let alice = CommandUser::new(&federation, "alice");
    let wrong: Vec<String> = (1..=15).map(|n| format!("x{n}")).collect();
    let wrong = wrong.join(",");
    let (code, said, stderr) =
        alice.run(&format!("explore pause --vary ms=1,{wrong} --min 1 --deadline 30s --out kept"));
    assert_eq!((code, &said["failed"]), (0, &15.into()), "{stderr}");
    assert_eq!(stderr.matches("does not take request").count(), 10, "{stderr}");
    assert!(stderr.contains("servers do not take 5 more requests; why is in kept/failed"), "{stderr}");
    assert_eq!(std::fs::read_dir(alice.dir().join("kept/failed")).unwrap().count(), 15);
}

#[tokio::test(flavor = "multi_thread")]
async fn completions_after_the_deadline_are_reported_as_late() {
    let federation = Federation::start(&[server("lyon", "cores = 1\npause = true")]).await;
    let alice = CommandUser::new(&federation, "alice");
    let (code, said, stderr) = alice.run("explore pause ms=1500 --max 2 --min 2 --deadline 1s --out kept");
    assert_eq!((code, &said["mandatory"]["completed"]), (0, &2.into()), "{stderr}");
    // Two one after the other take three seconds at least.
    assert!(said["late_s"].as_f64().unwrap() >= 2.0, "{said}");
    assert!(said["mandatory_done_s"].as_f64().unwrap() >= 3.0, "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_error_says_why_no_server_offers_a_service() {
    let plain = crate::harness::Cluster::new("nancy", 1, 1.0);
    let federation = Federation::start(&[plain]).await;
    let alice = CommandUser::new(&federation, "alice");
    let (code, _, stderr) = alice.run("explore say text=x --max 2 --deadline 10s --out a");
    assert!(code == 2 && stderr.contains("no server that offers `say` has cores"), "{stderr}");

    let mut federation = Federation::start(&[server("lyon", "cores = 1")]).await;
    let alice = CommandUser::new(&federation, "alice");
    let (code, _, stderr) = alice.run("explore sya text=x --max 2 --deadline 10s --out a");
    assert!(code == 2 && stderr.contains("no server offers `sya`"), "{stderr}");
    assert!(stderr.contains("they offer ") && stderr.contains("say"), "{stderr}");
    // What has never begun does not keep its folder.
    assert_eq!(alice.run("explore say text=x --max 2 --deadline 10s --out a").0, 0);

    federation.kill(MASTER);
    let (code, _, stderr) =
        alice.run("explore say text=x --max 2 --deadline 10s --server-timeout 1s --out b");
    assert!(code == 1 && stderr.contains("agent"), "{code}: {stderr}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_is_refused_with_a_reason() {
    let federation = Federation::start(&[server("lyon", "cores = 1\npause = true")]).await;
    let alice = CommandUser::new(&federation, "alice");
    for (line, code, words) in [
        ("explore say --max 5 --deadline 10s --out a", 2, "`text`: expected printable text"),
        ("explore pause ms=0 --max 5 --deadline 10s --out b", 2, "a number from 1 to"),
        ("explore pause ms=1 --deadline 10s --out c", 2, "expected --max N, --vary"),
        ("explore pause ms=1 --vary ms=1..5 --deadline 10s --out d", 2, "found `ms` twice"),
        ("explore pause --vary ms=1..5 --min 9 --deadline 10s --out e", 2, "expected at most 5"),
        ("explore count --max 2 --deadline 10s --out f", 2, "data"),
        (
            "explore pause ms=1 --legacy 2 --min 3 --max 9 --deadline 10s --out i",
            2,
            "--legacy: expected 3 (--min) to 9 requests, found 2",
        ),
        (
            "explore pause ms=1 --legacy 10 --max 9 --deadline 10s --out j",
            2,
            "1 (--min) to 9 requests, found 10",
        ),
        ("explore say --vary text=x,y --max 3 --deadline 10s --out h", 2, "--max: expected at most 2"),
    ] {
        let (found, _, stderr) = alice.run(line);
        assert_eq!(found, code, "{line}: {stderr}");
        assert!(stderr.contains(words), "{line}: {stderr}");
    }
    // The same folder for something else.
    assert_eq!(alice.run("explore say --vary text=x,y --deadline 5s --out g").0, 0);
    let (code, _, stderr) = alice.run("explore say --vary text=x,z --deadline 5s --out g");
    assert!(code == 2 && stderr.contains("arguments: expected"), "{stderr}");
    for (other, words) in [
        ("--min 2", "--min: expected 2, found 1"),
        ("--max 1", "--max: expected 1, found 2"),
        ("--legacy 2", "--legacy: expected 2, found none"),
        ("--reallocate 5s", "--reallocate: expected 5 s, found none"),
    ] {
        let line = format!("explore say --vary text=x,y --deadline 5s --out g {other}");
        let (code, _, stderr) = alice.run(&line);
        assert!(code == 2 && stderr.contains(words), "{line}: {stderr}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_request_finds_the_input_files() {
    let clusters = [server("lyon", "cores = 2"), server("nancy", "cores = 1")];
    let mut federation = Federation::start(&clusters).await;
    let alice = CommandUser::new(&federation, "alice");
    let write = |content: &str| std::fs::write(alice.dir().join("data.bin"), content).unwrap();
    write("eleven bytes");
    // It copies the file, which fails if that is not there.
    let line = "explore count data=in/data --in in/data=data.bin --min 2 --max 6 --deadline 30s --out kept";
    let (code, said, stderr) = alice.run(line);
    assert_eq!(code, 0, "{stderr}");
    let completed = (&said["mandatory"]["completed"], &said["optional"]["completed"]);
    assert_eq!(completed, (&2.into(), &4.into()), "{said}");
    // Servers that were restarted still have them.
    federation.kill("lyon");
    federation.revive("lyon");
    let again = line.replace("--out kept", "--out again");
    assert_eq!(alice.run(&again).0, 0);
    write("another file");
    let (code, _, stderr) = alice.run(line);
    assert!(code == 2 && stderr.contains("input files: expected in/data (12 bytes"), "{stderr}");
    let (code, _, stderr) = alice.run("explore count data=data.bin --max 2 --deadline 10s --out none");
    assert!(code == 2 && stderr.contains("expected the input file data.bin, found none"), "{stderr}");
}

fn call(number: u32, kind: Kind, ms: u32) -> Call {
    Call { number, kind, attempt: 0, arguments: [("ms".to_owned(), ms.to_string())].into() }
}

fn is_completed(happened: &RequestEvent, wanted: u32) -> bool {
    matches!(happened, RequestEvent::Ended { number, state: RequestState::Completed, .. } if *number == wanted)
}

/// The calls of the library, without the dispatcher.
#[tokio::test(flavor = "multi_thread")]
async fn calls_are_made_probed_cancelled_and_waited_for() {
    let federation = Federation::start(&[server("lyon", "cores = 1\npause = true\nper_core = 3")]).await;
    let client = federation.client("alice");
    let mut calls = client.calls(crate::harness::fresh_key(), "pause", None, TIMEOUT);
    let offers = calls.discover(10).await.unwrap();
    assert_eq!((offers.len(), offers[0].cores), (1, 1));
    let lyon = offers[0].server.clone();
    calls.call_async(&lyon, call(1, Kind::Optional, 60_000));
    calls.call_async(&lyon, call(2, Kind::Optional, 60_000));
    until("the first to run", async || (calls.probe(1).await == Some(RequestState::Running)).then_some(()))
        .await;
    assert_eq!(calls.probe(2).await, Some(RequestState::Waiting));
    // A mandatory one ends the optional one that runs, and is waited for.
    let happened = calls.call(&lyon, call(0, Kind::Mandatory, 20)).await;
    assert!(is_completed(&happened, 0), "{happened:?}");
    calls.cancel(&lyon, 1);
    calls.cancel(&lyon, 2);
    assert!(calls.settle(Instant::now() + TIMEOUT).await);
    assert_eq!((calls.open(), calls.probe(1).await), (0, None));
    assert_eq!(calls.wait_any_until(Instant::now()).await, None);
    calls.call_async(&lyon, call(3, Kind::Optional, 20));
    calls.call_async(&lyon, call(4, Kind::Optional, 20));
    let all = calls.wait_all().await;
    assert!(is_completed(&all[0], 3) && is_completed(&all[1], 4), "{all:?}");
}

/// Calls to two servers, of which `lyon` is dead when it gets a mandatory one.
async fn with_a_call_to_the_dead() -> (Federation, ExplorationCalls) {
    let clusters = ["lyon", "nancy"].map(|name| server(name, "cores = 1\npause = true"));
    let mut federation = Federation::start(&clusters).await;
    let mut calls = federation.client("alice").calls(crate::harness::fresh_key(), "pause", None, TIMEOUT);
    assert_eq!(calls.discover(10).await.unwrap().len(), 2);
    federation.kill("lyon");
    calls.call_async(&"lyon".parse().unwrap(), call(0, Kind::Mandatory, 20));
    (federation, calls)
}

/// Optional requests leave after the mandatory ones, but do not wait for a server that is out of reach.
#[tokio::test(flavor = "multi_thread")]
async fn a_dead_server_does_not_keep_optional_requests() {
    let (mut federation, mut calls) = with_a_call_to_the_dead().await;
    calls.call_async(&"nancy".parse().unwrap(), call(1, Kind::Optional, 20));
    let first = calls.wait_any_until(Instant::now() + TIMEOUT).await.unwrap();
    assert!(is_completed(&first, 1), "{first:?}");
    federation.revive("lyon");
    let rest = calls.wait_all().await;
    assert!(rest.len() == 1 && is_completed(&rest[0], 0), "{rest:?}");
}

/// They leave in time also if their client only looks how one of them stands.
#[tokio::test(flavor = "multi_thread")]
async fn an_optional_request_that_is_held_can_be_probed() {
    let (_federation, mut calls) = with_a_call_to_the_dead().await;
    let nancy = "nancy".parse().unwrap();
    calls.call_async(&nancy, call(1, Kind::Optional, 60_000));
    assert!(matches!(calls.probe(1).await, Some(RequestState::Waiting | RequestState::Running)));
    calls.cancel(&nancy, 1);
    assert!(calls.settle(Instant::now() + TIMEOUT).await);
}

/// Servers offer a service that is for other users: the exploration ends, and says where it was refused.
#[tokio::test(flavor = "multi_thread")]
async fn an_exploration_of_a_service_for_other_users_ends() {
    let mut clusters = ["lyon", "paris"].map(|name| server(name, "cores = 1"));
    for cluster in &mut clusters {
        let service = "[[service]]\nname = \"private\"\ncommand = [\"true\"]\nspeedup = \"rigid:1\"\n\
                       runtime = \"10s\"\nusers = [\"bob\"]\n";
        cluster.tables = format!("{service}\n{}", cluster.tables);
    }
    let federation = Federation::start(&clusters).await;
    let alice = CommandUser::new(&federation, "alice");
    let (code, _, error) = alice.run("explore private --min 1 --max 2 --deadline 1h --out kept");
    assert!(code == 2 && error.contains("no server offers `private` for explorations"), "{code}: {error}");
    let bob = CommandUser::new(&federation, "bob");
    let (code, said, error) = bob.run("explore private --min 1 --max 1 --deadline 1h --out kept");
    assert_eq!((code, &said["mandatory"]["completed"]), (0, &1.into()), "{error}");
}

/// Only one of several servers offers it, and the exploration needs one: it asks the others as long as none was the right one.
#[tokio::test(flavor = "multi_thread")]
async fn an_exploration_asks_all_servers_for_a_service_that_none_lists() {
    let mut clusters = ["lyon", "nancy", "paris", "sophia"].map(|name| server(name, "cores = 1"));
    let service = "[[service]]\nname = \"private\"\ncommand = [\"true\"]\nspeedup = \"rigid:1\"\n\
                   runtime = \"10s\"\nusers = [\"bob\"]\n";
    clusters[2].tables = format!("{service}\n{}", clusters[2].tables);
    let federation = Federation::start(&clusters).await;
    let bob = CommandUser::new(&federation, "bob");
    for out in ["first", "second", "third"] {
        let (code, said, error) =
            bob.run(&format!("explore private --min 1 --max 1 --deadline 1h --out {out}"));
        assert_eq!((code, &said["mandatory"]["completed"]), (0, &1.into()), "{error}");
    }
}

/// Servers that are found refuse the user for good: the exploration ends, says where it was refused, and leaves nothing in its folder.
#[tokio::test(flavor = "multi_thread")]
async fn an_exploration_that_all_servers_refuse_for_good_ends() {
    let federation = Federation::start(&["lyon", "paris"].map(|name| server(name, "cores = 1"))).await;
    let (operator, alice) = (CommandUser::operator(&federation), CommandUser::new(&federation, "alice"));
    let (code, _, error) = operator.run("admin ban alice --why mischief");
    assert_eq!(code, 0, "{error}");
    let line = "explore say --vary text=one,two,three --min 1 --max 3 --deadline 1h --out kept";
    let (code, _, error) = alice.run(line);
    assert_eq!(code, 2, "{error}");
    for named in ["no server takes explorations of service `say` from you", "\n  lyon: ", "\n  paris: "] {
        assert!(error.contains(named), "{named}: {error}");
    }
    let (code, _, error) = operator.run("admin unban alice --why checked");
    assert_eq!(code, 0, "{error}");
    // Other work may have the folder.
    let (code, said, error) =
        alice.run("explore say --vary text=four --min 1 --max 1 --deadline 1h --out kept");
    assert_eq!((code, &said["mandatory"]["completed"]), (0, &1.into()), "{error}");
}
