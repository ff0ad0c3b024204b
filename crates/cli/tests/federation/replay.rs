//! One policy, two drivers (invariant 10): a replay of what real daemons journaled gives the same
//! commands.

use std::sync::Arc;

use pliant_control::agent::{Agent, AgentConfig};
use pliant_control::job::JobState;
use pliant_control::server::{Server, ServerConfig, ServerState, WaitingLimits};
use pliant_daemon::config::{AgentFile, ServerFile};
use pliant_daemon::host::replay_journal;
use pliant_journal::open_sqlite;
use pliant_model::{Procs, Speedup};

use crate::harness::*;

#[tokio::test(flavor = "multi_thread")]
async fn replayed_journals_give_the_same_commands() {
    let clusters = [
        Cluster { batch: "easy", ..Cluster::new("lyon", 2, 1.0) },
        Cluster { batch: "cbf", ..Cluster::new("paris", 3, 1.4) },
    ];
    let mut federation = Federation::start(&clusters).await;
    let (alice, bob) = (federation.client("alice"), federation.client("bob"));
    let mut accepted = Vec::new();
    for number in 0..24_u32 {
        let client = if number % 3 == 0 { &bob } else { &alice };
        let speedup = Speedup::Amdahl { parallel: 0.9, limit: Procs(4) };
        let what = match number % 4 {
            0 => rigid("sleep 0.3", 2, 20),
            1 => script("sleep 0.2", 1, 30, speedup),
            2 => rigid("exit 1", 1, 5),
            _ => service("say", &[("text", "hello")]),
        };
        accepted.push((client.clone(), submit(client, &order(what)).await.handle));
        if number % 7 == 6 {
            let (client, handle) = accepted.last().unwrap();
            client.cancel(handle).await.unwrap();
        }
        if number == 12 {
            // The next events reach machines that were restored from entries and from a snapshot.
            federation.kill("lyon");
            federation.stop("paris");
            federation.kill(MASTER);
            for name in [MASTER, "lyon", "paris"] {
                federation.revive(name);
            }
            federation.attached(2).await;
        }
    }
    let mut ends = Vec::new();
    for (client, handle) in &accepted {
        ends.push(client.wait(handle, |_| {}).await.unwrap().state);
    }
    for state in [JobState::Completed, JobState::Failed] {
        assert!(ends.contains(&state), "{ends:?}");
    }
    for name in ["lyon", "paris", MASTER] {
        federation.stop(name);
    }
    for name in ["lyon", "paris"] {
        let file = ServerFile::read(&federation.folder(name).join("server.toml")).unwrap();
        let replayed = replay_journal(&file.state, |now| Server::new(server(&file), now).unwrap()).unwrap();
        let own = accepted.iter().filter(|(_, handle)| handle.server.as_str() == name).count() as u64;
        assert!(own > 0 && replayed.entries >= 2 * own, "{own} jobs at {name}, {} entries", replayed.entries);
        assert_eq!(replayed.differing, [0; 0], "{name}");
    }
    let file = AgentFile::read(&federation.folder(MASTER).join("agent.toml")).unwrap();
    let config = AgentConfig {
        name: file.name.clone(),
        root: true,
        timeout: file.timeout(),
        reallocation: file.moving(),
    };
    let replayed = replay_journal(file.state.as_ref().unwrap(), |_| Agent::new(config)).unwrap();
    assert!(replayed.entries > accepted.len() as u64);
    assert_eq!(replayed.differing, [0; 0], "{MASTER}");
}

pub(crate) fn server(file: &ServerFile) -> ServerConfig {
    ServerConfig {
        address: file.address(),
        name: file.name.clone(),
        procs: file.cluster.procs(),
        speed: file.cluster.speed().unwrap(),
        policy: file.cluster.policy(),
        tuner: file.cluster.tuner().unwrap(),
        waiting: WaitingLimits::of_jobs(file.waiting_per_user),
        host: file.cluster.host().map(Arc::new),
    }
}

/// The file and the state machine of a stopped server.
pub(crate) fn stopped(federation: &Federation, name: &str) -> (ServerFile, Server) {
    let file = ServerFile::read(&federation.folder(name).join("server.toml")).unwrap();
    let mut journal = open_sqlite(&file.state).unwrap();
    let snapshot = journal.load().unwrap().snapshot.unwrap();
    let parts = (0..snapshot.parts).map(|part| journal.snapshot_part(snapshot.seq, part).unwrap());
    let state: ServerState = serde_json::from_slice(&parts.collect::<Vec<_>>().concat()).unwrap();
    let machine = Server::from_state(server(&file), state).unwrap();
    (file, machine)
}
