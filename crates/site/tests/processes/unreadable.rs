//! Jobs that remove the permissions that they and their server need to read their folder.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use pliant_site::processes::{Ending, Lost, ProcessState, find, spawn, terminate};
use pliant_staging::{ResultLimits, seal};
use pliant_wire::Outcome;

use crate::scratch::*;

/// What the tests of this file do as a server whom permissions mean something to: the name of each, and what it says.
const PARTS: [(&str, &str); 3] =
    [("ends", "Ended 7, work/left there"), ("cancelled", "Ended, cancelled"), ("lost", "Lost")];

/// Runs a part of these tests as a process without the privileges of a superuser, and what it starts as well.
fn unprivileged(part: &str, scratch: &Scratch) -> String {
    let mut words: Vec<std::ffi::OsString> = Vec::new();
    if rustix::process::geteuid().is_root() {
        words.extend(["setpriv", "--bounding-set=-all", "--inh-caps=-all"].map(Into::into));
    }
    words.extend(this_program_as("unreadable::as_unprivileged_server"));
    let mut server = Command::new(&words[0]);
    let said = server.args(&words[1..]).arg(scratch.dir()).env("PART", part).output().unwrap();
    let text = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(said.status.success(), "{text}\n{}", String::from_utf8_lossy(&said.stderr));
    text
}

/// Not a test: a server without privileges.
#[tokio::test]
#[ignore = "a server, started by the other tests"]
async fn as_unprivileged_server() {
    let Some(dir) = crate::folder_argument() else { return };
    // A superuser would find none of this in its way.
    let closed = dir.join("closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, Permissions::from_mode(0o000)).unwrap();
    assert!(fs::read_dir(&closed).is_err(), "permissions mean nothing to this process");
    let mut running = spawn(&supervisor(), &dir).unwrap();
    // Its supervisor has recorded everything; then the job removes all permissions.
    let started =
        || serde_json::from_slice::<serde_json::Value>(&fs::read(dir.join("started.json")).ok()?).ok();
    wait_until("the note", || started()?["group"].as_i64());
    let supervisor = started().unwrap()["supervisor"].as_i64().unwrap() as i32;
    fs::write(dir.join("work/go"), "").unwrap();
    wait_until("the closed folder", || dir.with_file_name("closed").exists().then_some(()));
    match std::env::var("PART").unwrap().as_str() {
        "ends" => {
            let ended = exit(&mut running).await;
            let Outcome::ExitCode(code) = ended.outcome else { panic!("{ended:?}") };
            let found = seal(&dir, ResultLimits { files: 10, bytes: 1000 }).unwrap();
            let left = found.files.iter().any(|file| file.name.to_string() == "work/left");
            println!("Ended {code}, work/left {}", if left { "there" } else { "missing" });
        }
        "cancelled" => {
            terminate(&dir).unwrap();
            assert!(exit(&mut running).await.cancelled);
            println!("Ended, cancelled");
        }
        _ => {
            // Another server looks for it after its supervisor was killed.
            let ProcessState::Running(mut found) = find(&dir).unwrap() else { panic!("it runs") };
            kill(supervisor);
            assert!(matches!(ending(&mut found).await, Ending::Lost(Lost::SupervisorDied { .. })));
            println!("Lost");
        }
    }
}

#[test]
fn a_job_that_removes_permissions_of_its_folder_is_found_cancelled_and_returned() {
    if rustix::process::geteuid().is_root() && Command::new("setpriv").arg("--version").output().is_err() {
        eprintln!("skipped: this user is never refused anything, and there is no setpriv to change that");
        return;
    }
    for (part, expected) in PARTS {
        let end = if part == "ends" { "exit 7" } else { "exec sleep 1000" };
        let close = "while [ ! -e go ]; do sleep 0.05; done; echo x > left; chmod 000 ../*.json ../lock; \
                     chmod 000 .; chmod 000 \"$PLIANT_JOB_DIR\"; : > \"${PLIANT_JOB_DIR%/*}/closed\"";
        let scratch = Scratch::with(&script(&format!("{close}; {end}")));
        let said = unprivileged(part, &scratch);
        assert!(said.contains(expected), "{part}: {said}");
    }
}

#[tokio::test]
async fn a_record_that_cannot_be_read_is_a_lost_job_with_the_reason() {
    let scratch = Scratch::with(&script("ln -s exit.json ../exit.json; echo on; exec sleep 1000"));
    let mut running = spawn(&supervisor(), &scratch.dir()).unwrap();
    scratch.wait_for("stdout", |text| text == "on\n");
    kill(scratch.started("supervisor"));
    let Ending::Lost(Lost::Unreadable { why }) = ending(&mut running).await else { panic!("it is lost") };
    assert!(why.starts_with("exit.json: cannot read: "), "{why}");
    // A pipe without a writer is not waited for.
    let pipe = Scratch::with(&script("mkfifo ../exit.json; echo on; exec sleep 1000"));
    let mut running = spawn(&supervisor(), &pipe.dir()).unwrap();
    pipe.wait_for("stdout", |text| text == "on\n");
    kill(pipe.started("supervisor"));
    assert!(matches!(ending(&mut running).await, Ending::Lost(Lost::SupervisorDied { .. })));
}
