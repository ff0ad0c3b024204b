//! Running the command and looking at what it says.
#![allow(clippy::unwrap_used, reason = "a failed call fails the test that made it")]
#![allow(dead_code, reason = "each test binary uses its own part")]

pub(crate) mod schemas;

use std::path::Path;
use std::process::{Command, Output};

/// The command, not yet run.
pub(crate) fn pliant(arguments: &[&str], dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pliant"));
    command.args(arguments).current_dir(dir).env_remove("RAYON_NUM_THREADS").env_remove("PLIANT_TRACES");
    command
}

/// What one call did.
pub(crate) struct Said {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Said {
    pub(crate) fn of(Output { status, stdout, stderr }: Output) -> Said {
        let stderr = String::from_utf8(stderr).unwrap();
        assert!(!stderr.contains("internal error") && !stderr.contains("panicked"), "{stderr}");
        Said { code: status.code().unwrap(), stdout: String::from_utf8(stdout).unwrap(), stderr }
    }

    /// The document that `--format json` printed, which is as its schema says.
    pub(crate) fn json(&self) -> serde_json::Value {
        assert_eq!(self.code, 0, "{}", self.stderr);
        schemas::document(&self.stdout)
    }
}

/// Runs the command in `dir`.
pub(crate) fn run(arguments: &[&str], dir: &Path) -> Said {
    Said::of(pliant(arguments, dir).output().unwrap())
}

/// Runs the words of a line in `dir`.
pub(crate) fn call(dir: &Path, line: &str) -> Said {
    run(&line.split_whitespace().collect::<Vec<_>>(), dir)
}

/// The same, with success.
pub(crate) fn go(dir: &Path, line: &str) -> Said {
    let said = call(dir, line);
    assert_eq!(said.code, 0, "{line}: {}", said.stderr);
    said
}

/// A failed call: its exit code and words of the error and the hint.
pub(crate) fn refused(said: &Said, what: &str, code: i32, error: &str, hint: &str) {
    assert_eq!((said.code, said.stdout.as_str()), (code, ""), "{what}: {}", said.stderr);
    assert!(said.stderr.starts_with("error: ") && said.stderr.contains(error), "{what}: {}", said.stderr);
    assert!(said.stderr.contains(hint), "{what}: {}", said.stderr);
}

/// A log of `jobs` jobs on up to 16 processors, in SWF.
pub(crate) fn swf(jobs: i64) -> String {
    let mut log = String::from("; Version: 2.2\n; MaxProcs: 32\n");
    for job in 1..=jobs {
        let (submit, run, procs) = (job * 37, 60 + job * 997 % 3000, 1 + job * 7 % 16);
        let walltime = run * 2;
        log.push_str(&format!(
            "{job} {submit} -1 {run} {procs} -1 -1 {procs} {walltime} -1 1 1 1 1 1 1 -1 -1\n"
        ));
    }
    log
}

/// Three clusters.
pub(crate) const PLATFORM: &str = r#"[[cluster]]
name = "a"
procs = 16
speed = 1.0
batch = "cbf"

[[cluster]]
name = "b"
procs = 24
speed = 1.2
batch = "cbf"

[[cluster]]
name = "c"
procs = 32
speed = 1.4
batch = "cbf"
"#;

/// A folder with a log and a platform.
pub(crate) fn folder() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("log.swf"), swf(200)).unwrap();
    std::fs::write(dir.path().join("three.toml"), PLATFORM).unwrap();
    dir
}

/// Two shards of a campaign, joined, have the same bytes in these files as the folder `whole`.
pub(crate) fn same_from_shards(file: &str, whole: &str, files: &[&str], dir: &Path) {
    for arguments in [
        &["campaign", "run", file, "--out", "part-1", "--shard", "1/2"][..],
        &["campaign", "run", file, "--out", "part-2", "--shard", "2/2", "--quiet"],
        &["campaign", "merge", "--out", "joined", "part-1", "part-2"],
        &["campaign", "show", "part-1"],
        &["report", "part-1"],
        &["report", "joined"],
    ] {
        let said = run(arguments, dir);
        assert_eq!(said.code, 0, "{arguments:?}: {}", said.stderr);
        let is_part =
            ["show", "report"].iter().any(|verb| arguments.contains(verb)) && arguments.contains(&"part-1");
        assert_eq!(
            said.stderr.contains("are missing: the results are of the others"),
            is_part,
            "{}",
            said.stderr
        );
    }
    for name in files {
        let [whole, joined] =
            [whole, "joined"].map(|folder| std::fs::read(dir.join(folder).join(name)).unwrap());
        assert!(whole == joined, "{name} differs");
    }
}
