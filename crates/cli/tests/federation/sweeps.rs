//! Sweeps: every instance runs and counts once while processes are killed; failed instances run again.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, Row};
use rustix::process::{Pid, Signal, kill_process};

mod arrays;
mod busy;
mod cancelled;
mod compared;
mod elsewhere;
mod inputs;
mod requeued;
mod scripts;
mod units;

use crate::harness::{
    Cluster, CommandUser, Federation, MASTER, SERVICES, document, order_to, rigid, submit, until, waiting_for,
};

/// Instances of the long test.
const INSTANCES: u32 = 2_000;

/// A service that runs a line of shell, in which its argument `x` is `$1`.
fn shell(name: &str, line: &str) -> String {
    format!(
        r#"
[[service]]
name = "{name}"
command = ["/bin/sh", "-c", "{line}", "{name}", "{{x}}"]
speedup = "rigid:1"
runtime = "2s"

[service.arguments.x]
type = "integer"
"#
    )
}

/// A cluster with such a service.
fn with_shell(name: &'static str, procs: u32, service: &str, line: &str) -> Cluster {
    Cluster { tables: SERVICES.to_owned() + &shell(service, line), ..Cluster::new(name, procs, 1.0) }
}

/// A cluster with a service that notes each of its runs in a file, and fails for 13.
fn noting(name: &'static str, procs: u32, lines: &Path) -> Cluster {
    let line = format!(
        "echo $PLIANT_INSTANCE >> {}; echo $1 squared is $(($1 * $1)); [ $1 != 13 ] || {{{{ echo unlucky >&2; exit 7; }}}}",
        lines.display()
    );
    with_shell(name, procs, "note", &line)
}

impl CommandUser {
    /// The rows of a sweep's table, by column.
    pub(crate) fn rows(&self, folder: &str) -> Vec<BTreeMap<String, String>> {
        let text = fs::read_to_string(self.dir().join(folder).join("results.csv")).unwrap();
        let mut lines = text.lines();
        let head: Vec<&str> = lines.next().unwrap().split(',').collect();
        let row = |line: &str| {
            let fields = line.split(',').map(str::to_owned);
            head.iter().map(|name| (*name).to_owned()).zip(fields).collect()
        };
        // Outputs end with their lines.
        lines.filter(|line| line.starts_with(|letter: char| letter.is_ascii_digit())).map(row).collect()
    }

    /// Some columns of a sweep's other table, as text.
    fn parquet<const COLUMNS: usize>(
        &self,
        folder: &str,
        columns: [&str; COLUMNS],
    ) -> Vec<[String; COLUMNS]> {
        let file = fs::File::open(self.dir().join(folder).join("results.parquet")).unwrap();
        let reader = SerializedFileReader::new(file).unwrap();
        let row = |row: Row| {
            let fields: BTreeMap<&String, &Field> = row.get_column_iter().collect();
            columns.map(|name| match fields[&name.to_owned()] {
                Field::Str(text) => text.clone(),
                other => other.to_string(),
            })
        };
        reader.get_row_iter(None).unwrap().map(|found| row(found.unwrap())).collect()
    }
}

/// How often each instance has run.
fn runs(lines: &Path) -> BTreeMap<u32, u32> {
    let mut runs = BTreeMap::new();
    for line in fs::read_to_string(lines).unwrap_or_default().lines() {
        *runs.entry(line.parse().unwrap()).or_default() += 1;
    }
    runs
}

