//! Interpreters of Python on this machine: one of each version that the package is for.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::step::Step;

/// The oldest version that the package is for: 3.9.
const OLDEST: (u32, u32) = (3, 9);
/// What an interpreter says of itself: it can make environments. Other kinds of Python than CPython are left out.
const PROBE: &str = "import sys, venv, ensurepip; assert sys.implementation.name == 'cpython'; \
                     print(*sys.version_info[:2])";

/// An interpreter with its version.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Interpreter {
    /// Such as (3, 9).
    pub(crate) version: (u32, u32),
    pub(crate) program: PathBuf,
}

impl Interpreter {
    /// The interpreter that this program is, if it has the modules for environments.
    pub(crate) fn of(program: &Path) -> Option<Interpreter> {
        let printed = Step::new(program, &["-c", PROBE]).output()?;
        Some(Interpreter { version: parsed(&printed)?, program: program.to_owned() })
    }

    /// The name of a folder for it.
    pub(crate) fn name(&self) -> String {
        format!("{}.{}", self.version.0, self.version.1)
    }
}

/// The version in the answer of an interpreter.
fn parsed(printed: &str) -> Option<(u32, u32)> {
    let (major, minor) = printed.trim_end().split_once(' ')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// An interpreter of each further version than that one: programs `python3.N` on the search path, and those of pyenv.
pub(crate) fn further(than: &Interpreter) -> Vec<Interpreter> {
    let on_path = std::env::var_os("PATH").unwrap_or_default();
    let mut programs: Vec<PathBuf> =
        std::env::split_paths(&on_path).flat_map(|folder| programs_in(&folder)).collect();
    let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".pyenv"));
    if let Some(pyenv) = std::env::var_os("PYENV_ROOT").map(PathBuf::from).or(home) {
        for version in entries(&pyenv.join("versions")) {
            programs.extend(programs_in(&version.join("bin")));
        }
    }
    let found: Vec<Interpreter> = programs.iter().filter_map(|program| Interpreter::of(program)).collect();
    one_of_each(found, than.version)
}

/// The first interpreter of each version but one.
fn one_of_each(found: Vec<Interpreter>, but: (u32, u32)) -> Vec<Interpreter> {
    let mut versions = BTreeMap::new();
    for interpreter in found {
        if interpreter.version >= OLDEST && interpreter.version != but {
            versions.entry(interpreter.version).or_insert(interpreter);
        }
    }
    versions.into_values().collect()
}

/// The programs `python3.N` of a folder.
fn programs_in(folder: &Path) -> Vec<PathBuf> {
    let mut programs = entries(folder);
    programs.retain(|path| path.file_name().is_some_and(is_versioned));
    programs
}

fn is_versioned(name: &OsStr) -> bool {
    let minor = name.to_str().and_then(|name| name.strip_prefix("python3."));
    minor.is_some_and(|minor| !minor.is_empty() && minor.bytes().all(|byte| byte.is_ascii_digit()))
}

/// What is in a folder, in order; nothing if it cannot be read.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let read = std::fs::read_dir(folder).into_iter().flatten();
    let mut paths: Vec<PathBuf> = read.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_with_a_minor_version_alone_are_interpreters() {
        let names =
            ["python3.9", "python3.13", "python3", "python3.9-config", "python2.7", "python3.", "pip3.9"];
        let found: Vec<&str> = names.into_iter().filter(|name| is_versioned(OsStr::new(name))).collect();
        assert_eq!(found, ["python3.9", "python3.13"]);
    }

    #[test]
    fn an_answer_is_a_version() {
        assert_eq!(parsed("3 9\n"), Some((3, 9)));
        for wrong in ["", "3\n", "3 x\n", "3.9\n"] {
            assert_eq!(parsed(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn each_further_version_is_there_once() {
        let interpreter =
            |minor, program: &str| Interpreter { version: (3, minor), program: PathBuf::from(program) };
        let found = vec![
            interpreter(13, "/a"),
            interpreter(8, "/b"),
            interpreter(11, "/c"),
            interpreter(13, "/d"),
            interpreter(9, "/e"),
        ];
        assert_eq!(one_of_each(found, (3, 11)), [interpreter(9, "/e"), interpreter(13, "/a")]);
    }
}
