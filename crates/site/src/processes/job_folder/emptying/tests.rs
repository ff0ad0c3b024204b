//! Folders as jobs leave them. What only another user shows is in the tests of accounts.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

use super::*;

fn entries(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn everything_is_deleted_and_nothing_followed() {
    let scratch = tempfile::tempdir().unwrap();
    let [folder, other] = ["folder", "other"].map(|name| scratch.path().join(name));
    fs::create_dir_all(folder.join("a/b")).unwrap();
    fs::create_dir_all(folder.join("pliant-emptied-2/x")).unwrap();
    fs::create_dir_all(other.join("inner")).unwrap();
    for file in ["a/b/.c", "with blanks", "new\nline", "-rf", "pliant-emptied-1"] {
        fs::write(folder.join(file), "x").unwrap();
    }
    symlink(&other, folder.join("link")).unwrap();
    symlink("loop", folder.join("loop")).unwrap();
    fs::write(other.join("inner/keep"), "x").unwrap();
    fs::hard_link(other.join("inner/keep"), folder.join("hard")).unwrap();
    let deep: PathBuf = std::iter::repeat_n("d", 5 * DEPTH_MAX).collect();
    fs::create_dir_all(folder.join(deep)).unwrap();
    for closed in ["a/b", "a", ""] {
        fs::set_permissions(folder.join(closed), fs::Permissions::from_mode(0o000)).unwrap();
    }
    empty(&folder, None).unwrap();
    assert!(entries(&folder).is_empty());
    assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
    assert_eq!(entries(&other.join("inner")), [other.join("inner/keep")]);
    let link = scratch.path().join("link");
    symlink(&other, &link).unwrap();
    assert!(empty(&link, None).is_err() && empty(&scratch.path().join("missing"), None).is_err());
    assert!(other.join("inner/keep").exists());
}

#[test]
fn outputs_remain_that_are_files_and_not_too_long() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path().join("folder");
    fs::create_dir_all(folder.join("work/stdout")).unwrap();
    fs::write(folder.join("stdout"), "1234").unwrap();
    fs::write(folder.join("stderr"), "12345").unwrap();
    fs::write(folder.join("work/file"), "x").unwrap();
    empty(&folder, Some(4)).unwrap();
    assert_eq!(entries(&folder), [folder.join("stdout")]);
    fs::remove_file(folder.join("stdout")).unwrap();
    symlink("/dev/null", folder.join("stdout")).unwrap();
    fs::create_dir(folder.join("stderr")).unwrap();
    empty(&folder, Some(4)).unwrap();
    assert!(entries(&folder).is_empty(), "neither is a file");
}
