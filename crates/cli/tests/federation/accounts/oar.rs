//! Jobs in front of a real OAR cluster that run and are submitted as the accounts of their users.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use pliant_control::job::{Exit, JobState};
use pliant_testing::oar::OarCluster;

use super::site::{ALICE, BOB, LYON, SERVER, Site, base, done, uid};
use super::slurm::{files_of, owned};
use super::works::text;
use crate::harness::*;

/// The commands that servers call; the first ones as accounts.
const COMMANDS: [&str; 6] = ["oarsub", "oardel", "oarhold", "oarresume", "oarstat", "oarnodes"];

#[tokio::test(flavor = "multi_thread")]
async fn jobs_run_in_oar_as_their_users() {
    let commands = COMMANDS.map(|name| base("oar").join(name));
    let commands: Vec<&Path> = commands[..4].iter().map(PathBuf::as_path).collect();
    let Some(site) = Site::running(&commands) else { return };
    let Some(oar) = OarCluster::start(1, 2) else { return };
    // The launcher runs nothing from a folder that others can write to.
    fs::create_dir(base("oar")).unwrap();
    for name in COMMANDS {
        done(Command::new("cp").arg("-a").arg(oar.commands.join(name)).arg(base("oar")));
    }
    let cluster = site.cluster("");
    let oar_keys = Oar { commands: base("oar"), user: site.server() };
    let federation = site.federation(&Cluster { oar: Some(oar_keys), ..cluster }).await;
    let users = || -> String {
        let listed = oar.run(&["oarstat", "--json"]);
        let listed: serde_json::Value =
            if listed.is_empty() { return String::new() } else { serde_json::from_str(&listed).unwrap() };
        let jobs = listed.as_object().unwrap().values();
        let words =
            jobs.map(|job| format!("{} {}", job["name"].as_str().unwrap(), job["owner"].as_str().unwrap()));
        words.collect::<Vec<_>>().join(";")
    };
    let data = federation.path().join("data");
    fs::write(&data, "three\nlines\nhere\n").unwrap();
    for name in [ALICE, BOB] {
        let client = federation.client(name);
        let gate = federation.path().join(format!("gate-{name}"));
        let shell =
            format!("id -un; echo $HOME; stat -c '%U %a' ..; wc -l < data; {}; exit 3", waiting_for(&gate));
        let mut asked = order(rigid(&shell, 1, 120));
        asked.inputs.push(input("data", &data));
        let accepted = submit(&client, &asked).await;
        federation.reaches(&client, &accepted.handle, JobState::Active).await;
        let expected = format!("pliant:{LYON}:{} {name}", accepted.handle.number);
        until(&expected, async || (users() == expected).then_some(())).await;
        fs::write(&gate, "").unwrap();
        let ended = client.wait(&accepted.handle, |_| {}).await.unwrap();
        assert_eq!((ended.state, ended.exit.clone()), (JobState::Failed, Some(Exit::Code(3))), "{ended:?}");
        let found = fetched(&client, &ended.handle).await;
        let home = base("home").join(name);
        assert_eq!(text(&found, "stdout"), format!("{name}\n{}\n{name} 700\n3\n", home.display()));
        assert_eq!(owned(&files_of(LYON, &ended.handle)), (uid(name), 0o700));
        assert_eq!(owned(&federation.job_folder(&ended.handle)), (uid(SERVER), 0o700));
        until("it to be gone", async || users().is_empty().then_some(())).await;
    }
    let alice = federation.client(ALICE);
    let never = federation.path().join("never");
    let running = submit(&alice, &order(rigid(&waiting_for(&never), 2, 600))).await;
    let waiting = submit(&alice, &order(rigid("true", 2, 600))).await;
    federation.reaches(&alice, &running.handle, JobState::Active).await;
    for handle in [&waiting.handle, &running.handle] {
        alice.cancel(handle).await.unwrap();
        let ended = alice.wait(handle, |_| {}).await.unwrap();
        assert_eq!((ended.state, &ended.exit), (JobState::Canceled, &Some(Exit::Cancelled)), "{ended:?}");
    }
    until("nothing to be left", async || users().is_empty().then_some(())).await;
}
