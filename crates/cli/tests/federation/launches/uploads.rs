//! A client that is killed while it sends the input files of a launch.

use std::fs;
use std::path::{Path, PathBuf};

use pliant_control::names::Key;
use pliant_transport::Role;

use super::slow_network::SlowNetwork;
use super::talkers::Talkers;
use super::*;

/// What goes through the door of the slow server, in Mb/s, and what is to go through it: seconds.
const SLOW_MBPS: f64 = 2.0;
const FILE_BYTES: usize = 2 << 20;
/// The server behind the door.
const SLOW: &str = NAMES[0];

/// A ring of tasks of which each is given the large file.
fn ring_with_input(talkers: &Talkers, tasks: &[&str]) -> PathBuf {
    fs::write(talkers.folder.join("large"), vec![7; FILE_BYTES]).unwrap();
    let file = talkers.ring_file(MCR, &tasks.iter().map(|task| (*task, 0)).collect::<Vec<_>>());
    let text = fs::read_to_string(&file).unwrap();
    let text = text.replace("script = \"talk.pl\"\n", "script = \"talk.pl\"\ninput = [\"large\"]\n");
    fs::write(&file, text).unwrap();
    file
}

/// How many files of a kind of a launch a server has.
fn uploads(federation: &Federation, key: Key, kind: &str) -> usize {
    let folder = federation.folder(SLOW).join("state/staging/incoming/alice").join(key.to_string());
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    files.filter(|file| Path::new(&file.file_name()).extension().is_some_and(|found| found == kind)).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_is_killed_while_it_sends_files_sends_the_rest_later_or_nothing_is_held() {
    let door = SlowNetwork::open(SLOW_MBPS);
    let mut federation = Federation::agent_only("\n[probes]\nevery_s = 0\n");
    let advertise: &'static str = format!("advertise = \"{}\"", door.address).leak();
    for name in NAMES {
        let keys = if name == SLOW { advertise } else { "" };
        federation.add_server(&Cluster { keys, ..cluster(name) });
    }
    door.leads_to(&federation.address(SLOW));
    federation.sized(NAMES.len()).await;
    let alice = federation.client("alice");
    let config = federation.client_file(Role::User, "alice");
    let tasks = ["a", "b", "c", "d"];
    for (comes_back, timeout) in [(true, "2m"), (false, "15s")] {
        let talkers = Talkers::new(federation.path().join(timeout));
        let file = ring_with_input(&talkers, &tasks);
        let key = fresh_key();
        let words =
            ["launch", file.to_str().unwrap(), "--key", &key.to_string(), "--reservation-timeout", timeout]
                .map(str::to_owned);
        let launch = || pliant(&config, &words.each_ref().map(String::as_str));
        let mut client = launch().spawn().unwrap();
        until("the file to be on its way", async || (uploads(&federation, key, "part") > 0).then_some(()))
            .await;
        client.kill().unwrap();
        client.wait().unwrap();
        assert_eq!(uploads(&federation, key, "done"), 0, "it was to be killed before all of it was sent");
        if comes_back {
            tasks.iter().for_each(|task| talkers.open(task));
            let (code, stdout, stderr) = said(launch().output().unwrap());
            assert_eq!(code, 0, "{stdout}{stderr}");
            assert_eq!(talkers.began(), tasks.map(|task| (task.to_owned(), 1)).into());
        } else {
            let id = LaunchId { agent: MASTER.parse().unwrap(), key };
            let record = reaches(&alice, &id, LaunchState::Over).await;
            let Some(LaunchEnd::NotReserved(why)) = &record.end else { panic!("{record:?}") };
            assert!(why.contains(SLOW), "its subjob has not all of its files: {why}");
            assert!(talkers.began().is_empty(), "{record:?}");
        }
        no_process(&talkers).await;
    }
    nothing_left(&mut federation, &NAMES).await;
}
