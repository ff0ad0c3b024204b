//! What happens to a Slurm cluster behind a running server: its controller dies and hangs, nodes and partitions are taken
//! down, operators end our jobs, and local users submit jobs that no listing has shown yet.

use std::fs;
use std::time::SystemTime;

use pliant_client::Client;
use pliant_control::job::{Exit, JobState};
use pliant_control::reason::Cause;
use pliant_model::{Estimate, Procs, Span};
use rustix::process::Signal;

use crate::harness::*;
use crate::slurm::Behind;

/// Listings are made on demand: no test waits for the next one.
const SELDOM: &str = "period_s = 3600\nnodes_every_s = 0\n";
const OFTEN: &str = "period_s = 1\nnodes_every_s = 0\n";

/// What a server would give a job, or why it takes none.
async fn asked(client: &Client, server: &str, procs: u32, walltime_s: i64) -> Result<Estimate, Cause> {
    let order = order_to(server, rigid("true", procs, walltime_s));
    let found = client.discover(&order.question(), 3, order.only.as_ref()).await.unwrap();
    match found.vectors.first() {
        Some(vector) => Ok(vector.estimate),
        None => Err(found.refusals.first().map_or(Cause::NoAnswer, |(_, reason)| reason.cause)),
    }
}

/// Waits until a server takes no such job, for that cause: questions alone must lead there.
async fn refuses(client: &Client, server: &str, procs: u32, walltime_s: i64, cause: Cause) {
    until(&format!("{server} to refuse {procs} for {walltime_s} s"), async || {
        (asked(client, server, procs, walltime_s).await == Err(cause)).then_some(())
    })
    .await;
}

