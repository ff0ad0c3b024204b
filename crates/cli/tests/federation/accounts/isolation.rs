//! What a job tries against other users, the server and the host, and is denied.

use std::fs;
use std::path::PathBuf;

use pliant_client::Client;
use pliant_control::job::{Exit, JobState};
use pliant_control::names::Handle;

use super::site::{ALICE, BOB, LYON, Site, base, done, launcher, program, spool, uid};
use super::works::files_of;
use crate::harness::*;

/// How many attempts there are.
const ATTEMPTS: usize = 133;
/// The key of the shared memory of the victim.
const SHARED_MEMORY: &str = "0x70746131";
/// The attempts that succeed against another job of the same user: most of those against another user's job.
const ALLOWED_AGAINST_ONESELF: [&str; 19] = [
    "list another job's folder",
    "enter another job's folder",
    "read another job's script",
    "read another job's file",
    "read another job's input",
    "write another job's file",
    "make a file in another job's folder",
    "delete another job's file",
    "open another job's folder to all",
    "read the home of another user",
    "read the environment of another-job",
    "read the memory of another-job",
    "read the memory map of another-job",
    "list the descriptors of another-job",
    "open a descriptor of another-job",
    "enter the working folder of another-job",
    "see through the root of another-job",
    "kill another-job",
    "attach to another user's shared memory",
];

fn shell_variables(values: &[(&str, String)]) -> String {
    values.iter().map(|(name, value)| format!("{name}='{value}'\n")).collect()
}

fn read_pid(path: PathBuf) -> String {
    fs::read_to_string(path).unwrap().trim().to_owned()
}

/// A job of a user, against which others try something until the gate opens.
struct Victim {
    user: &'static str,
    client: Client,
    handle: Handle,
    gate: PathBuf,
}

impl Victim {
    async fn of(user: &'static str, federation: &Federation) -> Victim {
        let client = federation.client(user);
        let (gate, given) = (federation.path().join("gate"), federation.path().join("given.txt"));
        fs::write(&given, "given\n").unwrap();
        let memory = |call: &str| format!("perl -e 'exit(defined {call} ? 0 : 1)'");
        let text = format!(
            "{}; echo secret > secret; chmod 644 secret; echo $$ > pid; {}; {}; cat secret given.txt",
            memory(&format!("shmget({SHARED_MEMORY}, 4096, 01600)")),
            waiting_for(&gate),
            memory(&format!("shmctl(shmget({SHARED_MEMORY}, 1, 0), 0, 0)")),
        );
        let mut asked = order(rigid(&text, 1, 600));
        asked.inputs.push(input("given.txt", &given));
        let handle = submit(&client, &asked).await.handle;
        let pid = files_of(&handle).join("work/pid");
        until("the victim's job to run", async || pid.exists().then_some(())).await;
        federation.reaches(&client, &handle, JobState::Active).await;
        Victim { user, client, handle, gate }
    }

