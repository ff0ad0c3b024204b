//! What a job tries against other users, the server and the host, and is denied.

use std::fs;
use std::path::PathBuf;

use pliant_control::job::{Exit, JobState};
use pliant_control::names::Handle;

use super::site::{ALICE, BOB, LYON, Site, base, done, launcher, program, spool, uid};
use super::works::files_of;
use crate::harness::*;

/// How many attempts there are.
const ATTEMPTS: usize = 120;

fn shell_variables(values: &[(&str, String)]) -> String {
    values.iter().map(|(name, value)| format!("{name}='{value}'\n")).collect()
}

fn read_pid(path: PathBuf) -> String {
    fs::read_to_string(path).unwrap().trim().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_denied_whatever_is_not_its_own() {
    let Some(site) = Site::new() else { return };
    let federation = site.federation(&site.cluster("")).await;
    let (alice, bob) = (federation.client(ALICE), federation.client(BOB));
    let (gate, given) = (federation.path().join("gate"), federation.path().join("given.txt"));
    fs::write(&given, "given\n").unwrap();
    let text = format!(
        "echo secret > secret; chmod 644 secret; echo $$ > pid; {}; cat secret given.txt",
        waiting_for(&gate)
    );
    let mut asked = order(rigid(&text, 1, 600));
    asked.inputs.push(input("given.txt", &given));
    let victim = submit(&bob, &asked).await;
    let bob_pid = files_of(&victim.handle).join("work/pid");
    until("bob's job to run", async || bob_pid.exists().then_some(())).await;
    federation.reaches(&bob, &victim.handle, JobState::Running).await;

    let state = federation.folder(LYON).join("state");
    let journal =
        fs::read_dir(&state).unwrap().map(|entry| entry.unwrap().path()).find(|path| path.is_file()).unwrap();
    let records = federation.job_folder(&victim.handle);
    let server_pid =
        done(std::process::Command::new("pgrep").args(["-U", "pta-server", "-f", "pliant server"]));
    let own = Handle { number: victim.handle.number + 1, ..victim.handle.clone() };
    let shown = |path: PathBuf| path.display().to_string();
    let variables = shell_variables(&[
        ("BOB_FILES", shown(files_of(&victim.handle))),
        ("BOB_NUMBER", victim.handle.number.to_string()),
        ("BOB_HOME", shown(base("home").join(BOB))),
        ("BOB_UID", uid(BOB).to_string()),
        ("BOB_PID", read_pid(bob_pid)),
        ("BOB_SUPERVISOR", read_pid(records.join("lock"))),
        ("SPOOL", shown(spool())),
        ("SERVER_DIR", shown(federation.folder(LYON))),
        ("SERVER_PID", server_pid.lines().next().unwrap().to_owned()),
        ("SERVER_GID", site.server().gid.to_string()),
        ("JOURNAL", shown(journal)),
        ("ADDRESS", federation.address(LYON)),
        ("LAUNCHER", shown(launcher())),
        ("LAUNCHER_FILE", shown(base("etc/launcher.toml"))),
        ("PLIANT", shown(program())),
        ("OWN_NUMBER", own.number.to_string()),
    ]);
    let attempts = include_str!("attempts.sh");
    let text = format!(
        "exec 2>&1\n{variables}OWN_SUPERVISOR=$(awk '/^PPid/ {{ print $2 }}' /proc/self/status)\nOWN_SUPERVISOR=$PPID\n{attempts}"
    );
    let ended = run(&alice, &order(rigid(&text, 1, 300))).await;
    assert_eq!(ended.handle, own, "the number that the script was given");
    assert_eq!(ended.exit, Some(Exit::Code(0)), "{ended:?}");
    let found = fetched(&alice, &ended.handle).await;
    let said = String::from_utf8(found["stdout"].clone()).unwrap();
    let lines: Vec<&str> =
        said.lines().filter(|line| line.ends_with(": denied") || line.ends_with(": ALLOWED")).collect();
    let allowed: Vec<&&str> = lines.iter().filter(|line| line.ends_with(": ALLOWED")).collect();
    assert!(allowed.is_empty(), "allowed: {allowed:#?}\n{said}");
    assert_eq!(lines.len(), ATTEMPTS, "{said}");

    // Nothing of it had an effect.
    fs::write(&gate, "").unwrap();
    let ended = bob.wait(&victim.handle, |_| {}).await.unwrap();
    assert_eq!(ended.exit, Some(Exit::Code(0)), "{ended:?}");
    let found = fetched(&bob, &victim.handle).await;
    assert_eq!(found["stdout"], b"secret\ngiven\n");
    assert!(!found.contains_key("work/planted"));
    refused(alice.results(&victim.handle).await, &["no job"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn links_lead_results_and_inputs_nowhere() {
    let Some(site) = Site::new() else { return };
    let federation = site.federation(&site.cluster("")).await;
    let (alice, bob) = (federation.client(ALICE), federation.client(BOB));
    let secret = run(&bob, &order(rigid("echo secret > secret; chmod 644 secret", 1, 60))).await;
    let (server, of_bob) = (federation.folder(LYON), files_of(&secret.handle));
    // Results: no link is followed, of whatever kind, and what only the server can read is not read.
    let text = format!(
        "ln -s {0}/key.pem key.pem; ln {0}/key.pem hard.pem 2>/dev/null; ln -s {0}/state state; ln -s {1}/work/secret secret; \
         mkfifo pipe; mkdir in; ln -s {0} in/server; ln -s ../script mine; echo own > own; ln -s /etc/passwd ../stdout; \
         ln -s /etc/passwd ../results.json",
        server.display(),
        of_bob.display()
    );
    let ended = run(&alice, &order(rigid(&text, 1, 60))).await;
    let results = alice.results(&ended.handle).await.unwrap();
    let names: Vec<String> = results.files.iter().map(|file| file.name.to_string()).collect();
    assert_eq!(names, ["stdout", "stderr", "work/own"], "{results:?}");
    // The work folder itself as a link.
    let text = format!("cd ..; mv work elsewhere; ln -s {} work", server.display());
    let ended = run(&alice, &order(rigid(&text, 1, 60))).await;
    let results = alice.results(&ended.handle).await.unwrap();
    assert_eq!(results.files.len(), 2, "only the outputs: {results:?}");
    // Staging: a job swaps links into the folders of its user's next jobs while they get their inputs.
    let next = ended.handle.number + 2;
    let gate = federation.path().join("gate");
    let swap = format!(
        "while [ ! -e {gate} ]; do for n in {next} {after}; do \
         mv -T {spool}/lyon-job-$n/work {spool}/lyon-job-$n/old 2>/dev/null && ln -s {state} {spool}/lyon-job-$n/work; \
         rm -f {spool}/lyon-job-$n/work 2>/dev/null; done; done",
        gate = gate.display(),
        after = next + 1,
        spool = spool().display(),
        state = server.join("state").display()
    );
    let swapper = submit(&alice, &order(rigid(&swap, 1, 600))).await;
    federation.reaches(&alice, &swapper.handle, JobState::Running).await;
    let data = federation.path().join("data");
    fs::write(&data, vec![7_u8; 3 << 20]).unwrap();
    for _ in 0..2 {
        let mut asked = order(rigid("true", 1, 60));
        for name in ["planted.bin", "jobs/planted.bin", "staging/planted.bin"] {
            asked.inputs.push(input(name, &data));
        }
        let ended = run(&alice, &asked).await;
        assert!(ended.state.is_final());
    }
    fs::write(&gate, "").unwrap();
    alice.wait(&swapper.handle, |_| {}).await.unwrap();
    let planted =
        done(std::process::Command::new("find").arg(server.join("state")).args(["-name", "planted*"]));
    assert_eq!(planted, "", "nothing was put into the server's state");
    // Bob's files are as they were, and the server goes on.
    let found = fetched(&bob, &secret.handle).await;
    assert_eq!(found["work/secret"], b"secret\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_records_of_a_job_do_not_believe_its_account() {
    let Some(site) = Site::new() else { return };
    let federation = site.federation(&site.cluster("")).await;
    let alice = federation.client(ALICE);
    // Records beside the work folder are the account's own business, and no launcher's words count but as this job's end.
    let text =
        "cd ..; for f in exit.json started.json spec.json lock results.json; do echo '{}' > $f; done; exit 4";
    let ended = run(&alice, &order(rigid(text, 1, 60))).await;
    assert_eq!(ended.exit, Some(Exit::Code(4)));
    let ended = run(&alice, &order(rigid("echo 'pliant-launcher: not me' >&2; exit 125", 1, 60))).await;
    assert!(
        matches!(&ended.exit, Some(Exit::NotStarted(why)) if why == "not me"),
        "it only harms itself: {ended:?}"
    );
    let files = files_of(&ended.handle);
    assert!(files.exists());
}
