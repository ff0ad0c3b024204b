//! What several tests of this crate need.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use rustix::fs::{Mode, OFlags, mkdirat, openat};

/// Runs a test of this program again as a user, and fails if it fails there. Only root can.
pub(crate) fn as_user(uid: u32, test: &str) {
    let scratch = tempfile::tempdir().unwrap();
    fs::set_permissions(scratch.path(), fs::Permissions::from_mode(0o755)).unwrap();
    // Other users may not be allowed to execute the program where it is.
    let program = scratch.path().join("tests");
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let output = Command::new(program).arg(test).uid(uid).gid(uid).current_dir("/").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "as {uid}: {said}");
}

/// Makes folders, each in the one before, with names of that length, and a file of 100,000 bytes in the last one.
pub(crate) fn make_deep(folder: &Path, length: usize, folders: usize) {
    let name = "d".repeat(length);
    let mut folder = rustix::fs::open(folder, OFlags::DIRECTORY, Mode::empty()).unwrap();
    for _ in 0..folders {
        mkdirat(&folder, &name, Mode::RWXU).unwrap();
        folder = openat(&folder, &name, OFlags::DIRECTORY, Mode::empty()).unwrap();
    }
    let flags = OFlags::CREATE | OFlags::WRONLY;
    let file = openat(&folder, "file", flags, Mode::RUSR | Mode::WUSR).unwrap();
    std::io::Write::write_all(&mut fs::File::from(file), &[7; 100_000]).unwrap();
}