#[tokio::test(flavor = "multi_thread")]
async fn every_instance_is_done_once_while_daemons_and_client_are_killed() {
    let lines = tempfile::NamedTempFile::new().unwrap();
    let lines = lines.path();
    let clusters = [noting("lyon", 2, lines), noting("nancy", 2, lines), noting("rennes", 2, lines)];
    let mut federation = Federation::start(&clusters).await;
    let alice = CommandUser::new(&federation, "alice");
    // One of them is busy until all is done.
    let (bob, gate) = (federation.client("bob"), federation.path().join("gate"));
    for _ in 0..2 {
        submit(&bob, &order_to("nancy", rigid(&waiting_for(&gate), 1, 600))).await;
    }
    let line = format!("sweep note --vary x=100..{} --out kept", 99 + INSTANCES);
    let count = || fs::read(lines).unwrap_or_default().iter().filter(|byte| **byte == b'\n').count();
    let reaches =
        async |least: usize| until("instances to run", async || (count() >= least).then_some(())).await;

    let client = alice.begin(&line);
    reaches(200).await;
    federation.kill("lyon");
    reaches(600).await;
    kill_process(Pid::from_child(&client), Signal::KILL).unwrap();
    client.wait_with_output().unwrap();
    federation.revive("lyon");
    let client = alice.begin(&line);
    reaches(900).await;
    federation.kill(MASTER);
    federation.revive(MASTER);
    let output = client.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said = document(&output.stdout);
    assert_eq!((&said["completed"], &said["resumed"]), (&INSTANCES.into(), &true.into()), "{said}");
    // The same command has nothing left to do.
    let batches = said["batches"].clone();
    let (code, said, _) = alice.run("sweep --resume kept");
    assert_eq!((code, &said["batches"], &said["retried"]), (0, &batches, &0.into()));

    let runs = runs(lines);
    assert_eq!(runs.len(), INSTANCES as usize);
    assert!(runs.values().all(|times| *times == 1), "{runs:?}");
    let rows = alice.rows("kept");
    assert_eq!(rows.len(), INSTANCES as usize);
    let mut shares: BTreeMap<&str, u32> = BTreeMap::new();
    for row in &rows {
        let x: u64 = row["x"].parse().unwrap();
        assert_eq!(row["instance"], (x - 100).to_string());
        assert_eq!((row["state"].as_str(), row["tries"].as_str()), ("completed", "1"), "{row:?}");
        assert_eq!(row["output"], format!("\"{x} squared is {}", x * x));
        *shares.entry(row["server"].as_str()).or_default() += 1;
    }
    // What waited at the busy one was taken back, and the others shared it.
    assert_eq!(shares.keys().copied().collect::<Vec<&str>>(), ["lyon", "rennes"]);
    println!("{shares:?} in {batches} jobs");
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_instances_run_again_and_the_next_sweep_knows_the_runtime() {
    let lines = tempfile::NamedTempFile::new().unwrap();
    let federation = Federation::start(&[noting("lyon", 2, lines.path())]).await;
    let alice = CommandUser::new(&federation, "alice");
    let (code, said, stderr) = alice.run("sweep note --vary x=1..40 --dry-run");
    assert_eq!(code, 0, "{stderr}");
    let share = &said["servers"][0];
    assert_eq!((&share["instances"], &share["known_from"]), (&40.into(), &"walltime".into()), "{said}");
    // The walltime is half as long again as the runtime.
    assert_eq!((&share["instance_s"], &said["makespan_s"]), (&3.0.into(), &60.0.into()));

    let (code, said, stderr) = alice.run("sweep note --vary x=1..40 --retries 1 --out kept");
    assert_eq!(code, 3, "{stderr}");
    assert!(stderr.contains("1 of 40 instances failed"), "{stderr}");
    assert_eq!((&said["completed"], &said["failed"], &said["retried"]), (&39.into(), &1.into(), &1.into()));
    let failure = &said["failures"][0];
    assert_eq!((&failure["how"], &failure["tries"]), (&"exit code 7".into(), &2.into()), "{said}");
    assert_eq!((&failure["error"], &failure["values"][0]), (&"unlucky\n".into(), &"13".into()));
    assert_eq!(runs(lines.path())[&12], 2);
    let of_csv = alice
        .rows("kept")
        .into_iter()
        .map(|row| ["instance", "x", "state", "tries"].map(|name| row[name].clone()));
    assert_eq!(alice.parquet("kept", ["instance", "x", "state", "tries"]), of_csv.collect::<Vec<_>>());

    let (_, said, _) = alice.run("sweep note --vary x=1..40 --dry-run");
    let share = &said["servers"][0];
    assert!(share["known_from"].as_str().unwrap().ends_with("jobs"), "{said}");
    assert!(share["instance_s"].as_f64().unwrap() < 1.0, "{said}");
    for (line, words) in [
        ("sweep note --vary x=1..40 --out kept --vary x=1..2", "`x` twice"),
        ("sweep note --vary x=1..41 --out kept", "arguments: expected x=1..41, found x=1..40"),
        ("sweep note --out other", "expected --vary KEY=VALUES or --vary-file FILE"),
        ("sweep note --vary y=1,2 --out other", "`y`"),
        ("sweep nothing --vary y=1,2 --out third", "no server accepts the work"),
        ("sweep --resume nowhere", "expected a folder of a sweep or an exploration"),
        ("sweep note --vary x=1..40 --retries 3 --out kept", "--retries: expected 3, found 1"),
        (
            "sweep note --vary x=1..40 --retries 1 --allocate random --out kept",
            "--allocate: expected random, found statistics",
        ),
        ("sweep note --vary x=40:1:1 --out other", "expected a step that leads"),
    ] {
        let (code, _, stderr) = alice.run(line);
        assert!(code == 2 && stderr.contains(words), "{line}: {code}: {stderr}");
    }
    assert!(!alice.dir().join("nowhere").exists(), "nothing is made to go on with");
    let bob = alice.become_user(&federation, "bob");
    let (code, _, stderr) = bob.run("sweep --resume kept");
    assert!(code == 2 && stderr.contains("user: expected bob, found alice"), "{code}: {stderr}");
}

#[tokio::test(flavor = "multi_thread")]
async fn instances_over_their_walltime_and_lost_instances_are_reported() {
    let slow = r#"
[[service]]
name = "slow"
command = ["/bin/sh", "-c", "[ $1 != 2 ] || sleep 1000; [ $1 != 4 ] || kill -9 $PPID", "slow", "{x}"]
speedup = "rigid:1"
runtime = "1s"
walltime_factor = 1.0

[service.arguments.x]
type = "integer"
max = 6
"#;
    let cluster = Cluster { tables: SERVICES.to_owned() + slow, ..Cluster::new("lyon", 1, 1.0) };
    let federation = Federation::start(&[cluster]).await;
    let alice = CommandUser::new(&federation, "alice");
    let (code, said, stderr) = alice.run("sweep slow --vary x=1..5 --retries 0 --out kept");
    assert_eq!(code, 3, "{stderr}");
    // Number 4 ends its batch, with all other instances in it.
    let hows: BTreeMap<String, String> = (said["failures"].as_array().unwrap().iter())
        .map(|row| (row["values"][0].as_str().unwrap().to_owned(), row["how"].as_str().unwrap().to_owned()))
        .collect();
    assert_eq!(hows["2"], "over its walltime", "{said}");
    assert!(hows["4"].starts_with("its job ended before it: "), "{said}");
    assert_eq!(said["failed"], hows.len(), "each is listed: {said}");
    assert!(!hows.contains_key("1") && !hows.contains_key("3"), "{said}");

    // Of a batch that is refused for one of its instances the others are run, also if servers are asked about that one first.
    for (out, values, bad) in [("among", "1,3,5,6,7,1,3", 4), ("first", "7,1,3", 0)] {
        let (code, said, stderr) = alice.run(&format!("sweep slow --vary x={values} --out {out}"));
        assert!(code == 3 && stderr.contains("1 of "), "{out}: {code}: {stderr}");
        let failure = &said["failures"][0];
        assert_eq!((&said["failed"], &failure["instance"]), (&1.into(), &bad.into()), "{said}");
        assert!(failure["how"].as_str().unwrap().starts_with("no server accepts it; lyon: "), "{said}");
        for [instance, state, tries] in alice.parquet(out, ["instance", "state", "tries"]) {
            let expected = if instance == bad.to_string() { ("failed", "0") } else { ("completed", "1") };
            assert_eq!((state.as_str(), tries.as_str()), expected, "{out}: {instance}");
        }
        // That was for good.
        let (code, again, _) = alice.run(&format!("sweep --resume {out}"));
        assert_eq!((code, &again["batches"], &again["failures"]), (3, &said["batches"], &said["failures"]));
    }
    let (code, _, stderr) = alice.run("sweep slow --vary x=7,8,9 --out none");
    assert!(code == 2 && stderr.contains("no server accepts the work"), "{code}: {stderr}");
}
