//! How the launcher gives up what it may do.
//!
//! The program has one thread, so that the calls of the kernel, which change one thread, change all of it.
//!
//! `PR_SET_NO_NEW_PRIVS` is set on the programs that are run only if the file says so, as Slurm's `slurmstepd` does not set it: a job may use
//! what its user may use after a login, set-user-id programs such as `ping`, `fusermount` and the start of a container included. Who may
//! have them is a matter of the machine.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::sync::OnceLock;

use rustix::io::Errno;
use rustix::process::{
    Gid, Resource, Rlimit, Uid, getegid, geteuid, getgid, getgroups, getrlimit, getuid, setrlimit,
};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, set_capabilities, set_no_new_privs, set_thread_groups,
    set_thread_res_gid, set_thread_res_uid,
};

use crate::account::{Account, UNUSED_UID};
use crate::c_library;
use crate::error::Error;

const NONE: CapabilitySets = CapabilitySets {
    effective: CapabilitySet::empty(),
    permitted: CapabilitySet::empty(),
    inheritable: CapabilitySet::empty(),
};

/// As much memory and as many open files as modules of the name service need.
const ENOUGH: [(Resource, u64); 3] =
    [(Resource::As, 1 << 30), (Resource::Data, 1 << 30), (Resource::Nofile, 256)];

/// The uid of the caller, once it is known to be another one than root.
static CALLER: OnceLock<Uid> = OnceLock::new();

/// Gives this process a state of its own, in place of what its caller has prepared. Returns the caller's uid.
///
/// The standard library opens `/dev/null` for each of the three usual descriptors that is closed, before `main`.
pub(crate) fn prepare() -> Result<u32, Error> {
    c_library::clear_environment();
    c_library::reset_signals();
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    let caller = getuid();
    if !geteuid().is_root() || caller.is_root() {
        let expected = "to be called by a user other than root, to belong to root and to have mode 4750";
        return Err(Error::refused("pliant-launcher", (caller.as_raw(), geteuid().as_raw()), expected));
    }
    let _ = CALLER.set(caller);
    rustix::process::chdir("/").map_err(Error::system("change to /"))?;
    close_descriptors()?;
    take_new_keyring(caller)?;
    Ok(caller.as_raw())
}

/// Leaves the caller's session keyring, which jobs of several accounts would share: what one of them puts there, such as a ticket, all
/// of them could use. The new one is root's for a moment, so that it counts for the quota of no user.
fn take_new_keyring(caller: Uid) -> Result<(), Error> {
    let root = Uid::ROOT;
    set_thread_res_uid(root, root, root).map_err(Error::system("become root"))?;
    let taken = c_library::take_new_session_keyring();
    set_thread_res_uid(caller, root, root).map_err(Error::system("take the caller's uid back"))?;
    match taken {
        // A kernel or a container without keyrings.
        Err(cause) if matches!(Errno::from_io_error(&cause), Some(Errno::NOSYS | Errno::PERM)) => Ok(()),
        taken => taken.map_err(Error::system("take a new session keyring")),
    }
}

/// Closes all but the three usual descriptors: a program that is run has no right to what its caller has left open.
fn close_descriptors() -> Result<(), Error> {
    let open =
        fs::read_dir("/proc/self/fd").map_err(Error::system("list the descriptors in /proc/self/fd"))?;
    let numbers: Vec<i32> = open.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
    numbers.into_iter().filter(|number| *number > 2).for_each(c_library::close_inherited);
    Ok(())
}

/// Does something with the caller's rights alone. What the caller has opened is read with its rights only.
pub(crate) fn as_caller<T>(work: impl FnOnce() -> T) -> Result<T, Error> {
    let (caller, root) = (getuid(), Uid::ROOT);
    set_thread_res_uid(caller, caller, root).map_err(Error::system("take the caller's rights"))?;
    let done = work();
    set_thread_res_uid(caller, root, root).map_err(Error::system("take root's rights back"))?;
    Ok(done)
}

/// Keeps the caller from signalling this process: the kernel compares the real and the saved uid. Otherwise it could stop the launcher after the
/// file was read, and let it go on once an account is banned.
pub(crate) fn hide_from_caller() -> Result<(), Error> {
    let root = Uid::ROOT;
    set_thread_res_uid(root, root, root).map_err(Error::system("become root"))
}

/// Keeps the rights of the caller, or of the account if it was taken. Nothing is written for the caller before.
pub(crate) fn give_up() -> Result<(), Error> {
    let uid = getuid();
    let is_root = uid.is_root();
    keep_only(CALLER.get().copied().filter(|_| is_root).unwrap_or(uid))
}

/// Becomes the account, but can still write into a folder of somebody else, while `make` makes something there. What it makes belongs to the
/// account from its first moment. Processes of the account cannot signal this one, as in [`become_signaller`].
pub(crate) fn make_as<T>(account: &Account, make: impl FnOnce() -> T) -> Result<T, Error> {
    set_groups(account)?;
    let is_guarded = take_effective_uid(account, Uid::ROOT)?;
    if !is_guarded {
        let uid = Uid::from_raw(account.entry.uid);
        set_thread_res_uid(uid, uid, Uid::ROOT).map_err(Error::system("become the account"))?;
    }
    let write = CapabilitySet::DAC_OVERRIDE;
    let writing = CapabilitySets { effective: write, permitted: write, ..NONE };
    set_capabilities(None, writing).map_err(Error::system("keep the right to write"))?;
    let made = make();
    set_capabilities(None, NONE).map_err(Error::system("give up capabilities"))?;
    if is_guarded {
        keep_effective_uid(account)?
    } else {
        finish(account)?
    }
    Ok(made)
}

