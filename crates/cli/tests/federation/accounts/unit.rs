//! The restrictions of the systemd unit: with its drop-in for accounts the launcher works, and without it does not.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use pliant_launcher::{Action, Request};
use pliant_testing::{Needed, skip};

use super::site::{ALICE, Site, launcher, spool};

fn deployed(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(file);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The settings of a unit, the last one of each name.
fn setting<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix('=')).next_back()
}

/// Has the launcher make a folder for alice, called by the server's user with the rights that a unit leaves. True if that worked.
fn makes_a_folder(site: &Site, unit: &[&str], folder: &Path) -> bool {
    let last = |name: &str| unit.iter().rev().find_map(|text| setting(text, name)).unwrap();
    let server = site.server();
    let capabilities = last("CapabilityBoundingSet").split_whitespace();
    let bounding: String =
        capabilities.map(|one| format!(",+{}", one.trim_start_matches("CAP_").to_lowercase())).collect();
    let mut command = Command::new("setpriv");
    command.args(["--reuid", &server.uid.to_string(), "--regid", &server.gid.to_string(), "--clear-groups"]);
    command.arg(format!("--bounding-set=-all{bounding}"));
    command.args((last("NoNewPrivileges") == "yes").then_some("--no-new-privs")).arg(launcher());
    let mut child = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let action = Action::MakeFolder { folder: folder.to_owned() };
    let request = Request { account: ALICE.to_owned(), action };
    // One that does not get the launcher's rights refuses before it reads.
    let _ = child.stdin.take().unwrap().write_all(&request.encode());
    child.wait_with_output().unwrap().status.success()
}

#[test]
fn the_launcher_works_under_the_unit_with_its_drop_in_only() {
    let Some(site) = Site::new() else { return };
    if Command::new("setpriv").arg("--version").output().is_err() {
        return skip(Needed::Program, "the rights of a unit (needs setpriv)");
    }
    let (unit, drop_in) =
        (deployed("systemd/pliant-server@.service"), deployed("examples/pliant-server-accounts.conf"));
    let (denied, allowed): (PathBuf, PathBuf) = (spool().join("denied"), spool().join("allowed"));
    assert!(!makes_a_folder(&site, &[&unit], &denied) && !denied.exists());
    assert!(makes_a_folder(&site, &[&unit, &drop_in], &allowed) && allowed.exists());
    // What implies NoNewPrivileges for a unit with a user is turned off (systemd.exec(5)).
    for setting in [
        "RestrictSUIDSGID",
        "ProtectClock",
        "ProtectHostname",
        "ProtectKernelLogs",
        "ProtectKernelModules",
        "ProtectKernelTunables",
    ] {
        assert_eq!(self::setting(&unit, setting), Some("yes"), "{setting}");
        assert_eq!(self::setting(&drop_in, setting), Some("no"), "{setting}");
    }
    assert_eq!(setting(&drop_in, "SystemCallArchitectures"), Some(""));
}
