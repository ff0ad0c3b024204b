//! Weights, shares and classes of a server's file: a real server serves users by them, and replays its journal.

use std::fs;

use pliant_client::Client;
use pliant_control::job::{JobRecord, JobState};
use pliant_control::server::Server;
use pliant_daemon::config::ServerFile;
use pliant_daemon::host::replay_journal;
use pliant_policy::batch::order::PriorityParts;

use super::replay;
use crate::harness::*;

const TABLE: &str = "[priority]\nfair_share = 1000\nhalf_life = \"1d\"\n";

async fn parts(client: &Client, job: &JobRecord) -> PriorityParts {
    client.explain(&job.handle).await.unwrap().waits.unwrap().priority.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_heavy_users_waiting_job_is_overtaken_by_a_light_users() {
    let plain = Cluster::new("lyon", 2, 1.0);
    let cluster = Cluster {
        batch: "fcfs",
        cluster_keys: "order = \"multifactor\"\n",
        tables: format!("{}\n{TABLE}", plain.tables),
        ..plain
    };
    let mut federation = Federation::start(&[cluster]).await;
    let [alice, bob] = ["alice", "bob"].map(|user| federation.client(user));
    let gates = ["first", "heavy", "light"].map(|name| federation.path().join(name));
    let running = submit(&alice, &order(rigid(&waiting_for(&gates[0]), 2, 900))).await;
    federation.reaches(&alice, &running.handle, JobState::Active).await;
    let heavy = submit(&alice, &order(rigid(&waiting_for(&gates[1]), 2, 900))).await;
    let light = submit(&bob, &order(rigid(&waiting_for(&gates[2]), 2, 900))).await;
    // Alice uses both processors: her fair share falls to a half as soon as she has used something.
    let used = async || (parts(&alice, &heavy).await.fair_share.value < 1.0).then_some(());
    until("the usage of the first job to count", used).await;
    let [of_alice, of_bob] = [parts(&alice, &heavy).await, parts(&bob, &light).await];
    assert_eq!((of_alice.fair_share.value, of_alice.fair_share.weight), (0.5, 1_000));
    assert_eq!((of_bob.fair_share.value, of_bob.size.value, of_bob.class), (1.0, 1.0, 0));

    // A class of the file is in force after a restart, and gone after the next one.
    let path = federation.folder("lyon").join("server.toml");
    let text = fs::read_to_string(&path).unwrap();
    let class = "[priority.classes.urgent]\npriority = 2000\nusers = [\"alice\"]\n";
    for (content, bonus) in [(format!("{text}\n{class}"), 2_000), (text, 0)] {
        fs::write(&path, content).unwrap();
        federation.kill("lyon");
        federation.revive("lyon");
        federation.attached(1).await;
        assert_eq!(parts(&alice, &heavy).await.class, bonus);
        let ahead = alice.explain(&heavy.handle).await.unwrap().waits.unwrap().ahead;
        assert_eq!(ahead, u32::from(bonus == 0), "with a bonus of {bonus}");
    }

    fs::write(&gates[0], "").unwrap();
    federation.reaches(&bob, &light.handle, JobState::Active).await;
    assert_eq!(alice.job(&heavy.handle).await.unwrap().state, JobState::Queued);
    fs::write(&gates[2], "").unwrap();
    federation.reaches(&alice, &heavy.handle, JobState::Active).await;
    fs::write(&gates[1], "").unwrap();
    federation.reaches(&alice, &heavy.handle, JobState::Completed).await;

    // A replay takes the settings from the journal.
    federation.stop("lyon");
    let file = ServerFile::read(&path).unwrap();
    let replayed =
        replay_journal(&file.state, |now| Server::new(replay::server(&file), now).unwrap()).unwrap();
    assert_eq!(replayed.differing, [0; 0]);
}