/// Takes the account's effective uid, which owns the user namespaces of the account, and keeps what else the map of one needs. Processes of the
/// account cannot signal this one.
pub(crate) fn become_mapper(account: &Account) -> Result<(), Error> {
    set_thread_res_uid(Uid::ROOT, Uid::from_raw(account.entry.uid), Uid::ROOT)
        .map_err(Error::system("take the account's uid"))?;
    let needed = CapabilitySet::SETUID | CapabilitySet::SETGID | CapabilitySet::DAC_OVERRIDE;
    let mapping = CapabilitySets { effective: needed, permitted: needed, ..NONE };
    set_capabilities(None, mapping).map_err(Error::system("keep the right to map"))
}

/// Has no program that this process becomes, or starts, get rights by a bit of its file, such as those of another user.
pub(crate) fn forbid_new_privileges() -> Result<(), Error> {
    set_no_new_privs(true).map_err(Error::system("forgo new privileges"))
}

/// Does something with memory and descriptors that the caller cannot have made scarce. With too few, the C library loads no module of the name
/// service, and takes an account that the module knows for one that is not there.
pub(crate) fn with_enough<T>(work: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    let limits = ENOUGH.map(|(resource, least)| (resource, least, getrlimit(resource)));
    for (resource, least, limit) in &limits {
        let enough = |limit: Option<u64>| limit.map(|limit| limit.max(*least));
        let raised = Rlimit { current: enough(limit.current), maximum: enough(limit.maximum) };
        setrlimit(*resource, raised)
            .map_err(Error::system(format!("have enough for accounts ({resource:?})")))?;
    }
    let done = work();
    for (resource, _, limit) in limits {
        setrlimit(resource, limit).map_err(Error::system(format!("set the limit {resource:?} again")))?;
    }
    done
}

/// Becomes the account for good.
pub(crate) fn become_account(account: &Account) -> Result<(), Error> {
    set_groups(account)?;
    finish(account)
}

/// Takes the account's right to signal its processes, and gives up all others for good. Processes of the account cannot signal this one: to
/// send a signal the effective uid counts, and to get one the other two. Otherwise a job that kills all processes of its user again and
/// again could keep its own end away.
pub(crate) fn become_signaller(account: &Account) -> Result<(), Error> {
    set_groups(account)?;
    if take_effective_uid(account, unused())? { keep_effective_uid(account) } else { finish(account) }
}

/// The real uid of a process that processes of the account must not signal.
fn unused() -> Uid {
    Uid::from_raw(UNUSED_UID)
}

/// Takes the account's uid as the effective one alone; false in a user namespace that has no other one to keep.
fn take_effective_uid(account: &Account, saved: Uid) -> Result<bool, Error> {
    match set_thread_res_uid(unused(), Uid::from_raw(account.entry.uid), saved) {
        Ok(()) => Ok(true),
        Err(Errno::INVAL) => Ok(false),
        Err(cause) => Err(Error::system("take the account's uid")(cause)),
    }
}

/// Gives up all but the account's effective uid for good.
fn keep_effective_uid(account: &Account) -> Result<(), Error> {
    let uid = Uid::from_raw(account.entry.uid);
    set_thread_res_uid(unused(), uid, unused()).map_err(Error::system("keep the account's uid alone"))?;
    set_capabilities(None, NONE).map_err(Error::system("give up capabilities"))?;
    verify(|| Ok((getuid(), geteuid()) == (unused(), uid)))
}

fn set_groups(account: &Account) -> Result<(), Error> {
    let gid = Gid::from_raw(account.entry.gid);
    let groups: Vec<Gid> = account.groups.iter().map(|group| Gid::from_raw(*group)).collect();
    set_thread_groups(&groups).map_err(Error::system("take the account's groups"))?;
    set_thread_res_gid(gid, gid, gid).map_err(Error::system("take the account's first group"))
}

/// Gives up every right but those of a user.
fn keep_only(uid: Uid) -> Result<(), Error> {
    set_thread_res_uid(uid, uid, uid).map_err(Error::system("take the uid of a user alone"))?;
    set_capabilities(None, NONE).map_err(Error::system("give up capabilities"))
}

fn finish(account: &Account) -> Result<(), Error> {
    keep_only(Uid::from_raw(account.entry.uid))?;
    verify(|| is_account(account))
}

/// Fails unless the process has the expected ids and none of root's rights.
fn verify(has_ids: impl FnOnce() -> io::Result<bool>) -> Result<(), Error> {
    let is_as_expected = || Ok(has_ids()? && capabilities(None)? == NONE && !can_take_root());
    match is_as_expected().map_err(Error::system::<io::Error>("verify the account"))? {
        true => Ok(()),
        false => Err(Error::refused("kernel", "some left", "that all of root's rights are given up")),
    }
}

/// Whether the process has the ids of the account, and no other groups.
fn is_account(account: &Account) -> io::Result<bool> {
    let groups: BTreeSet<u32> = getgroups()?.iter().map(|group| group.as_raw()).collect();
    Ok([getuid(), geteuid()].iter().all(|uid| uid.as_raw() == account.entry.uid)
        && [getgid(), getegid()].iter().all(|gid| gid.as_raw() == account.entry.gid)
        && groups == account.groups.iter().copied().collect())
}

/// Whether the process can take any of root's identities.
fn can_take_root() -> bool {
    set_thread_res_uid(None, Uid::ROOT, None).is_ok()
        || set_thread_res_uid(Uid::ROOT, None, None).is_ok()
        || set_thread_res_gid(None, Gid::ROOT, None).is_ok()
        || set_thread_groups(&[Gid::ROOT]).is_ok()
}
