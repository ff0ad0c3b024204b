//! Crashes of clients, servers and agents: no mandatory request is lost, and none waits beyond the deadline.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use pliant_client::ExplorationFolder;
use pliant_control::optional::explore::ExplorationClient;
use pliant_model::{SpanMs, TimeMs};
use tokio::time::sleep;

use super::{explore, pauses, server, share_of, shares};
use crate::harness::{CommandUser, Federation, document, until};

const SERVERS: [&str; 3] = ["lyon", "nancy", "rennes"];

#[tokio::test(flavor = "multi_thread")]
async fn servers_may_be_killed() {
    let clusters = SERVERS.map(|name| server(name, "cores = 2\npause = true"));
    let mut federation = Federation::start(&clusters).await;
    let spec = pauses(50, 10_000, SpanMs(8_000));
    let users = ["alice", "bob", "carol", "dave"];
    let run = async |federation: &Federation, user: &str| explore(federation, user, &spec, None).await;
    let clients: Vec<_> = users
        .iter()
        .map(|user| {
            let client = federation.client(user);
            let explorer = pliant_client::Explorer::new(&client, &spec, None).unwrap();
            tokio::spawn(explorer.run(std::future::pending(), |_| {}))
        })
        .collect();
    for (round, victim) in ["lyon", "nancy", "lyon"].into_iter().enumerate() {
        sleep(Duration::from_millis(700 + 300 * round as u64)).await;
        federation.kill(victim);
        sleep(Duration::from_millis(300)).await;
        federation.revive(victim);
    }
    let mut completed = 0;
    for client in clients {
        let explored = client.await.unwrap().unwrap();
        assert_eq!(explored.progress.mandatory, 3, "{explored:?}");
        assert!(explored.mandatory_done.is_some_and(|done| done <= spec.deadline), "{explored:?}");
        assert_eq!(explored.progress.failed, 0, "{explored:?}");
        completed += explored.progress.optional;
    }
    assert!(completed > 0);
    // No request is left, and every user has used core time.
    let shares = until("all requests to be gone", async || {
        let shares = shares(&federation, &SERVERS).await;
        let gone = shares.iter().flat_map(|shares| &shares.users).all(|share| share.share.requests == 0);
        gone.then_some(shares)
    })
    .await;
    for user in users {
        assert!(share_of(&shares, user).usage > SpanMs(0), "{user}: {shares:?}");
    }
    // A restarted server continues from its journal and takes new requests.
    let explored = run(&federation, "erin").await;
    assert_eq!(explored.progress.mandatory, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_outlive_their_server() {
    let mut federation = Federation::start(&[server("lyon", "cores = 1")]).await;
    let client = federation.client("alice");
    let spec = pliant_client::ExplorationSpec {
        executable: "sleep".into(),
        parameters: pliant_client::ParameterSpace {
            fixed: [("seconds".to_owned(), "2".to_owned())].into(),
            ..pliant_client::ParameterSpace::default()
        },
        mandatory: 1,
        most: 1,
        ..pauses(1, 1, SpanMs(30_000))
    };
    let explorer = pliant_client::Explorer::new(&client, &spec, None).unwrap();
    let explores = tokio::spawn(explorer.run(std::future::pending(), |_| {}));
    let requests = federation.folder("lyon").join("state/requests");
    let started = async || {
        let exploration = std::fs::read_dir(&requests).ok()?.next()?.unwrap().path();
        exploration.join("0/started.json").exists().then_some(exploration.join("0"))
    };
    let folder = until("the request to be started", started).await;
    let first = std::fs::read(folder.join("started.json")).unwrap();
    federation.kill("lyon");
    sleep(Duration::from_millis(200)).await;
    federation.revive("lyon");
    let explored = explores.await.unwrap().unwrap();
    assert_eq!((explored.progress.mandatory, explored.progress.failed), (1, 0));
    // It was the same run.
    let last = std::fs::read(folder.join("started.json")).unwrap();
    let started =
        |bytes: &[u8]| serde_json::from_slice::<serde_json::Value>(bytes).unwrap()["started_unix_ms"].clone();
    assert_eq!(started(&first), started(&last));
}

/// A user who explores into a folder.
struct Explorer(CommandUser);

impl Explorer {
    fn new(federation: &Federation, user: &str) -> Explorer {
        Explorer(CommandUser::new(federation, user))
    }

    fn out(&self) -> PathBuf {
        self.0.dir().join("out")
    }

    /// The command that explores pauses with these words.
    fn explore(&self, words: &str) -> Command {
        let mut command = self.0.command(&format!("explore pause {words} --out out"));
        command.stderr(Stdio::null());
        command
    }

    /// The dispatcher that the client's folder describes, by its header and its journal.
    fn dispatcher(&self) -> Option<serde_json::Value> {
        let read = |name| std::fs::read(self.out().join(name)).ok();
        let header: serde_json::Value = serde_json::from_slice(&read("exploration.json")?).unwrap();
        let mut machine = ExplorationClient::new(serde_json::from_value(header["plan"].clone()).unwrap());
        let journal = read("journal.jsonl")?;
        // The last line may not be written whole.
        for line in journal.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n")) {
            let entry: serde_json::Value = serde_json::from_slice(line).unwrap();
            let event = serde_json::from_value(entry["event"].clone()).unwrap();
            machine.on(TimeMs(entry["at"].as_i64().unwrap()), event, &mut Vec::new());
        }
        serde_json::to_value(machine).ok()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_was_killed_goes_on() {
    let clusters = SERVERS.map(|name| server(name, "cores = 1\npause = true"));
    let federation = Federation::start(&clusters).await;
    let alice = Explorer::new(&federation, "alice");
    let command = || alice.explore("ms=100 --min 6 --max 200 --deadline 6s");
    let out = alice.out();
    let results = || ExplorationFolder::open(&out).and_then(|folder| folder.results()).unwrap_or_default();
    let mut first = command().spawn().unwrap();
    until("some results", async || {
        // The first client holds the folder: its files are looked at without it.
        let there = std::fs::read_dir(out.join("out")).map_or(0, Iterator::count);
        (there >= 4).then_some(())
    })
    .await;
    first.kill().unwrap();
    first.wait().unwrap();
    let before = results();
    assert!(!before.is_empty());
    let second = command().output().unwrap();
    let said = document(&second.stdout);
    assert_eq!(second.status.code(), Some(0), "{said}");
    assert_eq!((&said["resumed"], &said["mandatory"]["completed"]), (&true.into(), &6.into()), "{said}");
    let after = results();
    assert!(before.iter().all(|number| after.contains(number)) && after.len() > before.len());
    // What was counted is what is there: nothing was lost or counted twice.
    let counted =
        said["mandatory"]["completed"].as_u64().unwrap() + said["optional"]["completed"].as_u64().unwrap();
    assert_eq!(counted, after.len() as u64, "{said}");
    // Once it is over there is nothing more to do.
    let third = command().output().unwrap();
    let again = document(&third.stdout);
    assert_eq!(again["optional"], said["optional"]);
}

/// Requests that complete in time while their client is down count, also if the client resumes after the end.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_comes_back_after_the_deadline_keeps_what_was_completed() {
    let clusters = SERVERS.map(|name| server(name, "cores = 2\npause = true"));
    let federation = Federation::start(&clusters).await;
    let alice = Explorer::new(&federation, "alice");
    let command = || alice.explore("ms=1000 --min 1 --max 500 --deadline 8s");
    let dispatcher = || alice.dispatcher();
    let mut first = command().spawn().unwrap();
    until("the mandatory request to be completed and others to run", async || {
        let machine = dispatcher()?;
        (machine["progress"]["mandatory"] == 1 && machine["dispatcher"]["sent"].as_object()?.len() >= 4)
            .then_some(())
    })
    .await;
    first.kill().unwrap();
    first.wait().unwrap();
    let left = dispatcher().unwrap();
    let before = left["progress"]["optional"].as_u64().unwrap();
    let deadline_ms = left["dispatcher"]["plan"]["deadline"].as_u64().unwrap();
    // The submitted requests end by themselves, and no more are sent.
    until("all requests to be over, and the deadline too", async || {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis();
        let over = share_of(&shares(&federation, &SERVERS).await, "alice").requests == 0;
        (over && now > deadline_ms.into()).then_some(())
    })
    .await;
    // The last one that was noted may not have been sent.
    let completed = u64::from(share_of(&shares(&federation, &SERVERS).await, "alice").completed) - 1;
    assert!(completed > before, "{completed} were completed, {before} of them before");
    let second = command().output().unwrap();
    let said = document(&second.stdout);
    assert_eq!((second.status.code(), &said["settled"]), (Some(0), &true.into()), "{said}");
    assert_eq!(said["optional"]["completed"].as_u64(), Some(completed), "{said}");
    let kept = ExplorationFolder::open(&alice.out()).and_then(|folder| folder.results()).unwrap();
    assert_eq!(kept.len() as u64, 1 + completed, "{said}");
    assert_eq!(dispatcher().unwrap()["dispatcher"]["sent"].as_object().unwrap().len(), 0);
}

/// A server does not take all of a user's mandatory requests, so the client waits before it asks again, and is killed
/// meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_killed_while_it_waits_for_free_cores_resumes() {
    let federation =
        Federation::start(&[server("lyon", "cores = 1\npause = true\nmandatory_per_user = 2")]).await;
    let alice = Explorer::new(&federation, "alice");
    let command = || alice.explore("ms=2000 --min 4 --max 4 --deadline 3s");
    let dispatcher = || alice.dispatcher();
    let mut first = command().spawn().unwrap();
    until("the client to wait for free cores", async || {
        let machine = dispatcher()?;
        (machine["phase"] == "pausing" && !machine["dispatcher"]["sent"].as_object()?.is_empty())
            .then_some(())
    })
    .await;
    first.kill().unwrap();
    first.wait().unwrap();
    assert_eq!(dispatcher().unwrap()["phase"], "pausing");
    let second = command().output().unwrap();
    let said = document(&second.stdout);
    assert_eq!((second.status.code(), &said["mandatory"]["completed"]), (Some(0), &4.into()), "{said}");
}
