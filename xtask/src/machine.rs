//! What this machine has: programs on the search path, the right to install packages, toolchains.

use std::ffi::OsStr;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::step::Step;

/// The first of `names` that the present search path finds.
pub(crate) fn find_program(names: &[&str]) -> Option<PathBuf> {
    find_in(&std::env::var_os("PATH")?, names)
}

/// Names are tried in their order, each in every directory of the search path.
fn find_in(search_path: &OsStr, names: &[&str]) -> Option<PathBuf> {
    names.iter().find_map(|name| {
        std::env::split_paths(search_path).map(|directory| directory.join(name)).find(|file| is_program(file))
    })
}

/// Whether a file is there that can be run.
pub(crate) fn is_program(file: &Path) -> bool {
    file.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// Whether this process may install Debian packages. Where there is no `/proc` there is no Debian either.
pub(crate) fn can_install_packages() -> bool {
    let root = std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0);
    root && find_program(&["apt-get"]).is_some()
}

/// Whether cargo has this command, installing the package of that name if it has not.
pub(crate) fn prepare_cargo_tool(command: &str, package: &str) -> bool {
    let present = Step::cargo(&[command, "--version"]);
    if present.succeeds() {
        return true;
    }
    let installed = Step::cargo(&["install", package, "--locked"]).run();
    if let Err(failure) = &installed {
        eprintln!("xtask: {failure}");
    }
    installed.is_ok() && present.succeeds()
}

/// Whether rustup has a nightly toolchain.
pub(crate) fn has_nightly() -> bool {
    Step::new("rustup", &["toolchain", "list"]).output().is_some_and(|listed| lists_nightly(&listed))
}

fn lists_nightly(listed: &str) -> bool {
    // A dated nightly does not answer to the name `nightly`.
    listed.lines().any(|line| line.starts_with("nightly-") && !line.starts_with("nightly-2"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_by_name_order_then_path_order() {
        let root = std::env::temp_dir().join(format!("xtask-path-{}", std::process::id()));
        let place = |file: &str, mode: u32| {
            let file = root.join(file);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(&file, "").unwrap();
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        place("first/plain", 0o644);
        place("first/chromium-browser", 0o755);
        place("second/plain", 0o755);
        place("second/chromium", 0o755);
        std::fs::create_dir_all(root.join("first/directory")).unwrap();
        let path =
            std::env::join_paths([root.join("absent"), root.join("first"), root.join("second")]).unwrap();
        let check = |names: &[&str], expected: Option<&str>| {
            assert_eq!(find_in(&path, names), expected.map(|file| root.join(file)), "{names:?}");
        };
        check(&["chromium", "chromium-browser"], Some("second/chromium"));
        check(&["chromium-browser", "chromium"], Some("first/chromium-browser"));
        check(&["plain"], Some("second/plain"));
        check(&["directory"], None);
        check(&["nothing"], None);
        std::fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn nightly_toolchains() {
        assert!(lists_nightly(
            "stable-x86_64-unknown-linux-gnu (active, default)\nnightly-x86_64-unknown-linux-gnu\n"
        ));
        assert!(!lists_nightly(
            "stable-x86_64-unknown-linux-gnu\nnightly-2026-01-01-x86_64-unknown-linux-gnu\n"
        ));
        assert!(!lists_nightly("no installed toolchains\n"));
    }
}
