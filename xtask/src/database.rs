//! The database server that the tests of the journal start for themselves: found, or installed, or said to be absent.

use std::fs;
use std::path::{Path, PathBuf};

use crate::{machine, packages};

/// Where Debian puts it, a folder for each version: not on the search path.
const VERSIONS: &str = "/usr/lib/postgresql";
/// The programs that the tests start.
const PROGRAMS: &[&str] = &["initdb", "postgres"];

/// Makes sure that there is a server if this machine lets us, and says what will be tested.
pub(crate) fn prepare() {
    if find().is_none() {
        packages::install("postgresql");
    }
    match find() {
        Some(folder) => eprintln!("database: {}", folder.display()),
        None => eprintln!("skipped: tests of the journal in PostgreSQL (no initdb and postgres)"),
    }
}

/// The folder of its programs.
fn find() -> Option<PathBuf> {
    let search_path = std::env::var_os("PATH").unwrap_or_default();
    find_in(Path::new(VERSIONS), std::env::split_paths(&search_path))
}

/// The latest version that has all programs, or the first folder of the search path that does.
fn find_in(versions: &Path, search_path: impl Iterator<Item = PathBuf>) -> Option<PathBuf> {
    let listed = fs::read_dir(versions).into_iter().flatten().flatten();
    let mut numbered: Vec<(u32, PathBuf)> = listed
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path().join("bin"))))
        .collect();
    numbered.sort();
    let installed = numbered.into_iter().rev().map(|(_, folder)| folder);
    let is_whole = |folder: &PathBuf| PROGRAMS.iter().all(|name| machine::is_program(&folder.join(name)));
    installed.chain(search_path).find(is_whole)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_latest_whole_version_is_found_then_the_search_path() {
        let root = std::env::temp_dir().join(format!("xtask-database-{}", std::process::id()));
        let place = |file: &str| {
            let file = root.join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(&file, "").unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        };
        let check = |expected: Option<&str>| {
            let search_path = [root.join("absent"), root.join("path")];
            let found = find_in(&root.join("versions"), search_path.into_iter());
            assert_eq!(found, expected.map(|folder| root.join(folder)));
        };
        check(None);
        place("path/initdb");
        check(None);
        place("path/postgres");
        check(Some("path"));
        place("versions/9/bin/initdb");
        place("versions/9/bin/postgres");
        check(Some("versions/9/bin"));
        place("versions/15/bin/initdb");
        place("versions/15/bin/postgres");
        place("versions/common/bin/postgres");
        check(Some("versions/15/bin"));
        // A client alone is no server.
        place("versions/16/bin/initdb");
        check(Some("versions/15/bin"));
        fs::remove_dir_all(&root).unwrap();
    }
}
