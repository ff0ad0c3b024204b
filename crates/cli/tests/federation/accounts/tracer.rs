//! A job that tries to attach to the processes by which the server reads and starts other jobs of its user, before they are closed.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use pliant_control::job::{Exit, JobState};

use super::site::{ALICE, LYON, Site, program};
use super::works::{files_of, text};
use crate::harness::*;

/// How many jobs of the user start while the tracer runs. Each of them takes several processes of the server's.
const JOBS: usize = 20;
/// What the server says of a program that accounts can read.
const WARNING: &str = "execute but not read";

/// What a tracer says that runs while jobs of its user start, with that mode of the program.
async fn traced(mode: u32) -> Option<String> {
    let site = Site::new()?;
    fs::set_permissions(program(), fs::Permissions::from_mode(mode)).unwrap();
    let federation = site.federation(&site.cluster("")).await;
    let file = federation.folder(LYON).join("server.toml");
    let checked = Command::new(program()).args(["server", "--check"]).arg(file).output().unwrap();
    assert!(checked.status.success(), "{checked:?}");
    let is_readable = mode & 0o004 != 0;
    assert_eq!(String::from_utf8_lossy(&checked.stderr).contains(WARNING), is_readable, "{checked:?}");
    if is_readable {
        federation.logged(LYON, &[WARNING]).await;
    }

    let alice = federation.client(ALICE);
    let over = federation.path().join("over");
    let script = format!(
        "case $(uname -m) in aarch64) number=117 ;; *) number=101 ;; esac\ncat > tracer.pl <<'END'\n{}END\n: > begun\nperl tracer.pl $number {}\n",
        include_str!("tracer.pl"),
        over.display()
    );
    let tracer = submit(&alice, &order(rigid(&script, 1, 600))).await;
    federation.reaches(&alice, &tracer.handle, JobState::Active).await;
    let begun = files_of(&tracer.handle).join("work/begun");
    until("the tracer", async || begun.exists().then_some(())).await;
    for _ in 0..JOBS {
        let ended = run(&alice, &order(rigid("true", 1, 60))).await;
        assert_eq!(ended.exit, Some(Exit::Code(0)), "{ended:?}");
    }
    fs::write(&over, "").unwrap();
    let ended = alice.wait(&tracer.handle, |_| {}).await.unwrap();
    assert_eq!(ended.exit, Some(Exit::Code(0)), "{ended:?}");
    Some(text(&fetched(&alice, &ended.handle).await, "stdout"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tracer_is_never_quick_enough() {
    let Some(said) = traced(0o711).await else { return };
    let seen = said.trim_end().strip_prefix("seen ").and_then(|seen| seen.parse::<usize>().ok());
    assert!(seen.is_some_and(|seen| seen >= JOBS), "{said}");
}

/// The same tracer succeeds where the account can read the program, or the test above shows nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_tracer_can_be_quick_enough_if_it_can_read_the_program() {
    let Some(said) = traced(0o755).await else { return };
    assert!(said.starts_with("opened") || said.starts_with("attached"), "{said}");
}
