//! The view of operators: the health of daemons, and the log lines of one request on all machines.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use pliant_client::{Client, SubmitOrder};
use pliant_control::job::JobState;
use pliant_journal::open_sqlite;
use pliant_wire::JobsQuery;
use tokio::sync::watch;

use crate::harness::*;

/// A free address for the pages of a daemon, and the table with it.
pub(crate) fn pages() -> (SocketAddr, String) {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    (address, format!("\n[http]\nlisten = \"{address}\"\n"))
}

/// A page of a daemon, with its status; none if it does not answer.
pub(crate) fn page(address: SocketAddr, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.write_all(format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}

/// A federation whose agent and server `lyon` have pages.
pub(crate) struct Monitored {
    pub(crate) federation: Federation,
    pub(crate) at_master: SocketAddr,
    pub(crate) at_lyon: SocketAddr,
}

impl Monitored {
    pub(crate) async fn start() -> Monitored {
        let (at_master, table) = pages();
        let mut federation = Federation::agent_only(&table);
        let (at_lyon, table) = pages();
        let mut lyon = Cluster::new("lyon", 1, 1.0);
        lyon.tables.push_str(&table);
        federation.add_server(&lyon);
        federation.attached(1).await;
        Monitored { federation, at_master, at_lyon }
    }
}

/// The time since the last contact with a peer, from the metrics page.
fn age(address: SocketAddr, peer: &str) -> Option<f64> {
    let label = format!("pliant_heartbeat_age_seconds{{peer=\"{peer}\"}} ");
    page(address, "/metrics")?.lines().find_map(|line| line.strip_prefix(&label)?.parse().ok())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_its_parent_is_not_ready() {
    let Monitored { mut federation, at_master, at_lyon } = Monitored::start().await;
    let ready = async || page(at_lyon, "/readyz").filter(|page| page.contains("\"ready\":true"));
    until("lyon to be ready", ready).await;
    let shows = |value: &str| page(at_lyon, "/metrics").is_some_and(|page| page.contains(value));
    assert!(shows("\npliant_ready 1\n"));
    until("the master to show its last contact with lyon", async || age(at_master, "server/lyon")).await;
    federation.kill(MASTER);
    let gone = async || {
        let page = page(at_lyon, "/readyz")?;
        (page.contains("\"part\":\"parent\"") && page.starts_with("HTTP/1.1 503")).then_some(page)
    };
    let reason = until("lyon to miss its parent", gone).await;
    assert!(reason.contains(&format!("no answer from {} for ", federation.address(MASTER))), "{reason}");
    assert!(shows("\npliant_ready 0\n"));
    let old = async || age(at_lyon, "parent").filter(|age| *age > 8.0);
    until("the age to grow without a line", old).await;
    federation.revive(MASTER);
    until("lyon to be ready again", ready).await;
    until("the age to be small again", async || age(at_lyon, "parent").filter(|age| *age < 8.0)).await;
}

/// The lines that the filter of docs/reference/metrics.md selects.
fn of_request(federation: &Federation, daemon: &str, id: &str) -> Vec<String> {
    let lines = federation.log(daemon);
    let lines = lines.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let of_span = |line: &serde_json::Value| {
        line["spans"].as_array().is_some_and(|spans| spans.iter().any(|span| span["request"] == id))
    };
    let selected = lines.filter(|line| line["request"] == id || of_span(line));
    selected.map(|line| line["message"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn one_request_id_finds_the_lines_on_every_machine() {
    let filter =
        "select(.request == \"4be1c09a77d2f035\" or any(.spans[]?; .request == \"4be1c09a77d2f035\"))";
    assert!(
        include_str!("../../../../docs/reference/metrics.md").contains(filter),
        "the filter that is tried here"
    );
    let mut federation = Federation::without_daemons();
    federation.options = vec!["--log", "json"];
    federation.add_agent(MASTER, None, "");
    federation.add_agent("local", Some(MASTER), "");
    federation.add_server(&Cluster { parent: "local", ..Cluster::new("lyon", 1, 1.0) });
    federation.attached(1).await;
    let alice = federation.client("alice");
    let id = alice.request_id().to_string();
    let path = federation.path().join("data");
    std::fs::write(&path, "abc").unwrap();
    let mut asked = order(service("count", &[("data", "data")]));
    asked.inputs.push(input("data", &path));
    let job = submit(&alice, &asked).await.handle;
    alice.wait(&job, |_| {}).await.unwrap();
    let job = submit(&alice, &order(rigid("sleep 1000", 1, 1000))).await.handle;
    alice.cancel(&job).await.unwrap();
    for (daemon, expected) in [
        (MASTER, &["discovery"][..]),
        ("local", &["asked by the parent"]),
        ("lyon", &["upload", "accepted", "run", "cancel"]),
    ] {
        let found = || of_request(&federation, daemon, &id);
        until(&format!("{expected:?} in the log of {daemon}"), async || {
            let found = found();
            expected.iter().all(|line| found.iter().any(|one| one == line)).then_some(())
        })
        .await;
    }
    let bob = federation.client("bob").request_id().to_string();
    assert!(of_request(&federation, "lyon", &bob).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn too_many_waiting_jobs_of_a_user_fill_no_journal() {
    let lyon = Cluster { keys: "waiting_per_user = 1\n", ..Cluster::new("lyon", 1, 1.0) };
    let mut federation = Federation::start(&[lyon]).await;
    let alice = federation.client("alice");
    let running = submit(&alice, &order(rigid("sleep 1000", 1, 1000))).await.handle;
    federation.reaches(&alice, &running, JobState::Active).await;
    let waiting = submit(&alice, &order(rigid("true", 1, 60))).await.handle;
    let mut one_more = order(rigid("echo too many", 1, 60));
    one_more.timeout = std::time::Duration::ZERO;
    refused(
        alice.submit(&one_more, |_| Ok(())).await,
        &["this user has reached the limit of waiting jobs (1)"],
    );
    for handle in [waiting, running] {
        alice.cancel(&handle).await.unwrap();
        alice.wait(&handle, |_| {}).await.unwrap();
    }
    federation.stop("lyon");
    let journal = open_sqlite(&federation.folder("lyon").join("state")).unwrap();
    let entries = journal.archive().unwrap().entries(1, 1000).unwrap();
    assert!(entries.iter().any(|entry| entry.event.contains("sleep 1000")));
    assert!(!entries.iter().any(|entry| entry.event.contains("too many")));
}

#[tokio::test(flavor = "multi_thread")]
async fn large_scripts_of_a_user_leave_the_queue_to_others() {
    let lyon = Cluster { keys: "waiting_bytes_per_user = 500000\n", ..Cluster::new("lyon", 1, 1.0) };
    let mut federation = Federation::start(&[lyon]).await;
    let (alice, bob) = (federation.client("alice"), federation.client("bob"));
    let running = submit(&alice, &order(rigid("sleep 1000", 1, 1000))).await.handle;
    federation.reaches(&alice, &running, JobState::Active).await;
    let large = |number| rigid(&format!("exit {number} # {}", "x".repeat(90_000)), 1, 60);
    let mut waiting = Vec::new();
    let refusal = loop {
        let mut one_more = order(large(waiting.len()));
        one_more.timeout = std::time::Duration::ZERO;
        match alice.submit(&one_more, |_| Ok(())).await {
            Ok(accepted) => waiting.push((&alice, accepted.handle)),
            Err(refusal) => break refusal,
        }
        assert!(waiting.len() < 20, "500,000 bytes are never full");
    };
    assert_eq!(waiting.len(), 5);
    refused::<()>(Err(refusal), &["the waiting jobs of this user would have", "at most 500000 may wait"]);
    waiting.push((&bob, submit(&bob, &order(large(0))).await.handle));
    // The bounds are those of the journal, also after a crash.
    federation.kill("lyon");
    federation.revive("lyon");
    federation.attached(1).await;
    for (client, handle) in waiting.into_iter().chain([(&alice, running)]) {
        client.cancel(&handle).await.unwrap();
        client.wait(&handle, |_| {}).await.unwrap();
    }
    submit(&alice, &order(large(0))).await;
    federation.stop("lyon");
    let journal = federation.folder("lyon").join("state/journal.db");
    let bytes = std::fs::metadata(journal).unwrap().len();
    assert!(bytes < 2_000_000, "{bytes} bytes of a journal with 7 scripts of 90,000 bytes");
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_of_jobs_by_user_are_shown_if_the_file_asks_for_them() {
    let (at_lyon, table) = pages();
    let tables = format!("{table}user_metrics = true\n");
    let mut federation = Federation::start(&[Cluster { tables, ..Cluster::new("lyon", 2, 1.0) }]).await;
    let [alice, bob] = ["alice", "bob"].map(|user| federation.client(user));
    let gate = federation.path().join("gate");
    let running = submit(&alice, &order(rigid(&waiting_for(&gate), 2, 600))).await.handle;
    federation.reaches(&alice, &running, JobState::Active).await;
    let waiting = submit(&bob, &order(rigid("true", 1, 60))).await.handle;
    let shows = async |line: &str| {
        let found = async || page(at_lyon, "/metrics")?.lines().any(|found| found == line).then_some(());
        until(line, found).await;
    };
    shows("pliant_user_processors{user=\"alice\"} 2").await;
    shows("pliant_user_jobs{user=\"bob\",state=\"QUEUED\"} 1").await;
    // What ran before a restart counts, too.
    federation.kill("lyon");
    federation.revive("lyon");
    shows("pliant_user_jobs{user=\"alice\",state=\"ACTIVE\"} 1").await;
    std::fs::write(&gate, "").unwrap();
    federation.reaches(&bob, &waiting, JobState::Completed).await;
    shows("pliant_user_processors{user=\"alice\"} 0").await;
    shows("pliant_user_waiting_bytes{user=\"bob\"} 0").await;
    let used = async || {
        let page = page(at_lyon, "/metrics")?;
        let value = page
            .lines()
            .find_map(|line| line.strip_prefix("pliant_user_processor_seconds_total{user=\"alice\"} "));
        value?.parse::<f64>().ok().filter(|seconds| *seconds >= 2.0)
    };
    until("the processor time of the job", used).await;
}

/// Two pages of the protocol, and no way on at the end.
#[tokio::test(flavor = "multi_thread")]
async fn a_listing_goes_on_after_a_thousand_jobs_and_says_if_there_are_more() {
    const JOBS: usize = 1_100;
    let federation = Federation::start(&[Cluster::new("lyon", 1, 1.0)]).await;
    let (user, alice) = (CommandUser::new(&federation, "alice"), federation.client("alice"));
    let mut submissions = tokio::task::JoinSet::new();
    for _ in 0..JOBS / 50 {
        let alice = alice.clone();
        submissions.spawn(async move {
            for _ in 0..50 {
                submit(&alice, &order(rigid("sleep 1000", 1, 2_000))).await;
            }
        });
    }
    submissions.join_all().await;
    let listed = |options: &str| {
        let (code, queue, stderr) = user.run(&format!("queue {options}"));
        assert_eq!(code, 0, "{stderr}");
        let jobs = queue["jobs"].as_array().unwrap();
        let ids: std::collections::BTreeSet<&str> =
            jobs.iter().map(|job| job["job_id"].as_str().unwrap()).collect();
        assert_eq!(ids.len(), jobs.len(), "no job is listed twice");
        (jobs.len(), queue["more"].as_bool().unwrap())
    };
    until("the agent to know all jobs", async || (listed("--last 2000").0 == JOBS).then_some(())).await;
    assert_eq!(listed("--last 2000"), (JOBS, false));
    assert_eq!(listed("--last 1100"), (JOBS, false));
    assert_eq!(listed("--last 1050"), (1_050, true));
}

/// A job that is cancelled at once stays in the journal.
#[tokio::test(flavor = "multi_thread")]
async fn a_user_who_submits_and_cancels_large_scripts_again_and_again_fills_no_journal() {
    let tables = "[limits]\nsubmitted_bytes_per_day = 250000\n".to_owned();
    let federation = Federation::start(&[Cluster { tables, ..Cluster::new("lyon", 1, 1.0) }]).await;
    let [alice, bob] = ["alice", "bob"].map(|user| federation.client(user));
    let large = || order(rigid(&format!("true # {}", "x".repeat(100_000)), 1, 60));
    for _ in 0..2 {
        let handle = submit(&alice, &large()).await.handle;
        alice.cancel(&handle).await.unwrap();
    }
    let one_more = SubmitOrder { timeout: std::time::Duration::ZERO, ..large() };
    let refusal = alice.submit(&one_more, |_| Ok(())).await;
    refused(refusal, &["alice submits more than 250000 bytes in a day"]);
    let small = submit(&alice, &order(rigid("true", 1, 60))).await;
    federation.reaches(&alice, &small.handle, JobState::Completed).await;
    submit(&bob, &large()).await;
}

/// Asks for a user's jobs again and again until the end, whatever the answers are.
async fn ask_on(client: Client, end: watch::Receiver<bool>) {
    while !*end.borrow() {
        let _ = client.jobs(&JobsQuery::of_caller(Vec::new(), 100)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn questions_of_a_user_without_end_leave_others_alone() {
    let mut federation = Federation::agent_only("\n[limits]\nrequests_per_second = 1.0\nburst = 200\n");
    federation.add_server(&Cluster::new("lyon", 1, 1.0));
    federation.attached(1).await;
    let (alice, bob) = (federation.client("alice"), federation.client("bob"));
    let own = JobsQuery::of_caller(Vec::new(), 100);
    let (end, ending) = watch::channel(false);
    let questions: Vec<_> = (0..32).map(|_| tokio::spawn(ask_on(alice.clone(), ending.clone()))).collect();
    let refusal = until("the end of her burst", async || alice.jobs(&own).await.err()).await;
    refused::<()>(Err(refusal), &["alice", "more than 1 times a second"]);
    for _ in 0..5 {
        submit(&bob, &order(rigid("true", 1, 60))).await;
        for _ in 0..4 {
            bob.jobs(&own).await.unwrap();
        }
    }
    until("bob's jobs in the list", async || (bob.jobs(&own).await.ok()?.jobs.len() == 5).then_some(()))
        .await;
    end.send_replace(true);
    for question in questions {
        question.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_hangs_is_shown_as_gone_and_left_out_until_it_goes_on() {
    let federation = Federation::start(&["lyon", "paris"].map(|name| Cluster::new(name, 2, 1.0))).await;
    let alice = federation.client("alice");
    let there = async |wanted: bool| {
        until("the agent to see what lyon does", async || {
            let servers = alice.servers().await.ok()?.servers;
            let lyon = servers.iter().find(|server| server.info.name.as_str() == "lyon")?;
            (lyon.attached == wanted).then_some(())
        })
        .await;
    };
    there(true).await;
    federation.suspend("lyon");
    // The question that goes out before it is missed reaches its timeout there, and the other one answers.
    let meanwhile = submit(&alice, &order(rigid("true", 1, 60))).await;
    assert_eq!(meanwhile.handle.server.as_str(), "paris");
    there(false).await;
    federation.go_on("lyon");
    there(true).await;
    assert_eq!(run(&alice, &order_to("lyon", rigid("true", 1, 60))).await.state, JobState::Completed);
}