    /// What alice's job has tried, with whether it succeeded, and all that it has said.
    async fn tried_by_alice(&self, site: &Site, federation: &Federation) -> (Vec<(String, bool)>, String) {
        let state = federation.folder(LYON).join("state");
        let journal = fs::read_dir(&state)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .find(|path| path.extension().is_some_and(|end| end == "db"))
            .unwrap();
        let records = federation.job_folder(&self.handle);
        let server_pid =
            done(std::process::Command::new("pgrep").args(["-U", "pta-server", "-f", "pliant server"]));
        let own = self.handle.number + 1;
        let shown = |path: PathBuf| path.display().to_string();
        let files = files_of(&self.handle);
        let variables = shell_variables(&[
            ("BOB_FILES", shown(files.clone())),
            ("BOB_WORK", shown(files.join("work"))),
            ("BOB_NUMBER", self.handle.number.to_string()),
            ("BOB_HOME", shown(base("home").join(self.user))),
            ("BOB_UID", uid(BOB).to_string()),
            ("BOB_PID", read_pid(files.join("work/pid"))),
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
            ("OWN_NUMBER", own.to_string()),
            ("SHARED_MEMORY", SHARED_MEMORY.to_owned()),
        ]);
        let attempts = include_str!("attempts.sh");
        let text = format!("exec 2>&1\n{variables}OWN_SUPERVISOR=$PPID\n{attempts}");
        let alice = federation.client(ALICE);
        let ended = run(&alice, &order(rigid(&text, 1, 300))).await;
        assert_eq!(ended.handle.number, own, "the number that the script was given");
        assert_eq!(ended.exit, Some(Exit::Code(0)), "{ended:?}");
        let found = fetched(&alice, &ended.handle).await;
        let said = String::from_utf8(found["stdout"].clone()).unwrap();
        let tried = |line: &str| {
            let (what, how) = line.rsplit_once(": ")?;
            matches!(how, "denied" | "ALLOWED").then(|| (what.to_owned(), how == "ALLOWED"))
        };
        (said.lines().filter_map(tried).collect(), said)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_denied_whatever_is_not_its_own() {
    let Some(site) = Site::new() else { return };
    let federation = site.federation(&site.cluster("")).await;
    let victim = Victim::of(BOB, &federation).await;
    let (tried, said) = victim.tried_by_alice(&site, &federation).await;
    let allowed: Vec<&str> =
        tried.iter().filter(|(_, allowed)| *allowed).map(|(what, _)| what.as_str()).collect();
    assert!(allowed.is_empty(), "allowed: {allowed:#?}\n{said}");
    assert_eq!(tried.len(), ATTEMPTS, "{said}");

    // Nothing of it had an effect.
    let Victim { client: bob, handle, gate, .. } = victim;
    fs::write(&gate, "").unwrap();
    let ended = bob.wait(&handle, |_| {}).await.unwrap();
    assert_eq!(ended.exit, Some(Exit::Code(0)), "{ended:?}");
    let found = fetched(&bob, &handle).await;
    assert_eq!(found["stdout"], b"secret\ngiven\n");
    assert!(!found.contains_key("work/planted"));
    refused(federation.client(ALICE).results(&handle).await, &["no job"]);
}

/// The same attempts show something only if they succeed where they may.
#[tokio::test(flavor = "multi_thread")]
async fn the_same_attempts_succeed_against_a_job_of_ones_own() {
    let Some(site) = Site::new() else { return };
    let federation = site.federation(&site.cluster("")).await;
    let victim = Victim::of(ALICE, &federation).await;
    let (tried, said) = victim.tried_by_alice(&site, &federation).await;
    let denied: Vec<&str> = ALLOWED_AGAINST_ONESELF
        .into_iter()
        .filter(|what| !tried.iter().any(|(tried, allowed)| tried == what && *allowed))
        .collect();
    assert!(denied.is_empty(), "denied: {denied:#?}\n{said}");
    // Not even then the records, the server and root.
    let allowed = tried.iter().filter(|(what, allowed)| {
        *allowed
            && ["server", "supervisor", "become root", "launcher", "its own"]
                .iter()
                .any(|word| what.contains(word))
    });
    assert_eq!(allowed.count(), 0, "{said}");
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
         mv -T {spool}/lyon_job_$n/work {spool}/lyon_job_$n/old 2>/dev/null && ln -s {state} {spool}/lyon_job_$n/work; \
         rm -f {spool}/lyon_job_$n/work 2>/dev/null; done; done",
        gate = gate.display(),
        after = next + 1,
        spool = spool().display(),
        state = server.join("state").display()
    );
    let swapper = submit(&alice, &order(rigid(&swap, 1, 600))).await;
    federation.reaches(&alice, &swapper.handle, JobState::Active).await;
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
    for planted in ["planted.bin", "jobs/planted.bin", "staging/planted.bin"] {
        assert!(!server.join("state").join(planted).exists(), "{planted} was put into the server's state");
    }
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
