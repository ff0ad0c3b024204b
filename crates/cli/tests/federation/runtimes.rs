//! Runtimes of jobs, which the agent learns from all servers and reports.

use pliant_client::Client;
use pliant_policy::runtimes::Level;

use crate::harness::*;

/// The runtimes that a client sees: levels, names and numbers of jobs.
async fn listed(client: &Client) -> Vec<String> {
    let known = client.runtimes().await.unwrap().known;
    known
        .iter()
        .map(|one| format!("{} {} {}", one.level, one.name.as_deref().unwrap_or_default(), one.jobs))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_learn_how_long_jobs_run_and_remember_it() {
    let mut federation =
        Federation::start(&[Cluster::new("lyon", 1, 1.0), Cluster::new("paris", 1, 1.0)]).await;
    let (alice, bob) = (federation.client("alice"), federation.client("bob"));
    for server in ["lyon", "paris", "paris"] {
        run(&alice, &order_to(server, service("say", &[("text", "x")]))).await;
    }
    run(&alice, &order(rigid("true", 1, 60))).await;
    run(&alice, &order(rigid("exit 1", 1, 60))).await;
    run(&bob, &order_to("lyon", service("sleep", &[("seconds", "1")]))).await;
    let operator = federation.operator();
    let has_all = async || listed(&operator).await.contains(&"all  5".to_owned()).then_some(());
    until("the agent to know of all ends", has_all).await;
    // The script has no row of its own, and nothing is learned from the failed one. Users see their own rows only.
    assert_eq!(
        listed(&operator).await,
        ["executable say 3", "executable sleep 1", "user alice 4", "user bob 1", "all  5"]
    );
    assert_eq!(listed(&alice).await, ["executable say 3", "executable sleep 1", "user alice 4", "all  5"]);
    assert_eq!(listed(&bob).await, ["executable say 3", "executable sleep 1", "user bob 1", "all  5"]);
    let known = operator.runtimes().await.unwrap();
    // All but the first were predicted. The service is declared for ten times what was asked of it.
    assert_eq!((known.predicted, known.calibrated), (4, 4));
    let sleep = known.known.iter().find(|one| one.name.as_deref() == Some("sleep")).unwrap();
    assert_eq!(sleep.level, Level::Executable);
    assert!(sleep.mean.0 >= 10_000, "{sleep:?}");

    federation.kill(MASTER);
    federation.revive(MASTER);
    federation.attached(2).await;
    assert_eq!(operator.runtimes().await.unwrap(), known);
}
