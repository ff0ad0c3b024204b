//! What `pliant job-folder` deletes as an account when the folder of a job is removed.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use pliant_launcher::{Action, Request};
use pliant_testing::{Needed, skip};

use super::site::{ALICE, Mounted, SERVER, Site, base, done, launcher, program, spool, uid};

/// A command of alice's, without other groups.
fn as_alice(program: &str) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--reuid", ALICE, "--regid", ALICE, "--clear-groups", program]);
    command
}

/// A folder of alice's job.
fn folder(name: &str) -> PathBuf {
    let folder = spool().join(name);
    done(Command::new("install").args(["-d", "-m", "700", "-o", ALICE, "-g", ALICE]).arg(&folder));
    folder
}

/// What the process of the account says when it empties the folder.
fn emptied(folder: &Path) -> Output {
    answered(folder, "\"empty\"")
}

/// What the process of the account says to a call.
fn answered(folder: &Path, call: &str) -> Output {
    // The depth of folders needs no more descriptors.
    let mut command = as_alice("bash");
    command.args(["-c", "ulimit -n 100; exec \"$0\" job-folder \"$1\""]).arg(program()).arg(folder);
    command.current_dir("/").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(format!("{call}\n").as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

/// The same of a process with the account's subordinate users, as the server asks the launcher for it.
fn emptied_with_subordinates(folder: &Path) -> Output {
    let request = Request {
        account: ALICE.to_owned(),
        action: Action::RunWithSubordinates {
            program: vec![program().into(), "job-folder".into(), folder.into()],
            folder: "/".into(),
        },
    };
    let mut command = Command::new("setpriv");
    command.args(["--reuid", SERVER, "--regid", SERVER, "--clear-groups"]).arg(launcher());
    command.current_dir("/").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let input = [request.encode(), b"\"empty\"\n".to_vec()].concat();
    child.stdin.take().unwrap().write_all(&input).unwrap();
    child.wait_with_output().unwrap()
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn names(folder: &Path) -> Vec<String> {
    let name = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
    fs::read_dir(folder).unwrap().map(name).collect()
}

/// Files that the measurement cannot see would count for nothing.
#[test]
fn a_folder_that_is_closed_to_its_account_is_not_measured() {
    let Some(_site) = Site::new() else { return };
    let closed = folder("closed");
    let usage = r#"{"usage":{"most":100}}"#;
    done(as_alice("bash").args(["-ec", "mkdir -p a/b; touch a/b/f"]).current_dir(&closed));
    let found = said(&answered(&closed, usage));
    assert!(found.contains(r#""files":3"#), "{found}");
    // Of another user: it holds none of hers.
    fs::create_dir(closed.join("roots")).unwrap();
    done(Command::new("chmod").arg("700").arg(closed.join("roots")));
    let found = said(&answered(&closed, usage));
    assert!(found.contains(r#""files":4"#), "{found}");
    for mode in ["000", "400"] {
        done(as_alice("chmod").args([mode, "a/b"]).current_dir(&closed));
        let found = said(&answered(&closed, usage));
        assert!(found.contains("failed") && found.contains("cannot read a folder in it"), "{mode}: {found}");
    }
}

/// Subordinate users of alice, until dropped.
struct Subordinates;

impl Subordinates {
    fn new() -> Option<Subordinates> {
        let has_map = |tool: &&str| Path::new("/usr/bin").join(tool).exists();
        if !["unshare", "newuidmap", "newgidmap"].iter().all(has_map) {
            skip(Needed::Program, "files of subordinate users (needs unshare and newuidmap)");
            return None;
        }
        done(Command::new("usermod").args(["-v", "800000-865535", "-w", "800000-865535", ALICE]));
        Some(Subordinates)
    }
}

impl Drop for Subordinates {
    fn drop(&mut self) {
        done(Command::new("usermod").args(["-V", "800000-865535", "-W", "800000-865535", ALICE]));
    }
}

#[test]
fn files_of_subordinate_users_are_deleted() {
    let Some(_site) = Site::new() else { return };
    let Some(_subordinates) = Subordinates::new() else { return };
    let container = folder("container");
    let fill =
        "mkdir -p layer/inner; touch layer/inner/f stays; chown -R 5:5 layer; chmod 700 layer layer/inner";
    let mut command = as_alice("unshare");
    command.args(["--map-root-user", "--map-auto", "--", "bash", "-ec", fill]);
    done(command.current_dir(&container));
    let owner = done(Command::new("stat").args(["-c", "%u"]).arg(container.join("layer")));
    assert_ne!(owner.trim(), uid(ALICE).to_string());
    let denied = said(&emptied(&container));
    assert!(denied.contains("failed") && denied.contains("ermission denied"), "{denied}");
    assert_eq!(said(&emptied_with_subordinates(&container)), "\"done\"\n");
    assert_eq!(names(&container), [""; 0]);
}

#[test]
fn a_folder_is_emptied_whatever_a_job_has_left() {
    let Some(_site) = Site::new() else { return };
    let full = folder("full");
    fs::write(base("home/keep"), "x").unwrap();
    let fill = "
        mkdir -p a/b .c 'name with blanks' closed/inner read-only/inner; touch a/x a/b/y .c/.z $'new\\nline' -- -rf
        ln -s ../../home home; ln -s / root; ln -s loop loop; mkfifo fifo; touch read-only/inner/f closed/inner/f
        touch pliant-emptied-1; mkdir -p pliant-emptied-2/x
        perl -e 'for (1..300) { mkdir \"d\"; chdir \"d\"; open(F, \">f\"); close F }'
        for i in $(seq 1 3000); do echo > many.$i; done
        chmod 000 closed; chmod 555 read-only/inner read-only; chmod 000 .";
    done(as_alice("bash").args(["-ec", fill]).current_dir(&full));
    assert_eq!(said(&emptied(&full)), "\"done\"\n");
    assert_eq!(names(&full), [""; 0]);
    assert_eq!(done(Command::new("stat").args(["-c", "%U %a"]).arg(&full)), format!("{ALICE} 700\n"));
    assert!(base("home/keep").exists());
    // What another user has put there stays, is named, and keeps nothing else.
    fs::create_dir(full.join("roots")).unwrap();
    fs::write(full.join("roots/file"), "x").unwrap();
    done(as_alice("touch").args(["a", "b"]).current_dir(&full));
    let left = said(&emptied(&full));
    assert!(left.contains("failed") && left.contains("cannot delete"), "{left}");
    assert_eq!(names(&full), ["roots"]);
    // So does what is mounted there.
    fs::remove_dir_all(full.join("roots")).unwrap();
    let mount = full.join("mount");
    fs::create_dir(&mount).unwrap();
    if let Some(_mounted) = Mounted::new(&mount, uid(ALICE), 0o700) {
        fs::write(mount.join("keep"), "x").unwrap();
        assert!(said(&emptied(&full)).contains("failed"));
        assert!(mount.join("keep").exists());
    }
    // A folder of another user is none.
    let other = said(&emptied(&base("home")));
    assert!(other.contains("failed") && base("home/keep").exists(), "{other}");
}

/// A shell that does something over and over, until it is dropped.
struct Attacker(Child);

impl Drop for Attacker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A job swaps a folder in its own with a link while that is emptied: what the link leads to stays, even if it is the account's own.
#[test]
fn nothing_is_followed_that_a_job_swaps_while_its_folder_is_emptied() {
    let Some(_site) = Site::new() else { return };
    let swapped = folder("swapped");
    let keep = base("home").join(ALICE).join("keep");
    done(as_alice("touch").arg(&keep));
    let lines = "mkdir 'a'; mkdir 'a/b'; open(F, '>a/b/f'); close F;
         rename 'a', 'c'; symlink \"../../home/$ARGV[0]\", 'a'; unlink 'a'; rename 'c', 'a';";
    let mut attacker = as_alice("perl");
    attacker.args(["-e", &format!("while (1) {{ {lines} }}"), ALICE]).current_dir(&swapped);
    let attacker = Attacker(attacker.stderr(Stdio::null()).spawn().unwrap());
    for _ in 0..50 {
        let output = emptied(&swapped);
        assert!(output.status.success(), "{}", said(&output));
    }
    drop(attacker);
    assert_eq!(said(&emptied(&swapped)), "\"done\"\n");
    assert!(keep.exists() && names(&swapped).is_empty());
}
