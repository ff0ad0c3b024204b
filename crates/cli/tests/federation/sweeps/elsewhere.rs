//! A server that has not seen a service yet gets its share by what others have.

use pliant_policy::runtimes::Level;
use serde_json::Value;

use super::{CommandUser, with_shell};
use crate::harness::{Cluster, Federation, order_to, run, service, until};

#[tokio::test(flavor = "multi_thread")]
async fn a_fresh_server_gets_its_share_by_what_was_learned_elsewhere() {
    let nap = |name| with_shell(name, 2, "nap", "sleep 0.3");
    let mut federation = Federation::start(&[nap("lyon")]).await;
    let alice = CommandUser::new(&federation, "alice");
    let client = federation.client("alice");
    for _ in 0..3 {
        run(&client, &order_to("lyon", service("nap", &[("x", "1")]))).await;
    }
    until("the agent to know of them", async || {
        let expected = client.expectation("nap").await.ok()??;
        ((expected.level, expected.jobs) == (Level::Executable, 3)).then_some(())
    })
    .await;
    federation.add_server(&Cluster { speed: 2.0, ..nap("paris") });
    federation.sized(2).await;
    // By server: how many instances, how long each takes, and who says so.
    let shares = |user: &CommandUser, line: &str| -> Vec<(u64, f64, String)> {
        let (code, said, stderr) = user.run(line);
        assert_eq!(code, 0, "{stderr}");
        let share = |share: &Value| {
            let source = share["known_from"].as_str().unwrap().to_owned();
            (share["instances"].as_u64().unwrap(), share["instance_s"].as_f64().unwrap(), source)
        };
        said["servers"].as_array().unwrap().iter().map(share).collect()
    };
    let found = shares(&alice, "sweep nap --vary x=1..3000 --dry-run");
    let [(at_lyon, known_s, _), (at_paris, expected_s, _)] = &found[..] else { panic!("{found:?}") };
    assert_eq!((found[0].2.as_str(), found[1].2.as_str()), ("3 jobs", "3 jobs elsewhere"));
    // It is twice as fast, up to the rounding to milliseconds.
    assert!(*known_s >= 0.3 && (known_s - 2.0 * expected_s).abs() <= 0.002, "{found:?}");
    assert_eq!(at_lyon + at_paris, 3_000);
    assert!((1_990..=2_010).contains(at_paris), "{found:?}");

    // For a service without runs the runtimes of its user or of all jobs are used.
    let bob = CommandUser::new(&federation, "bob");
    for (user, source) in [(&alice, "3 jobs of the user"), (&bob, "3 jobs of all")] {
        let found = shares(user, "sweep say --vary text=a,b --dry-run");
        assert!(found.iter().all(|(.., by)| by == source), "{found:?}");
        assert!(
            found.iter().all(|(_, expected_s, _)| *expected_s < 5.0),
            "its walltime is far more: {found:?}"
        );
    }
}
