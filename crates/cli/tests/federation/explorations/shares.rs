//! Usage of users: by their weights, while they explore, and on the metrics page.

use std::sync::Arc;

use pliant_client::{ExplorationSpec, ExplorationUpdate, Explorer};
use pliant_model::SpanMs;
use tokio::sync::Notify;
use tokio::time::timeout;

use super::{explore, pauses, server, share_of, shares};
use crate::harness::{Federation, TIMEOUT, until};
use crate::monitoring::{page, pages};

#[tokio::test(flavor = "multi_thread")]
async fn a_heavier_user_has_more_of_a_single_core() {
    let optional = "cores = 1\npause = true\n[optional.weights]\nalice = 3";
    let federation = Federation::start(&[server("lyon", optional)]).await;
    let spec = ExplorationSpec { mandatory: 1, ..pauses(100, 10_000, SpanMs(8_000)) };
    let explores = |user| explore(&federation, user, &spec, None);
    tokio::join!(explores("alice"), explores("bob"));
    let shares = shares(&federation, &["lyon"]).await;
    let usage = |user| share_of(&shares, user).usage.seconds();
    let ratio = usage("alice") / usage("bob");
    assert!((2.0..4.5).contains(&ratio), "expected about 3, found {ratio}: {shares:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn explorations_of_one_user_share_one_fair_share() {
    let federation = Federation::start(&[server("lyon", "cores = 1\npause = true")]).await;
    let spec = ExplorationSpec { mandatory: 1, ..pauses(100, 4, SpanMs(20_000)) };
    let (first, second) =
        tokio::join!(explore(&federation, "alice", &spec, None), explore(&federation, "alice", &spec, None));
    // A client that finds no free core tries again later, and in the end both have all.
    for explored in [first, second] {
        assert_eq!((explored.progress.mandatory, explored.progress.optional), (1, 3), "{explored:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_gets_usage_reports_while_its_requests_run() {
    let federation = Federation::start(&[server("lyon", "cores = 1\npause = true")]).await;
    let client = federation.client("alice");
    let spec = ExplorationSpec { mandatory: 1, ..pauses(600_000, 1, SpanMs(600_000)) };
    let progressed = Arc::new(Notify::new());
    let (done, stop) = (progressed.clone(), async move { progressed.notified().await });
    let explorer = Explorer::new(&client, &spec, None).unwrap();
    let explored = explorer.run(stop, move |update| {
        if let ExplorationUpdate::Progress(explored) = update
            && explored.platform.usage_s > 1.0
        {
            done.notify_one();
        }
    });
    let explored = timeout(TIMEOUT, explored).await.expect("a share that grows").unwrap();
    assert_eq!((explored.progress.mandatory, explored.interrupted), (0, true), "nothing has ended");
}

/// Every user of the host can read the page.
#[tokio::test(flavor = "multi_thread")]
async fn metrics_name_no_user_unless_the_file_asks_for_it() {
    let (at_lyon, table) = pages();
    let mut lyon = server("lyon", "cores = 1\npause = true");
    lyon.tables.push_str(&table);
    let federation = Federation::start(&[lyon]).await;
    let late = ExplorationSpec { mandatory: 1, ..pauses(50, 1, SpanMs(1)) };
    explore(&federation, "alice", &late, None).await;
    let shown = async || {
        page(at_lyon, "/metrics").filter(|page| page.contains("\npliant_optional_unhappy_users 1\n"))
    };
    let page = until("the metrics of explorations", shown).await;
    let of_users: Vec<_> =
        page.lines().filter(|line| line.contains("user=") || line.contains("alice")).collect();
    assert!(of_users.is_empty(), "{of_users:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_say_what_users_have_had() {
    let (at_lyon, table) = pages();
    let mut lyon = server("lyon", "cores = 1\npause = true");
    lyon.tables.push_str(&format!("{table}user_metrics = true\n"));
    let federation = Federation::start(&[lyon]).await;
    let optional = ExplorationSpec { mandatory: 0, ..pauses(3_000, 2, SpanMs(60_000)) };
    let explorer = Explorer::new(&federation.client("alice"), &optional, None).unwrap();
    let alice = tokio::spawn(explorer.run(std::future::pending(), |_| {}));
    let metric = |line: &str| {
        let line = format!("{line} ");
        page(at_lyon, "/metrics")?.lines().find_map(|found| found.strip_prefix(&line)?.parse::<f64>().ok())
    };
    let running = async || share_of(&shares(&federation, &["lyon"]).await, "alice").requests > 0;
    until("alice's request to run", async || running().await.then_some(())).await;
    // Ends it, and is late whenever it ends.
    let late = ExplorationSpec { mandatory: 1, ..pauses(50, 1, SpanMs(1)) };
    explore(&federation, "bob", &late, None).await;
    alice.await.unwrap().unwrap();
    let expected = [
        ("completed_requests{user=\"alice\"}", 2.0),
        ("completed_requests{user=\"bob\"}", 1.0),
        ("killed_runs{user=\"alice\"}", 1.0),
        ("late_requests{user=\"alice\"}", 0.0),
        ("late_requests{user=\"bob\"}", 1.0),
        ("unhappy_users", 1.0),
    ];
    for (name, value) in expected {
        let expected = async || (metric(&format!("pliant_optional_{name}")) == Some(value)).then_some(());
        until(name, expected).await;
    }
    let of = |name: &str, user: &str| metric(&format!("pliant_optional_{name}{{user=\"{user}\"}}")).unwrap();
    let (useful, used) = (of("useful_seconds", "alice"), of("usage_seconds", "alice"));
    assert!(useful >= 6.0 && useful < used, "{useful} of {used}");
    let satisfied = ["alice", "bob"].map(|user| of("satisfaction_ratio", user));
    let unfairness = metric("pliant_optional_unfairness_ratio").unwrap();
    assert!((unfairness - (satisfied[0] - satisfied[1]).abs()).abs() < 1e-9, "{unfairness}, {satisfied:?}");
    // The same, of all servers together.
    let operator = crate::harness::CommandUser::operator(&federation);
    let (_, said, _) = operator.run("users");
    let alice = &said["users"][0];
    assert_eq!(
        (&alice["completed"], &alice["killed"], &said["unhappy_users"]),
        (&2.into(), &1.into(), &1.into()),
        "{said}"
    );
    let shown = said["unfairness"].as_f64().unwrap();
    assert!((shown - unfairness).abs() < 1e-9, "{said}, {unfairness}");
}
