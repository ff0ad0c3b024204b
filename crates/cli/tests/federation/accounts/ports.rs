//! The port of a launch's task, which a process of another account takes before the task does.

use std::fs;
use std::net::TcpListener;
use std::path::PathBuf;

use pliant_transport::Role;

use super::site::{ALICE, LYON, Site, spool};
use crate::harness::*;

/// Where a task has written where it is to listen.
fn written() -> Option<PathBuf> {
    let folders = |dir: PathBuf| fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    let subjobs = folders(spool()).filter(|path| path.to_string_lossy().contains(LYON));
    subjobs.map(|path| path.join("work/late/work/address")).find(|path| path.exists())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_launch_ends_when_another_account_listens_where_its_task_would() {
    let Some(site) = Site::new() else { return };
    let cluster = Cluster { cluster_keys: "power_mflops = 1000.0\nhost_load = false", ..site.cluster("") };
    let federation = site.federation(&cluster).await;
    let folder = federation.path().join("app");
    fs::create_dir(&folder).unwrap();
    let script = "#!/bin/sh\necho $PLIANT_ADDRESS > new && mv new address\nexec sleep 600\n";
    fs::write(folder.join("late.sh"), script).unwrap();
    let app = "mcr_mflops = 900.0\n[[task]]\nname = \"late\"\nrcr = 1.0\nscript = \"late.sh\"\n";
    fs::write(folder.join("app.toml"), app).unwrap();
    let config = federation.client_file(Role::User, ALICE);
    let app = folder.join("app.toml").display().to_string();
    let launched = pliant(&config, &["launch", &app]).spawn().unwrap();
    let address = until("the task's address", async || written()).await;
    let address = fs::read_to_string(address).unwrap();
    // As root: a listener of another user than the task's.
    let _taken = TcpListener::bind(address.trim()).unwrap();
    let (code, text, stderr) = said(launched.wait_with_output().unwrap());
    assert_eq!(code, 3, "{text}{stderr}");
    assert!((text.clone() + &stderr).contains("another process of this host has taken"), "{text}{stderr}");
}
