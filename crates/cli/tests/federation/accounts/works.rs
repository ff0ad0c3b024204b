//! What users do with a server whose jobs run as them: everything that they do elsewhere.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use pliant_control::job::{Exit, JobState};
use pliant_control::names::Handle;
use pliant_transport::Role;
use pliant_wire::{Script, SubmittedWork};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use super::site::{ALICE, BOB, LYON, Site, base, spool, uid};
use crate::harness::*;

/// The folder of a job's files.
pub(super) fn files_of(handle: &Handle) -> PathBuf {
    spool().join(format!("{LYON}_job_{}", handle.number))
}

/// Says as whom a job runs, and where.
const WHOAMI: &str =
    "id -u; id -un; id -Gn; pwd; echo $HOME; echo $PLIANT_JOB_DIR; stat -c '%U %a' ..; umask";

async fn pid_in(path: &Path) -> Pid {
    let read = async || fs::read_to_string(path).ok()?.strip_suffix('\n')?.parse().ok();
    Pid::from_raw(until(&format!("a process number in {}", path.display()), read).await).unwrap()
}

async fn gone(pid: Pid) {
    until("the end of a process", async || test_kill_process(pid).is_err().then_some(())).await;
}

pub(super) fn text(found: &std::collections::BTreeMap<String, Vec<u8>>, name: &str) -> String {
    String::from_utf8(found.get(name).unwrap_or_else(|| panic!("no {name} in {:?}", found.keys())).clone())
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_run_as_their_users_and_their_files_come_and_go() {
    let Some(site) = Site::new() else { return };
    let federation = site.federation(&site.cluster("")).await;
    federation.logged(LYON, &["server ready", "each job runs as the account of its user"]).await;
    let data = federation.path().join("data");
    let bytes: Vec<u8> = (0..1_500_000_u32).map(|at| (at % 251) as u8).collect();
    fs::write(&data, &bytes).unwrap();
    for name in [ALICE, BOB] {
        let client = federation.client(name);
        let script =
            format!("{WHOAMI}; cp in/data.bin copy.bin; mkdir left; echo $PLIANT_OWNER > left/name; exit 3");
        let mut asked = order(rigid(&script, 1, 60));
        asked.inputs.push(input("in/data.bin", &data));
        let ended = run(&client, &asked).await;
        assert_eq!((ended.state, ended.exit.clone()), (JobState::Failed, Some(Exit::Code(3))), "{ended:?}");
        let (found, files) = (fetched(&client, &ended.handle).await, files_of(&ended.handle));
        assert_eq!(
            fs::metadata(files.join("stdout")).unwrap().uid(),
            uid(name),
            "it counts for the user's quota"
        );
        let (home, work) = (base("home").join(name), files.join("work"));
        let expected = format!(
            "{}\n{name}\n{name}\n{}\n{}\n{}\n{name} 700\n0077\n",
            uid(name),
            work.display(),
            home.display(),
            files.display()
        );
        assert_eq!(text(&found, "stdout"), expected, "{}", text(&found, "stderr"));
        assert!(found["work/copy.bin"] == bytes);
        assert_eq!(text(&found, "work/left/name"), format!("{name}\n"));
        assert!(!found.contains_key("work/in/data.bin"), "inputs are no results");
        // The records are the server's, the files the account's.
        let owned = |path: &Path| {
            let found = fs::metadata(path).unwrap();
            (found.uid(), found.mode() & 0o777)
        };
        let records = federation.job_folder(&ended.handle);
        assert_eq!(owned(&records), (site.server().uid, 0o700));
        assert_eq!(owned(&records.join("exit.json")), (site.server().uid, 0o600));
        assert_eq!(owned(&files), (uid(name), 0o700));
        assert_eq!(owned(&files.join("script")), (uid(name), 0o700));
        assert!(!records.join("work").exists(), "the account has the inputs");
    }
    // Standard input is the account's file, and both outputs are one; a program that cannot be started says so all the same.
    let streams = |text: &str| {
        let SubmittedWork::Script(script) = rigid("", 1, 60) else { panic!("a script") };
        let stdin = Some("in/data".parse().unwrap());
        let mut asked =
            order(SubmittedWork::Script(Script { text: text.into(), stdin, merge_output: true, ..script }));
        asked.inputs.push(input("in/data", &data));
        asked
    };
    let alice = federation.client(ALICE);
    let ended = run(&alice, &streams("#!/bin/sh\necho a; echo b >&2; wc -c\n")).await;
    let found = fetched(&alice, &ended.handle).await;
    assert_eq!((&*text(&found, "stdout"), &*text(&found, "stderr")), ("a\nb\n1500000\n", ""));
    let ended = run(&alice, &streams("#!/no/such/interpreter\n")).await;
    assert!(matches!(ended.exit, Some(Exit::NotStarted(_))), "{ended:?}");
    // A user without an account is refused where jobs run as accounts, with that reason.
    let carol = federation.client("carol");
    refused(carol.submit(&order(rigid("true", 1, 60)), |_| Ok(())).await, &["account", "carol"]);
    let missing = order(script("exec /no/such/program", 1, 60, pliant_model::Speedup::Rigid));
    let ended = run(&federation.client(ALICE), &missing).await;
    assert_eq!(ended.exit, Some(Exit::Code(127)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_opens_its_outputs_by_their_names() {
    let Some(site) = Site::new() else { return };
    let federation = site.federation(&site.cluster("")).await;
    let alice = federation.client(ALICE);
    let ended = run(&alice, &order(rigid("echo out > /dev/stdout; echo error > /dev/stderr", 1, 60))).await;
    let found = fetched(&alice, &ended.handle).await;
    assert_eq!((text(&found, "stdout"), text(&found, "stderr")), ("out\n".to_owned(), "error\n".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_started_says_why() {
    let Some(site) = Site::new() else { return };
    let further = "\n[[service]]\nname = \"lost\"\ncommand = [\"/no/such/program\"]\nspeedup = \"rigid:1\"\nruntime = \"9s\"\n";
    let federation = site.federation(&site.cluster(further)).await;
    let alice = federation.client(ALICE);
    let ended = run(&alice, &order(service("lost", &[]))).await;
    let Some(Exit::NotStarted(why)) = &ended.exit else { panic!("{ended:?}") };
    assert!(why.contains("`/no/such/program`: no such program"), "{why}");
    // The launcher's file does not allow it any more.
    fs::write(
        base("etc/launcher.toml"),
        format!("caller = 'pta-server'\nfolders = ['{}']\n", spool().display()),
    )
    .unwrap();
    let ended = run(&alice, &order(rigid("true", 1, 60))).await;
    let Some(Exit::NotStarted(why)) = &ended.exit else { panic!("{ended:?}") };
    assert!(why.contains("programs"), "{why}");
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_are_cancelled_end_at_their_walltime_and_leave_no_process() {
    let Some(site) = Site::new() else { return };
    let federation = site.federation(&site.cluster("")).await;
    let alice = federation.client(ALICE);
    let shell = "setsid sh -c 'echo $$ > left; exec sleep 1000' & echo $$ > pid; trap 'echo asked; exit 9' TERM; \
                 while :; do sleep 0.1; done";
    let job = submit(&alice, &order(rigid(shell, 1, 600))).await;
    let work = files_of(&job.handle).join("work");
    let pids = [pid_in(&work.join("pid")).await, pid_in(&work.join("left")).await];
    alice.cancel(&job.handle).await.unwrap();
    let ended = alice.wait(&job.handle, |_| {}).await.unwrap();
    assert_eq!(ended.state, JobState::Canceled, "{ended:?}");
    assert_eq!(text(&fetched(&alice, &job.handle).await, "stdout"), "asked\n", "it was sent TERM");
    for pid in pids {
        gone(pid).await;
    }
    // It is not impressed by TERM.
    let deaf = "trap '' TERM; echo $$ > pid; while :; do sleep 0.1; done";
    let ended = run(&alice, &order(rigid(deaf, 1, 1))).await;
    assert_eq!(ended.exit, Some(Exit::OverWalltime), "{ended:?}");
    gone(pid_in(&files_of(&ended.handle).join("work/pid")).await).await;
    // What a job leaves behind at its end is ended with it.
    let ended = run(&alice, &order(rigid("setsid sleep 1000 & echo $! > pid", 1, 60))).await;
    assert_eq!(ended.exit, Some(Exit::Code(0)));
    gone(pid_in(&files_of(&ended.handle).join("work/pid")).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn running_jobs_outlive_the_server_and_what_a_dead_supervisor_leaves_is_ended() {
    let Some(site) = Site::new() else { return };
    let mut federation = site.federation(&site.cluster("")).await;
    let (alice, bob) = (federation.client(ALICE), federation.client(BOB));
    let gate = federation.path().join("gate");
    let lives = submit(&alice, &order(rigid(&format!("{}; id -un", waiting_for(&gate)), 1, 600))).await;
    let hangs =
        "setsid sh -c 'echo $$ > left; exec env -u PLIANT_JOB_DIR sleep 1000' & echo $$ > pid; sleep 1000";
    let dies = submit(&bob, &order(rigid(hangs, 1, 600))).await;
    federation.reaches(&alice, &lives.handle, JobState::Active).await;
    let work = files_of(&dies.handle).join("work");
    let (pid, left) = (pid_in(&work.join("pid")).await, pid_in(&work.join("left")).await);
    federation.kill(LYON);
    let supervisor = pid_in(&federation.job_folder(&dies.handle).join("lock")).await;
    kill_process(supervisor, Signal::KILL).unwrap();
    fs::write(&gate, "").unwrap();
    federation.revive(LYON);
    let ended = alice.wait(&lives.handle, |_| {}).await.unwrap();
    assert_eq!(ended.exit, Some(Exit::Code(0)), "{ended:?}");
    assert_eq!(text(&fetched(&alice, &lives.handle).await, "stdout"), format!("{ALICE}\n"));
    let ended = bob.wait(&dies.handle, |_| {}).await.unwrap();
    assert!(matches!(ended.exit, Some(Exit::Lost(_))), "{ended:?}");
    gone(pid).await;
    // It left the session and the mark; who does that escapes, as where jobs run as the server's user.
    let _ = kill_process(left, Signal::KILL);
    // New jobs run as before.
    assert_eq!(run(&bob, &order(rigid("true", 1, 60))).await.exit, Some(Exit::Code(0)));
}

#[tokio::test(flavor = "multi_thread")]
async fn sweeps_explorations_and_launches_run_as_their_users() {
    let Some(site) = Site::new() else { return };
    let further = "\n[[service]]\nname = \"who\"\ncommand = [\"/bin/sh\", \"-c\", \"echo $(id -un) $1; echo > left-$1\", \"who\", \"{x}\"]\n\
                   speedup = \"rigid:1\"\nruntime = \"2s\"\n[service.arguments.x]\ntype = \"integer\"\n\
                   [optional]\ncores = 1\n";
    let cluster =
        Cluster { cluster_keys: "power_mflops = 1000.0\nhost_load = false", ..site.cluster(further) };
    let federation = site.federation(&cluster).await;
    let alice = CommandUser::new(&federation, ALICE);
    let (code, said_, stderr) = alice.run("sweep who --vary x=1..20 --out swept");
    assert_eq!((code, &said_["completed"]), (0, &20.into()), "{stderr}");
    let table = fs::read_to_string(alice.dir().join("swept/results.csv")).unwrap();
    assert_eq!(table.matches(&format!("{ALICE} ")).count(), 20, "{table}");
    // Scripts of theirs as well.
    let script = "#!/bin/sh\n#PLIANT --time 30s\necho $(id -un) $1 $(stat -c %U ../../script)\n";
    fs::write(alice.dir().join("own.sh"), script).unwrap();
    let (code, said_, stderr) = alice.run("sweep ./own.sh --vary x=1..20 --out own -- {x}");
    assert_eq!((code, &said_["completed"]), (0, &20.into()), "{stderr}");
    let table = fs::read_to_string(alice.dir().join("own/results.csv")).unwrap();
    assert!((1..=20).all(|x| table.contains(&format!("{ALICE} {x} {ALICE}\n"))), "{table}");
    let script = "#!/bin/sh\n#PLIANT --time 30s\necho $(id -un) $1 $(stat -c %U ../script)\n";
    fs::write(alice.dir().join("own.sh"), script).unwrap();
    let line = "explore ./own.sh --vary x=1,2,3 --min 3 --max 3 --deadline 60s --out asked -- {x}";
    let (code, _, stderr) = alice.run(line);
    assert_eq!(code, 0, "{stderr}");
    for number in 0..3 {
        let result = fs::read_to_string(alice.dir().join(format!("asked/out/{number}"))).unwrap();
        assert_eq!(result, format!("{ALICE} {} {ALICE}\n", number + 1));
    }
    let (code, said_, stderr) =
        alice.run("explore who --vary x=1,2,3 --min 3 --max 3 --deadline 60s --out explored");
    assert_eq!(code, 0, "{stderr}");
    let mut found = String::new();
    let mut folders = vec![alice.dir().join("explored")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path)
            } else {
                found += &String::from_utf8_lossy(&fs::read(path).unwrap())
            }
        }
    }
    assert!((1..=3).all(|x| found.contains(&format!("{ALICE} {x}"))), "{said_}\n{found}");
    // What else the requests have left is removed; their records and outputs stay.
    let names = || {
        let entries = fs::read_dir(spool()).unwrap().map(|entry| entry.unwrap().path());
        let requests = entries.filter(|path| path.to_string_lossy().contains("request"));
        let inner =
            requests.flat_map(|path| fs::read_dir(path).unwrap()).map(|entry| entry.unwrap().file_name());
        inner.map(|name| name.into_string().unwrap()).collect::<BTreeSet<_>>()
    };
    let outputs = BTreeSet::from(["stderr".to_owned(), "stdout".to_owned()]);
    until("the files of ended requests to be removed", async || (names() == outputs).then_some(())).await;
    // Tasks of a launch: their inputs, outputs and files.
    let folder = federation.path().join("app");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("task.sh"), "#!/bin/sh\ncat given.txt > joined\nid -un\necho $PLIANT_TASK >&2\n")
        .unwrap();
    fs::write(folder.join("given.txt"), "given\n").unwrap();
    let mut app = "mcr_mflops = 900.0\n".to_owned();
    for task in ["a", "b"] {
        app += &format!(
            "[[task]]\nname = \"{task}\"\nrcr = 1.0\nscript = \"task.sh\"\ninput = [\"given.txt\"]\n"
        );
    }
    app += "[[edge]]\nbetween = [\"a\", \"b\"]\nrqoc = 1.0\n";
    fs::write(folder.join("app.toml"), app).unwrap();
    let config = federation.client_file(Role::User, BOB);
    let out = folder.join("out");
    let words = ["launch", folder.join("app.toml").to_str().unwrap(), "--out", out.to_str().unwrap()]
        .map(str::to_owned);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (code, text, stderr) = said(pliant(&config, &words).output().unwrap());
    assert_eq!(code, 0, "{text}{stderr}");
    for task in ["a", "b"] {
        let read = |name: &str| fs::read_to_string(out.join(task).join(name)).unwrap();
        assert_eq!(read("stdout"), format!("{BOB}\n"));
        assert_eq!((read("stderr"), read("work/joined")), (format!("{task}\n"), "given\n".to_owned()));
        assert!(!out.join(task).join("work/given.txt").exists());
    }
    // A task that fails ends its launch. Its exit code is reported, and that the others were ended.
    let script = "#!/bin/sh\n[ $PLIANT_TASK = b ] || exit 3\nsleep 600\n";
    fs::write(folder.join("task.sh"), script).unwrap();
    let (code, document, stderr) = alice.run(&format!("launch {}", folder.join("app.toml").display()));
    assert_eq!((code, &document["outcome"]), (3, &"failed".into()), "{document}{stderr}");
    let ends =
        document["tasks"].as_array().unwrap().iter().map(|task| (&task["task"], &task["exit"]["code"]));
    let ends: Vec<(&str, Option<i64>)> =
        ends.map(|(task, code)| (task.as_str().unwrap(), code.as_i64())).collect();
    assert_eq!(ends, [("a", Some(3)), ("b", None)], "{document}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_of_root_does_not_run_jobs_as_root_unless_it_is_told_to() {
    if !rustix::process::geteuid().is_root() {
        pliant_testing::skip(pliant_testing::Needed::Program, "a server that runs as root (needs root)");
        return;
    }
    let mut federation = Federation::start(&[Cluster::new(LYON, 1, 1.0)]).await;
    federation.logged(LYON, &["server ready", "all jobs run as the server's own user root"]).await;
    federation.stop(LYON);
    let file = federation.folder(LYON).join("server.toml");
    let told = fs::read_to_string(&file).unwrap();
    let refused = |text: String, words: &[&str]| {
        fs::write(&file, text).unwrap();
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_pliant"));
        let (code, _, stderr) = said(command.arg("server").arg("--config").arg(&file).output().unwrap());
        assert!(code == 2 && words.iter().all(|word| stderr.contains(word)), "{code}: {stderr}");
    };
    refused(told.clone(), &["all jobs would run as root", "--allow-root"]);
    refused(told.replace("[accounts]\nmap = \"shared\"\n", ""), &["accounts", "map = \"shared\""]);
}
