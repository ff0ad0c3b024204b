//! axe-core, with which tests check the web pages for accessibility: downloaded from the registry of npm, for tests only.

use std::path::PathBuf;

use crate::machine;
use crate::packages;
use crate::step::{Step, workspace_root};

/// The variable that names the script for tests.
pub(crate) const VARIABLE: &str = "PLIANT_AXE";
/// The version, so that the same pages pass everywhere.
const VERSION: &str = "4.10.3";

/// The script: that of the variable, one that was downloaded before, or downloaded now where npm is or can be installed. Says so if
/// there is none.
pub(crate) fn prepare() -> Option<PathBuf> {
    let named = std::env::var_os(VARIABLE).map(PathBuf::from);
    let script = named.or_else(downloaded).filter(|path| path.is_file());
    match &script {
        Some(path) => eprintln!("accessibility of web pages: axe-core, {}", path.display()),
        None => {
            eprintln!("skipped: axe-core (no npm, or no registry); the checks of the tests themselves remain")
        }
    }
    script
}

fn downloaded() -> Option<PathBuf> {
    let folder = workspace_root().join("target").join(format!("axe-core-{VERSION}"));
    let script = folder.join("package").join("axe.min.js");
    if script.is_file() {
        return Some(script);
    }
    if machine::find_program(&["npm"]).is_none() {
        packages::install("npm");
    }
    machine::find_program(&["npm"])?;
    std::fs::create_dir_all(&folder).ok()?;
    let package = format!("axe-core@{VERSION}");
    let pack = Step::new("npm", &["pack", "--silent", "--ignore-scripts", &package]).dir(&folder);
    let archive = format!("axe-core-{VERSION}.tgz");
    let unpack = Step::new("tar", &["-xzf", &archive, "package/axe.min.js"]).dir(&folder);
    if let Err(failure) = pack.run().and_then(|()| unpack.run()) {
        eprintln!("xtask: {failure}");
        return None;
    }
    Some(script)
}