async fn ends(
    client: &Client,
    server: &str,
    text: &str,
    walltime_s: i64,
    act: impl AsyncFnOnce(&str),
) -> Exit {
    let accepted = submit(client, &order_to(server, rigid(text, 1, walltime_s))).await;
    act(&format!("pliant:{server}:{}", accepted.handle.number)).await;
    client.wait(&accepted.handle, |_| {}).await.unwrap().exit.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_others_do_in_a_cluster_is_known() {
    let Some(mut behind) = Behind::without_servers(2, 2) else { return };
    behind.add_server("lyon", SELDOM);
    behind.add_server("paris", OFTEN);
    behind.federation.attached(2).await;
    let alice = behind.federation.client("alice");
    let node = format!("{}1", behind.slurm("lyon").name);
    listed(&behind, &alice).await;

    // Jobs that were submitted since the last listing count.
    behind.take("lyon", 4, 30);
    until("it to run", async || (behind.queue("lyon") == ["local RUNNING"]).then_some(())).await;
    until("lyon to be known as taken", async || {
        let estimate = asked(&alice, "lyon", 4, 60).await.ok()?;
        (estimate.start > now() + Span(600)).then_some(())
    })
    .await;
    let waiting = submit(&alice, &order_to("lyon", rigid("true", 4, 60))).await;
    assert!(waiting.expected.start > waiting.submitted + Span(600), "{waiting:?}");

    // An operator ends jobs of this server.
    let slurm = behind.slurm("lyon");
    let tag = format!("pliant:lyon:{}", waiting.handle.number);
    waits(&behind, &tag).await;
    slurm.run(&["scancel", "--name", &tag]);
    let ended = alice.wait(&waiting.handle, |_| {}).await.unwrap();
    assert_eq!((ended.state, ended.exit), (JobState::Canceled, Some(Exit::Cancelled)));
    let paris = behind.slurm("paris");
    let exit = ends(&alice, "paris", "sleep 600", 600, async |tag| {
        runs_there(&behind, tag).await;
        paris.run(&["scancel", "--name", tag]);
    })
    .await;
    assert_eq!(exit, Exit::Cancelled);
    let exit = ends(&alice, "paris", "sleep 600", 2, async |_| {}).await;
    assert_eq!(exit, Exit::OverWalltime);

    // Nodes and partitions go down and come up.
    behind.open("lyon");
    until("lyon to be free", async || behind.queue("lyon").is_empty().then_some(())).await;
    slurm.run(&["scontrol", "update", &format!("NodeName={node}"), "State=DRAIN", "Reason=test"]);
    refuses(&alice, "lyon", 3, 60, Cause::BatchSystem).await;
    let ran = run(&alice, &order_to("lyon", rigid("true", 2, 60))).await;
    assert_eq!(ran.exit, Some(Exit::Code(0)), "the other node can be used");
    slurm.run(&["scontrol", "update", &format!("NodeName={node}"), "State=RESUME"]);
    slurm.run(&["scontrol", "update", "PartitionName=main", "MaxTime=5", "MaxNodes=1"]);
    refuses(&alice, "lyon", 1, 600, Cause::TooLong).await;
    refuses(&alice, "lyon", 3, 60, Cause::TooLarge).await;
    slurm.run(&["scontrol", "update", "PartitionName=main", "State=DOWN"]);
    refuses(&alice, "lyon", 1, 60, Cause::BatchSystem).await;

    // A node goes down below a job.
    let begun = behind.federation.path().join("begun");
    let text = format!("touch {}; sleep 600", begun.display());
    let exit = ends(&alice, "paris", &text, 600, async |_| {
        until("it to begin", async || begun.exists().then_some(())).await;
        let all = format!("NodeName={}[1-2]", paris.name);
        paris.run(&["scontrol", "update", &all, "State=DOWN", "Reason=test"]);
    })
    .await;
    assert!(matches!(&exit, Exit::Lost(why) if why.contains("node failed")), "{exit:?}");
}

/// Waits until a controller has written down what it has done: what it has not, it forgets when it is killed, and ends the
/// jobs that it does not know.
async fn written(behind: &Behind, name: &str) {
    let (state, since) =
        (behind.slurm(name).conf.with_file_name("state").join("job_state"), SystemTime::now());
    let is_newer = || fs::metadata(&state).and_then(|file| file.modified()).is_ok_and(|at| at > since);
    until("its state on disk", async || is_newer().then_some(())).await;
}

async fn listed(behind: &Behind, client: &Client) {
    until("the clusters to be listed", async || {
        let servers = client.servers().await.ok()?.servers;
        servers.iter().all(|one| one.info.procs == Procs(4)).then_some(())
    })
    .await;
    assert!(behind.queue("lyon").is_empty());
}

async fn waits(behind: &Behind, tag: &str) {
    let line = format!("{tag} PENDING");
    until("it to wait there", async || behind.queue("lyon").contains(&line).then_some(())).await;
}

async fn runs_there(behind: &Behind, tag: &str) {
    let line = format!("{tag} RUNNING");
    until("it to run there", async || behind.queue("paris").contains(&line).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_that_is_down_delays_jobs() {
    let Some(mut behind) = Behind::without_servers(2, 2) else { return };
    // Paris is not there when its server starts for the first time.
    behind.slurm("paris").signal_controller(Signal::KILL);
    behind.add_server("lyon", OFTEN);
    behind.add_server("paris", OFTEN);
    behind.federation.attached(2).await;
    let alice = behind.federation.client("alice");
    assert_eq!(asked(&alice, "paris", 1, 60).await, Err(Cause::BatchSystem));
    behind.federation.logged("paris", &["cannot be listed"]).await;
    let lines = behind.federation.path().join("lines");
    let gate = behind.federation.path().join("gate");
    let once = |rest: &str| rigid(&noting(&lines, rest), 2, 600);
    let elsewhere = run(&alice, &order(once("true"))).await;
    assert_eq!((elsewhere.server().as_str(), &elsewhere.exit), ("lyon", &Some(Exit::Code(0))));

    // Lyon's controller is killed while jobs run and wait, and paris' comes up.
    let mut handles = vec![elsewhere.handle];
    for _ in 0..3 {
        handles.push(submit(&alice, &order_to("lyon", once(&waiting_for(&gate)))).await.handle);
    }
    behind.federation.reaches(&alice, &handles[2], JobState::Active).await;
    waits(&behind, &format!("pliant:lyon:{}", handles[3].number)).await;
    written(&behind, "lyon").await;
    behind.slurm("lyon").signal_controller(Signal::KILL);
    handles.push(submit(&alice, &order_to("lyon", once("true"))).await.handle);
    behind.slurm.restart();
    for name in ["lyon", "paris"] {
        let order = order_to(name, once("true"));
        let what = format!("{name} to take jobs");
        let taken = until(&what, async || alice.submit(&order, |_| Ok(())).await.ok()).await;
        handles.push(taken.handle);
    }
    // It hangs: what it is asked for is done when it goes on, and once.
    behind.slurm("lyon").signal_controller(Signal::STOP);
    handles.push(submit(&alice, &order_to("lyon", once("true"))).await.handle);
    fs::write(&gate, "").unwrap();
    behind.federation.kill("lyon");
    behind.federation.revive("lyon");
    behind.slurm("lyon").signal_controller(Signal::CONT);
    for handle in &handles {
        let ended = alice.wait(handle, |_| {}).await.unwrap();
        assert_eq!((ended.state, &ended.exit), (JobState::Completed, &Some(Exit::Code(0))), "{ended:?}");
    }
    assert_eq!(runs(&lines), handles.iter().map(|handle| (handle.to_string(), 1)).collect());
    until("nothing to be left", async || {
        ["lyon", "paris"].iter().all(|name| behind.queue(name).is_empty()).then_some(())
    })
    .await;
}
