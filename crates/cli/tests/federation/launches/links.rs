//! Links between servers are measured, remembered, shown, and applications are mapped by what they carry.

use std::collections::BTreeSet;
use std::fs;

use pliant_control::coallocation::{LaunchRecord, Link, Mapping};
use pliant_control::handoff::Peer;
use pliant_transport::Role;
use pliant_wire::proto::links_client::LinksClient;
use pliant_wire::{DownloadProbe, LinkMeasurement, LinkProbe, proto};
use tonic::Code;
use tonic::transport::Channel;

use super::slow_network::SlowNetwork;
use super::*;

/// What goes through the doors of the servers, in Mb/s: so little that a measurement takes a second and more, and says what the
/// doors are even where this machine has no time for half of one.
const DOORS_MBPS: [(&str, f64); 3] = [("lyon", 2.0), ("nice", 0.25), ("paris", 2.0)];
/// Small measurements, one after the other.
const PROBES: &str = "\n[probes]\npause_s = 0\nbytes = 262144\nlimit_s = 3\n";

/// A launch as it is mapped now; nothing is reserved.
async fn mapped(client: &Client, request: &LaunchRequest) -> LaunchRecord {
    let request = LaunchRequest { key: fresh_key(), dry_run: true, ..request.clone() };
    let id = launched(client, &request).await;
    reaches(client, &id, LaunchState::Over).await
}

fn servers(record: &LaunchRecord) -> BTreeSet<&str> {
    record.tasks.iter().map(|task| task.allocation.as_ref().unwrap().0.as_str()).collect()
}

/// Waits until so many links are known.
async fn measured(client: &Client, count: usize) -> Vec<Link> {
    until(&format!("{count} links to be measured"), async || {
        client.links().await.ok().filter(|links| links.len() == count)
    })
    .await
}

/// Three servers that hang on an agent, of which nice is behind the slowest door; nothing is measured yet.
async fn federation_with_a_slow_server() -> (Federation, String) {
    let mut federation = Federation::agent_only("\n[probes]\nevery_s = 0\n");
    let file = federation.folder(MASTER).join("agent.toml");
    let quiet = fs::read_to_string(&file).unwrap();
    for (name, mbps) in DOORS_MBPS {
        let door = SlowNetwork::open(mbps);
        let keys: &'static str = format!("advertise = \"{}\"", door.address).leak();
        federation.add_server(&Cluster { keys, ..cluster(name) });
        door.leads_to(&federation.address(name));
    }
    federation.sized(3).await;
    (federation, quiet.replace("\n[probes]\nevery_s = 0\n", PROBES))
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_that_talk_are_kept_off_a_slow_link_once_it_was_measured() {
    let (mut federation, with_probes) = federation_with_a_slow_server().await;
    let alice = federation.client("alice");
    let talkers = Talkers::new(federation.path().join("ring"));
    let ring = talkers.ring(MCR, &["a", "b", "c", "d"].map(|task| (task, 0)));
    let ring = LaunchRequest { user_lan: Some("lyon".parse().unwrap()), ..ring };
    assert_eq!(servers(&mapped(&alice, &ring).await), ["lyon", "nice"].into(), "in the order of their names");
    assert_eq!(alice.links().await.unwrap(), []);

    federation.stop(MASTER);
    fs::write(federation.folder(MASTER).join("agent.toml"), with_probes).unwrap();
    federation.revive(MASTER);
    federation.sized(3).await;
    let links = measured(&alice, 3).await;
    let between = |one: &str, other: &str| {
        let link =
            links.iter().find(|link| (link.between.0.as_str(), link.between.1.as_str()) == (one, other));
        link.unwrap().mbps
    };
    let (slow, fast) = (between("lyon", "nice"), between("lyon", "paris"));
    // The server behind the slow connection reaches others directly.
    assert!(slow > 0.0 && slow < fast, "{links:?}");
    assert_eq!(servers(&mapped(&alice, &ring).await), ["lyon", "paris"].into());
    for mapping in [Mapping::Refined, Mapping::Wase] {
        // Traffic that no link carries is not mapped, and the reason is reported.
        let mut greedy = LaunchRequest { mapping, ..ring.clone() };
        greedy.application.bandwidth_mbps = Some(1e7);
        let record = mapped(&alice, &greedy).await;
        let Some(LaunchEnd::NotMapped(why)) = &record.end else { panic!("{record:?}") };
        assert!(why.contains("no link to it has enough bandwidth left"), "{why}");
        greedy.application.bandwidth_mbps = Some(1e-3);
        assert_eq!(servers(&mapped(&alice, &greedy).await), ["lyon", "paris"].into());
    }

    // It is remembered, and shown.
    federation.kill(MASTER);
    federation.revive(MASTER);
    assert_eq!(alice.links().await.unwrap(), links);
    let config = federation.client_file(Role::User, "alice");
    let shown = pliant(&config, &["servers", "--links"]).output().unwrap();
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.lines().any(|line| line.starts_with("lyon") && line.contains("nice")), "{shown}");
}

