//! A map of users to accounts that changes while jobs wait and run.

use std::fs;

use pliant_control::job::{Exit, JobState};

use super::site::{ALICE, BOB, LYON, Site, base};
use super::works::text;
use crate::harness::*;

/// Jobs keep the account with which they were accepted, across a restart of the server, and new ones get that of the map of today.
#[tokio::test(flavor = "multi_thread")]
async fn a_map_that_changes_strands_no_job() {
    let Some(site) = Site::new() else { return };
    let (map, gate) = (base("etc/map"), base("gate"));
    let write = |lines: &str| fs::write(&map, format!("# users\n{lines}")).unwrap();
    write(&format!("carol {ALICE}\ndave {BOB}\n"));
    let cluster = site.cluster("");
    let of_file = format!("map = \"file\"\nfile = \"{}\"", map.display());
    let accounts = cluster.accounts.replace("map = \"name\"", &of_file);
    let mut federation = site.federation(&Cluster { accounts, ..cluster }).await;
    let carol = federation.client("carol");
    let script = format!("id -un; {}; id -un > left", waiting_for(&gate));
    let running = submit(&carol, &order(rigid(&script, 4, 600))).await.handle;
    federation.reaches(&carol, &running, JobState::Active).await;
    let waiting = submit(&carol, &order(rigid(&script, 4, 600))).await.handle;

    // Another account: what was accepted stays as it is, also for a server that begins anew.
    write(&format!("carol {BOB}\ndave {BOB}\n"));
    let moved = submit(&carol, &order(rigid(&script, 4, 600))).await.handle;
    federation.kill(LYON);
    federation.revive(LYON);
    federation.attached(1).await;
    // None: only new jobs are refused, with that reason.
    write(&format!("dave {BOB}\n"));
    let carol = federation.client("carol");
    refused(carol.submit(&order(rigid("true", 1, 60)), |_| Ok(())).await, &["account", "carol"]);
    assert_eq!(carol.job(&running).await.unwrap().state, JobState::Active);
    fs::write(&gate, "").unwrap();
    for (job, account) in [(&running, ALICE), (&waiting, ALICE), (&moved, BOB)] {
        let ended = carol.wait(job, |_| {}).await.unwrap();
        assert_eq!((ended.state, &ended.exit), (JobState::Completed, &Some(Exit::Code(0))), "{ended:?}");
        let found = fetched(&carol, job).await;
        for name in ["stdout", "work/left"] {
            assert_eq!(text(&found, name), format!("{account}\n"), "{job} {name}");
        }
    }
    // Of a user without an account, a job can be cancelled, too.
    fs::remove_file(&gate).unwrap();
    write(&format!("carol {ALICE}\n"));
    let last = submit(&carol, &order(rigid(&script, 4, 600))).await.handle;
    federation.reaches(&carol, &last, JobState::Active).await;
    write("");
    carol.cancel(&last).await.unwrap();
    let ended = carol.wait(&last, |_| {}).await.unwrap();
    assert_eq!(ended.state, JobState::Canceled, "{ended:?}");
}
