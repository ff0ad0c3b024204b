//! Where the real workload logs are, so that a test run says beforehand what it will leave out.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::step::{Step, workspace_root};

/// The variable that names the directory of the logs.
const VARIABLE: &str = "PLIANT_TRACES";

/// The result of looking for the logs.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Logs {
    /// The directory looked at, absolute.
    directory: PathBuf,
    /// How many SWF files it holds.
    count: usize,
}

impl Logs {
    /// Those of this run: where the variable says, relative to the present folder.
    pub(crate) fn of_this_run() -> Logs {
        let from = std::env::current_dir().unwrap_or_else(|_| workspace_root().to_owned());
        find(std::env::var_os(VARIABLE), &from, workspace_root())
    }

    /// A step that finds them. Tests run in folders of their own, where a relative path would lead elsewhere.
    pub(crate) fn given_to(&self, step: Step) -> Step {
        match self.count {
            0 => step,
            _ => step.env(VARIABLE, &self.directory),
        }
    }
}

/// Looks where `named` says (relative to `from`) or, if it says nothing, beside the workspace.
fn find(named: Option<OsString>, from: &Path, workspace_root: &Path) -> Logs {
    let directory = match named.filter(|name| !name.is_empty()) {
        Some(name) => from.join(name),
        None => workspace_root.join("../shared/traces"),
    };
    let directory = directory.canonicalize().unwrap_or(directory);
    let count = std::fs::read_dir(&directory).map_or(0, |entries| {
        entries.flatten().filter(|entry| is_log(&entry.file_name().to_string_lossy())).count()
    });
    Logs { directory, count }
}

fn is_log(name: &str) -> bool {
    name.ends_with(".swf") || name.ends_with(".swf.gz")
}

impl std::fmt::Display for Logs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let directory = self.directory.display();
        match self.count {
            0 => write!(
                f,
                "skipped: tests on real logs (no .swf or .swf.gz file in {directory}; set {VARIABLE})"
            ),
            count => write!(f, "real logs: {count} files in {directory}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_wins_and_absence_is_said() {
        let root = std::env::temp_dir().join(format!("xtask-logs-{}", std::process::id()));
        let workspace = root.join("pliant");
        for directory in ["pliant", "mine", "shared/traces"] {
            std::fs::create_dir_all(root.join(directory)).unwrap();
        }
        for file in ["mine/A.swf", "mine/B.swf.gz", "mine/INDEX.md", "shared/traces/C.swf.gz"] {
            std::fs::write(root.join(file), "").unwrap();
        }
        let root = root.canonicalize().unwrap();
        let check = |named: Option<&str>, directory: &str, said: &str| {
            let found = find(named.map(OsString::from), &root, &workspace);
            assert_eq!(found.directory, root.join(directory), "{named:?}");
            assert!(found.to_string().starts_with(said), "{named:?}: {found}");
        };
        check(None, "shared/traces", "real logs: 1 files");
        check(Some(""), "shared/traces", "real logs: 1 files");
        check(Some("mine"), "mine", "real logs: 2 files");
        check(Some("absent"), "absent", "skipped: tests on real logs (no .swf or .swf.gz file in ");
        std::fs::remove_dir_all(&root).unwrap();
    }
}