fn links_client(federation: &Federation, role: Role, name: &str, server: &str) -> LinksClient<Channel> {
    LinksClient::new(federation.channel(&federation.credentials(role, name), Role::Server, server))
}

#[tokio::test(flavor = "multi_thread")]
async fn links_are_measured_for_agents_and_with_servers_and_one_at_a_time() {
    let mut federation = Federation::agent_only("\n[probes]\nevery_s = 0\n");
    for name in ["lyon", "paris"] {
        federation.add_server(&cluster(name));
    }
    federation.sized(2).await;
    let to = |server: &str, address: &str| {
        let server = Peer { name: server.parse().unwrap(), address: address.to_owned() };
        proto::ProbeRequest::from(&LinkProbe { server, bytes: 1 << 20, limit: Duration::from_secs(20) })
    };
    let paris = federation.address("paris");
    let mut agent = links_client(&federation, Role::Agent, "conductor", "lyon");
    let reply = agent.probe(to("paris", &paris)).await.unwrap().into_inner();
    let probed = LinkMeasurement::try_from(reply).unwrap();
    assert!(probed.there_mbps > 0.0 && probed.back_mbps > 0.0 && !probed.round_trip.is_zero(), "{probed:?}");
    // Who is there has to be who is asked for.
    let wrong = agent.probe(to("lyon", &paris)).await.unwrap_err();
    assert!(wrong.message().contains("cannot prove who it is"), "{wrong:?}");

    let give = proto::GiveRequest::from(&DownloadProbe { bytes: 64 << 20, limit: Duration::from_secs(30) });
    let mut stranger = links_client(&federation, Role::Server, "stranger", "paris");
    for (role, name) in [(Role::User, "alice"), (Role::Operator, "root")] {
        let mut user = links_client(&federation, role, name, "paris");
        assert_eq!(user.probe(to("lyon", &paris)).await.unwrap_err().code(), Code::PermissionDenied);
        assert_eq!(user.give(give).await.unwrap_err().code(), Code::PermissionDenied);
    }
    assert_eq!(stranger.probe(to("lyon", &paris)).await.unwrap_err().code(), Code::PermissionDenied);

    // While it sends bytes to a peer that reads none, it measures nothing else.
    let given = stranger.give(give).await.unwrap();
    let mut other = links_client(&federation, Role::Server, "other", "paris");
    assert_eq!(other.give(give).await.unwrap_err().code(), Code::ResourceExhausted);
    let busy = agent.probe(to("paris", &paris)).await.unwrap_err();
    assert_eq!(busy.code(), Code::ResourceExhausted, "{busy:?}");
    drop(given);
    until("the server to measure again", async || agent.probe(to("paris", &paris)).await.ok()).await;
}
