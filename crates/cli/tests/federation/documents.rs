//! Every document of a verb that talks to a federation is as its schema in `schemas/` says.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;

use pliant_control::job::JobState;
use pliant_control::names::Handle;
use serde_json::Value;

use crate::harness::*;
use crate::schemas::{OF_FEDERATIONS, Seen};

/// The master agent measures links all the time, with few bytes.
const PROBES: &str = "\n[probes]\npause_s = 1\nbytes = 65536\nlimit_s = 1\n";

/// A service that fails for 2, and cores for explorations.
const TABLES: &str = r#"
[[service]]
name = "odd"
command = ["/bin/sh", "-c", "[ $1 != 2 ] || exit 7", "odd", "{x}"]
speedup = "rigid:1"
runtime = "2s"

[service.arguments.x]
type = "integer"

[[service]]
name = "succ"
signature = ["in int n", "out int m"]
command = ["/usr/bin/expr", "{n}", "+", "1"]
speedup = "rigid:1"
runtime = "1s"

[service.parameters.m]
output = "stdout"

[optional]
cores = 1
"#;

/// Two tasks that wait for a file.
fn application(folder: &Path) {
    let mut text = "mcr_mflops = 300.0\n".to_owned();
    for name in ["a", "b"] {
        text += &format!(
            "[[task]]\nname = \"{name}\"\nrcr = 1.0\nscript = \"task.sh\"\narguments = [\"gate\"]\n"
        );
    }
    text += "[[edge]]\nbetween = [\"a\", \"b\"]\nrqoc = 1.0\n";
    let gate = folder.join("gate");
    fs::write(folder.join("task.sh"), format!("#!/bin/sh\n{}\necho done\n", waiting_for(&gate))).unwrap();
    fs::write(folder.join("app.toml"), text).unwrap();
}

/// A user of the command line, and the documents that the user has seen.
struct Reader {
    user: CommandUser,
    seen: Seen,
}

impl Reader {
    fn new(user: CommandUser) -> Reader {
        fs::write(user.dir().join("job.sh"), "#!/bin/sh\nexec sleep 1000\n").unwrap();
        application(user.dir());
        Reader { user, seen: Seen::default() }
    }

    /// The document of a verb.
    fn run(&mut self, line: &str) -> Value {
        self.ends(line, 0)
    }

    /// The document of a verb that ends with that code.
    fn ends(&mut self, line: &str, expected: i32) -> Value {
        let (code, document, stderr) = self.user.run(line);
        assert_eq!(code, expected, "{line}: {stderr}");
        self.seen.note(&document);
        document
    }

    /// The document of a verb that keeps something in the user's state folder, which is one of the test's own here.
    fn keeps(&mut self, line: &str) {
        let mut command = self.user.command(line);
        let output = command.env("XDG_STATE_HOME", self.user.dir().join("state")).output().unwrap();
        let (code, text, stderr) = said(output);
        assert_eq!(code, 0, "{line}: {stderr}");
        self.seen.note(&document(text));
    }

