//! A user namespace in which a program is root over the subordinate users of its account (subuid(5)): what newuidmap(1) and unshare(1)
//! make for the account itself. They are programs that the account can read, and another process of the account could take such a
//! process over, and keep it. This one it can neither read nor trace.
//!
//! The kernel lets a process write the map of another one only. So a copy of the launcher, which keeps the right to do so, waits until the
//! launcher has become the account and has entered its namespace, writes the map and ends.

use std::fs::File;
use std::io::{PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags, openat};
use rustix::process::{Pid, WaitOptions, waitpid};

use crate::account::Account;
use crate::c_library;
use crate::config::Config;
use crate::error::Error;
use crate::{privileges, protected};

/// The files with the ranges of accounts, and those of a process with its maps.
const FILES: [(&str, &str); 2] = [("/etc/subuid", "uid_map"), ("/etc/subgid", "gid_map")];
/// As many ranges as Linux takes in a map, but for that of the account itself.
const RANGES_MAX: usize = 339;

/// A process that waits to write the maps of this one.
pub(crate) struct Mapper {
    process: Pid,
    ready: PipeWriter,
}

impl Mapper {
    /// Starts the process, while this one is root and has one thread.
    ///
    /// # Errors
    /// The account has no subordinate users, or one of them may be another account or the caller.
    pub(crate) fn start(account: &Account, config: &Config, caller: u32) -> Result<Mapper, Error> {
        let entry = &account.entry;
        let mut maps = Vec::new();
        for ((path, name), own) in FILES.into_iter().zip([entry.uid, entry.gid]) {
            protected::open(Path::new(path), FileType::RegularFile, 0)?;
            let text = std::fs::read_to_string(path).map_err(Error::system(format!("read {path}")))?;
            let found = map(&text, &entry.name.to_string_lossy(), entry.uid, own, |first, last| {
                first > config.uid_max && !(first..=last).contains(&caller)
            });
            let found = found.map_err(|range| {
                let expected = format!(
                    "one whose ranges in {path} are above {} (`uid_max`) and without the caller's uid (it has {range})",
                    config.uid_max
                );
                Error::refused("account", &entry.name, expected)
            })?;
            let expected = || Error::refused("account", &entry.name, format!("one with a range in {path}"));
            maps.push((name, found.ok_or_else(expected)?));
        }
        let cannot = || Error::system("prepare a user namespace");
        let of_parent: OwnedFd = File::open("/proc/self").map_err(cannot())?.into();
        let (wait, ready) = std::io::pipe().map_err(cannot())?;
        match c_library::fork().map_err(cannot())? {
            Some(process) => Ok(Mapper { process, ready }),
            None => {
                drop(ready);
                let is_written =
                    privileges::become_mapper(account).is_ok() && written(wait, &of_parent, &maps).is_ok();
                std::process::exit(i32::from(!is_written))
            }
        }
    }

    /// Has this process, which has become the account, enter the namespace. It is root there.
    pub(crate) fn enter(mut self) -> Result<(), Error> {
        let cannot = || Error::system("enter a user namespace");
        c_library::unshare_users().map_err(cannot())?;
        self.ready.write_all(&[1]).map_err(cannot())?;
        let ended = waitpid(Some(self.process), WaitOptions::empty());
        let ended = ended.map_err(Error::system("wait for the maps of a user namespace"))?;
        match ended.and_then(|(_, status)| status.exit_status()) {
            Some(0) => Ok(()),
            _ => Err(Error::lasting("cannot map the subordinate users of the account".to_owned())),
        }
    }
}

/// Writes the maps of a process, by its folder in /proc, once it is ready.
fn written(
    mut wait: PipeReader,
    of_parent: impl AsFd,
    maps: &[(&str, String)],
) -> Result<(), std::io::Error> {
    wait.read_exact(&mut [0])?;
    for (name, map) in maps {
        let flags = OFlags::WRONLY | OFlags::CLOEXEC;
        File::from(openat(&of_parent, *name, flags, Mode::empty())?).write_all(map.as_bytes())?;
    }
    Ok(())
}

/// The map of an account's own id to 0 and of its ranges in a file to the numbers behind it; none if it has no range. A range is from the first
/// to the last number.
///
/// # Errors
/// A range that is not allowed.
fn map(
    text: &str,
    name: &str,
    uid: u32,
    own: u32,
    is_allowed: impl Fn(u32, u32) -> bool,
) -> Result<Option<String>, String> {
    let uid = uid.to_string();
    let (mut map, mut next) = (format!("0 {own} 1\n"), 1u32);
    for line in text.lines() {
        let mut fields = line.trim().split(':');
        let (Some(of), Some(first), Some(count), None) =
            (fields.next(), fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        let (Ok(first), Ok(count)) = (first.parse::<u32>(), count.parse::<u32>()) else { continue };
        if (of == name || of == uid) && first > 0 && count > 0 && map.lines().count() <= RANGES_MAX {
            let last = first.checked_add(count - 1).filter(|last| is_allowed(first, *last));
            last.ok_or_else(|| format!("{first}:{count}"))?;
            let Some(after) = next.checked_add(count) else { return Ok(None) };
            map.push_str(&format!("{next} {first} {count}\n"));
            next = after;
        }
    }
    Ok((next > 1).then_some(map))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_an_account_are_by_its_name_or_its_uid() {
        let check = |text: &str, expected: Option<&str>| {
            let found = map(text, "alice", 1000, 100, |_, _| true).unwrap();
            assert_eq!(found.as_deref(), expected, "{text}");
        };
        check("bob:100000:65536\nalice:165536:65536\n", Some("0 100 1\n1 165536 65536\n"));
        check("1000:5:2\n\n# alice\nalice:20:3", Some("0 100 1\n1 5 2\n3 20 3\n"));
        for none in
            ["", "bob:1:2", "alice:1", "alice:x:2", "alice:0:5", "alice:5:0", "alice:1:2:3", "10001:1:2"]
        {
            check(none, None);
        }
        check("alice:1:4294967295\n", None);
    }
    #[test]
    fn ranges_that_are_not_allowed_are_refused() {
        let check = |text: &str, expected: Option<&str>| {
            let found = map(text, "alice", 1000, 100, |first, last| first > 50 && last < 200);
            assert_eq!(found.err().as_deref(), expected, "{text}");
        };
        check("alice:51:149\nbob:1:5", None);
        check("alice:51:150", Some("51:150"));
        check("alice:60:5\nalice:50:1", Some("50:1"));
        check("alice:51:4294967295", Some("51:4294967295"));
    }
}
