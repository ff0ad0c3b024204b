//! The commands of README.md, with real daemons on this machine: an agent and three servers.
#![allow(clippy::unwrap_used, reason = "a failed call fails the test that made it")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use pliant_testing::Needed;

const PROGRAM: &str = env!("CARGO_BIN_EXE_threshold-pivoting");

/// The command of the workspace, which a build of all of it puts beside this package's.
fn pliant() -> Option<PathBuf> {
    let path = Path::new(PROGRAM).with_file_name("pliant");
    if path.exists() {
        return Some(path);
    }
    pliant_testing::skip(Needed::Program, "no `pliant` beside the example: cargo build -p pliant makes it");
    None
}

/// A folder to work in, and the federation in it, which ends with the test.
struct Here {
    pliant: PathBuf,
    dir: tempfile::TempDir,
}

impl Drop for Here {
    fn drop(&mut self) {
        self.run(&self.pliant, "down --dir federation");
    }
}

impl Here {
    /// Runs a command that must succeed; what it printed.
    fn run(&self, program: &Path, words: &str) -> String {
        let output =
            Command::new(program).args(words.split(' ')).current_dir(self.dir.path()).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words}: {stderr}");
        String::from_utf8(output.stdout).unwrap()
    }
}

#[test]
fn thresholds_are_explored_and_drawn() {
    let Some(pliant) = pliant() else { return };
    let here = Here { pliant: pliant.clone(), dir: tempfile::tempdir().unwrap() };
    let own = Path::new(PROGRAM);
    fs::write(here.dir.path().join("services.toml"), here.run(own, "service")).unwrap();
    here.run(&pliant, "up --dir federation --services services.toml");
    let client = "--config federation/client.toml --format json";
    // It ends early: there are no more thresholds than there is time for.
    let explored = here.run(
        &pliant,
        &format!(
            "explore factorise unknowns=144 --vary point=0..23 --min 3 --deadline 2m --out result {client}"
        ),
    );
    let explored: serde_json::Value = serde_json::from_str(&explored).unwrap();
    let completed = (&explored["mandatory"]["completed"], &explored["optional"]["completed"]);
    assert_eq!(completed, (&3.into(), &21.into()), "{explored}");

    let said = here.run(own, "plot result --out figures");
    assert!(said.starts_with("24 thresholds, 144 unknowns"), "{said}");
    let figure = |name: &str| fs::read_to_string(here.dir.path().join("figures").join(name)).unwrap();
    assert_eq!(figure("fill-in.svg").matches("<circle").count(), 24);
    let error = figure("backward-error.svg");
    assert!(error.contains("pivot threshold") && error.matches("<circle").count() > 20, "{error}");
    // The first one is partial pivoting, whose error is of the size of rounding.
    let first: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(here.dir.path().join("result/out/0")).unwrap()).unwrap();
    assert_eq!(first["threshold"], 1.0);
    assert!(first["backward_error"].as_f64().unwrap() < 1e-10, "{first}");
}