    /// The document of a verb that goes on after it; it is ended.
    fn begins(&mut self, line: &str) {
        let mut child = self.user.begin(line);
        let mut text = String::new();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        while serde_json::from_str::<Value>(&text).is_err() {
            text += &lines.next().unwrap().unwrap();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        self.seen.note(&document(text.as_bytes()));
    }

    /// Waits until the document of a verb is as it must be once all is reported.
    async fn shows(&mut self, line: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        until(line, async || Some(self.run(line)).filter(&is_so)).await
    }

    /// Submits a job that sleeps, and returns its ID.
    fn sleeps(&mut self, options: &str) -> String {
        let job = self.run(&format!("submit --script job.sh {options}"));
        job["job_id"].as_str().unwrap().to_owned()
    }
}

/// Jobs that run, wait, are moved, cancelled and have ended.
async fn jobs(federation: &Federation, reader: &mut Reader) {
    let client = federation.client("root");
    fs::write(reader.user.dir().join("short.sh"), "#!/bin/sh\n").unwrap();
    reader.ends("submit ./short.sh ./short.sh --time 1m --wait --server-timeout 1s --server nowhere", 2);
    reader.run("submit ./short.sh ./short.sh --time 1m --wait");
    let done = reader.run("submit say text=hi --out out");
    assert_eq!((&done["state"], &done["files"][0]["name"]), (&"COMPLETED".into(), &"stdout".into()));
    let done = reader.run("submit say text=hi --wait")["job_id"].as_str().unwrap().to_owned();
    assert_eq!(reader.run("call succ n=41")["values"]["m"]["text"], "42");
    let would = reader.run("submit say text=hi --dry-run --wait");
    let servers: Vec<&Value> =
        would["estimates"].as_array().unwrap().iter().map(|offer| &offer["server"]).collect();
    assert_eq!((servers.len(), servers[0]), (2, &would["chosen"]), "{would}");
    let refused = reader.ends("submit --script job.sh --time 1m --rigid 5 --dry-run", 2);
    assert_eq!((&refused["chosen"], &refused["refusals"][1]["cause"]), (&Value::Null, &"too-large".into()));
    let (code, _, error) = reader.user.run("submit say text=hi --dry-run --server rome");
    assert!(code == 2 && error.contains("--server: expected a server of the federation"), "{error}");
    let longer = reader.sleeps("--time 50m --rigid 2 --server lyon");
    let shorter = reader.sleeps("--time 40m --rigid 2 --server paris");
    for running in [&longer, &shorter] {
        let handle: Handle = running.parse().unwrap();
        federation.reaches(&client, &handle, JobState::Active).await;
    }
    let free = |servers: &Value, at: usize| servers["servers"][at]["free_procs"].clone();
    reader.shows("servers", |servers| [0, 1].iter().all(|at| free(servers, *at) == 0)).await;
    let waiting = reader.sleeps("--time 5m --rigid 2");
    assert!(waiting.starts_with("paris."), "paris is expected to be free first");
    let held = reader.run(&format!("admin hold {waiting} --why maintenance"));
    assert_eq!(held["jobs"][0]["job_id"], waiting.as_str());
    reader.run(&format!("admin release {waiting} --why done"));

    assert!(!reader.run(&format!("explain {waiting}"))["waits"].is_null());
    for job in [&done, &shorter] {
        assert!(reader.run(&format!("explain {job}"))["waits"].is_null());
    }
    let shown = reader.run(&format!("status {done} {shorter} {waiting}"));
    assert_eq!(shown["jobs"].as_array().unwrap().len(), 3);
    assert_eq!(reader.ends(&format!("wait {waiting} --timeout 1s"), 4)["not_ended"][0], waiting.as_str());
    reader.run(&format!("wait {done}"));
    assert_eq!(reader.run(&format!("logs {done}"))["text"], "<hi>");
    assert_eq!(reader.run(&format!("logs {done} --stderr"))["stream"], "stderr");
    reader.run(&format!("fetch {done} --out again"));
    reader.shows("queue", |queue| queue["jobs"].as_array().unwrap().len() == 3).await;

    reader.begins("web --no-open");
    reader.keeps("token create --read --for 1h");
    reader.keeps("token revoke");
    assert!(reader.run("reallocate --show")["moving"].is_null());
    reader.run("reallocate --set algorithm=regular period=1d early=off");
    reader.run(&format!("cancel {longer}"));
    reader.ends(&format!("wait {longer}"), 3);
    let dry = reader.run("reallocate --dry-run");
    assert_eq!(
        (&dry["proposals"][0]["job_id"], &dry["moving"]["algorithm"]),
        (&waiting.as_str().into(), &"regular".into())
    );
    assert_eq!(reader.run("reallocate")["proposals"][0]["moved"], true);
    reader.run("reallocate --reset");
    assert_eq!(reader.run("admin drain lyon --why maintenance")["drained"]["by"], "root");
    assert!(reader.run("admin resume lyon --why done")["drained"].is_null());
    assert_eq!(reader.run("admin ban mallory --why mischief")["servers"][0]["banned"]["by"], "root");
    assert_eq!(reader.run("admin ban")["bans"][0]["user"], "mallory");
    assert!(reader.run("admin unban mallory --why done")["servers"][0]["banned"].is_null());
    let (code, document, stderr) =
        crate::restored::back_up(&federation.folder("lyon").join("state"), &reader.user.dir().join("backup"));
    assert_eq!(code, 0, "{stderr}");
    reader.seen.note(&crate::schemas::document(&document));
    let limit = "admin limit mallory processors=4 waiting-bytes=none --why mischief";
    assert_eq!(reader.run(limit)["limits"][0]["processors"], 4);
    assert!(reader.run("admin limit mallory processors=none --why done")["limits"][0]["by"].is_null());
    assert_eq!(reader.run("admin log")["records"][0]["act"], "accept");
    reader.shows("queue --moves", |moves| moves["moves"][0]["job_id"] == waiting.as_str()).await;
    assert_eq!(reader.run(&format!("explain {waiting}"))["moves"].as_array().unwrap().len(), 1);
    reader.run(&format!("cancel {waiting} {shorter}"));
    reader.ends(&format!("wait {waiting} {shorter}"), 3);
    assert!(reader.run("queue --ended --last 2")["more"].as_bool().unwrap());
}

/// Sweeps and explorations, and what is known of them.
fn multi_jobs(reader: &mut Reader) {
    assert!(reader.run("sweep odd --vary x=1,3 --dry-run")["servers"][0]["instances"].is_u64());
    let failed = reader.ends("sweep odd --vary x=1..4 --retries 0 --out swept", 3);
    assert_eq!(failed["failures"][0]["values"][0], "2");
    reader.run("explore say --vary text=one,two,three --min 1 --deadline 10s --out explored");
    let results = document(fs::read(reader.user.dir().join("explored/results.json")).unwrap());
    reader.seen.note(&results);
    assert_eq!(results["results"].as_array().unwrap().len(), 3);
    let folders = reader.run("cancel swept explored");
    assert_eq!([0, 1].map(|at| folders["folders"][at]["kind"].clone()), ["sweep", "exploration"]);
    assert_eq!(reader.run("users")["users"][0]["completed"], 3);
}

/// Launches that run, complete and are ended.
async fn launches(reader: &mut Reader) {
    assert_eq!(reader.run("launch app.toml --dry-run")["outcome"], "mapped");
    let id = |launch: &Value| launch["launch"].as_str().unwrap().to_owned();
    let running = id(&reader.run("launch app.toml --detach"));
    let is_running = |listed: &Value| listed["launches"][0]["state"] == "running";
    reader.shows(&format!("launch list {running}"), is_running).await;
    let spawned = reader.run(&format!("launch spawn {running} --name c --edge a=1 --script task.sh"));
    assert_eq!((&spawned["task"], &spawned["tasks"][0]), (&"c".into(), &"c".into()));
    assert_eq!(reader.run("launch list")["launches"][0]["launch"], running.as_str());
    let held = reader.run("launch subjobs");
    let server = held["subjobs"][0]["server"].as_str().unwrap().to_owned();
    let ended = reader.run(&format!("launch subjobs --server {server} --end {running}"));
    assert_eq!(ended["ended"][0]["server"], server.as_str());
    assert_eq!(reader.run(&format!("cancel {running}"))["launches"][0]["launch"], running.as_str());

    fs::write(reader.user.dir().join("gate"), "").unwrap();
    let completed = reader.run("launch app.toml --out tasks");
    assert_eq!((&completed["outcome"], &completed["fetched"][0]["task"]), (&"completed".into(), &"a".into()));
    let fetched = reader.run(&format!("fetch {} --out tasks-again", id(&completed)));
    assert_eq!(fetched["launches"][0]["fetched"].as_array().unwrap().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_document_of_a_federation_is_as_its_schema_says() {
    let mut federation = Federation::agent_only(PROBES);
    for name in ["lyon", "paris"] {
        let plain = Cluster::new(name, 2, 1.0);
        let cluster_keys = "power_mflops = 1000.0\nhost_load = false";
        federation.add_server(&Cluster { cluster_keys, tables: SERVICES.to_owned() + TABLES, ..plain });
    }
    federation.sized(2).await;
    let mut reader = Reader::new(CommandUser::operator(&federation));
    jobs(&federation, &mut reader).await;
    multi_jobs(&mut reader);
    launches(&mut reader).await;

    let every = "servers --services --accuracy --runtimes --links";
    reader.shows(every, |servers| !servers["links"].as_array().unwrap().is_empty()).await;
    let now = reader
        .run("what-if --since 1h --schedule --policy regular/minmin,period=5m --policy none,tuner=exact");
    assert_eq!(now["replayed"].as_array().unwrap().len(), 3);
    assert_eq!(now["schedules"].as_array().unwrap().len(), 4, "what happened comes first");
    let file = federation.folder(MASTER).join("agent.toml");
    let check = std::process::Command::new(env!("CARGO_BIN_EXE_pliant"))
        .args(["--format", "json", "agent", "--check"])
        .arg(file)
        .output();
    reader.seen.note(&document(check.unwrap().stdout));

    // One that is down.
    federation.stop("paris");
    federation.attached(1).await;
    let left = reader.shows(every, |servers| servers["servers"][0]["free_procs"] == 2).await;
    assert_eq!([0, 1].map(|at| left["servers"][at]["attached"].clone()), [true, false]);
    assert_eq!(left["servers"][1]["free_procs"], Value::Null);
    assert_eq!(reader.run("admin forget paris --why gone")["server"], "paris");
    reader.seen.are(&OF_FEDERATIONS);
}
