//! What only the C library does. The one module with unsafe code.
//!
//! Accounts come from the C library's name service (NSS) in this process, as for `su`, `sudo`, `sshd` and Slurm. The accounts of a site
//! are rarely all in `/etc/passwd`: LDAP and Active Directory are behind NSS. The other way is to run `getent` and `id` without
//! privileges and to read what they print. Then the answer, by which root becomes an account, is written by a process of an
//! unprivileged user, and every other process of this user can write another one. The price is that modules of the name service run
//! with the launcher's privileges. They are root's choice (`/etc/nsswitch.conf`), and in a set-user-id program the C library takes neither
//! them nor their settings from the caller: the dynamic linker drops such variables, and the launcher clears its environment first.

#![allow(unsafe_code)]

use std::ffi::{CStr, CString, OsString, c_char, c_int, c_long};
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::ptr;

use rustix::process::Pid;

mod of_servers;

pub use of_servers::{IpcObject, clear_user_keyring, keep_from_programs, remove_ipc_object};

/// An entry of the database of accounts.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) name: CString,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) home: OsString,
    pub(crate) shell: OsString,
}

/// `struct passwd` of glibc and of musl.
#[repr(C)]
struct Passwd {
    name: *const c_char,
    password: *const c_char,
    uid: u32,
    gid: u32,
    gecos: *const c_char,
    home: *const c_char,
    shell: *const c_char,
}

unsafe extern "C" {
    fn getpwnam_r(
        name: *const c_char,
        entry: *mut Passwd,
        buffer: *mut c_char,
        length: usize,
        result: *mut *mut Passwd,
    ) -> c_int;
    fn getgrouplist(user: *const c_char, group: u32, groups: *mut u32, count: *mut c_int) -> c_int;
    fn clearenv() -> c_int;
    #[link_name = "fork"]
    fn fork_process() -> c_int;
    fn unshare(flags: c_int) -> c_int;
    fn close(descriptor: c_int) -> c_int;
    fn signal(number: c_int, handler: usize) -> usize;
    fn syscall(number: c_long, ...) -> c_long;
    fn sigprocmask(how: c_int, set: *const [u64; 16], old: *mut [u64; 16]) -> c_int;
}

/// The sizes of the buffer for an entry, and of the list of groups.
const SIZES: [usize; 4] = [1 << 12, 1 << 14, 1 << 17, 1 << 20];
const ERANGE: c_int = 34;
const SIG_DFL: usize = 0;
const SIG_SETMASK: c_int = 2;
const SIGPIPE: c_int = 13;
const SIGNAL_MAX: c_int = 64;
/// The kernel's number of `keyctl`.
const KEYCTL: c_long = if cfg!(target_arch = "x86_64") { 250 } else { 219 };
const KEYCTL_JOIN_SESSION_KEYRING: c_int = 1;
const CLONE_NEWUSER: c_int = 0x1000_0000;

/// The account of that name; none if the name service says for certain that there is none.
pub(crate) fn account(name: &CStr) -> io::Result<Option<Entry>> {
    for size in SIZES {
        let mut buffer: Vec<c_char> = vec![0; size];
        let mut entry = Passwd {
            name: ptr::null(),
            password: ptr::null(),
            uid: u32::MAX,
            gid: u32::MAX,
            gecos: ptr::null(),
            home: ptr::null(),
            shell: ptr::null(),
        };
        let mut result = ptr::null_mut();
        // SAFETY: the pointers are valid for the call, and `size` is the length of `buffer`.
        let error =
            unsafe { getpwnam_r(name.as_ptr(), &mut entry, buffer.as_mut_ptr(), buffer.len(), &mut result) };
        match error {
            0 if result.is_null() => return Ok(None),
            0 => {
                let [home, shell] =
                    [entry.home, entry.shell].map(|path| OsString::from_vec(text(path).into_bytes()));
                return Ok(Some(Entry {
                    name: text(entry.name),
                    uid: entry.uid,
                    gid: entry.gid,
                    home,
                    shell,
                }));
            }
            ERANGE => {}
            _ => return Err(io::Error::from_raw_os_error(error)),
        }
    }
    Err(io::Error::from_raw_os_error(ERANGE))
}

/// A copy of a text in a buffer of [`account`].
fn text(text: *const c_char) -> CString {
    if text.is_null() {
        return CString::default();
    }
    // SAFETY: the C library has ended the text with a zero byte, within the buffer, which lives longer than this call.
    unsafe { CStr::from_ptr(text) }.to_owned()
}

/// The groups of an account, its first group included.
pub(crate) fn groups(name: &CStr, gid: u32) -> io::Result<Vec<u32>> {
    for size in SIZES {
        let mut groups = vec![u32::MAX; size];
        let mut count = c_int::try_from(size).unwrap_or(c_int::MAX);
        // SAFETY: `count` is the length of `groups`, and the C library writes no more.
        let found = unsafe { getgrouplist(name.as_ptr(), gid, groups.as_mut_ptr(), &mut count) };
        if found >= 0 {
            groups.truncate(usize::try_from(count).unwrap_or(0));
            return Ok(groups);
        }
    }
    Err(io::Error::from_raw_os_error(ERANGE))
}

/// Clears the environment of this process.
pub(crate) fn clear_environment() {
    // SAFETY: the process has one thread, and holds no reference into its environment.
    let _ = unsafe { clearenv() };
}

/// Blocks no signal and ignores none, whatever the caller does. `SIGPIPE` stays ignored, as in every program in Rust, until a
/// program is run (`Command::exec` sets it to its default).
pub(crate) fn reset_signals() {
    for number in (1..=SIGNAL_MAX).filter(|number| *number != SIGPIPE) {
        // SAFETY: no handler of this process is replaced: it has none. Signals that cannot be set are refused without effect.
        let _ = unsafe { signal(number, SIG_DFL) };
    }
    // SAFETY: an empty set is 128 bytes of zeros in glibc and in musl; the old set is not asked for.
    let _ = unsafe { sigprocmask(SIG_SETMASK, &[0; 16], ptr::null_mut()) };
}

/// Gives this process a session keyring of its own, without a name and without keys.
pub(crate) fn take_new_session_keyring() -> io::Result<()> {
    let unnamed: *const c_char = ptr::null();
    // SAFETY: the call reads nothing through a null pointer.
    match unsafe { syscall(KEYCTL, KEYCTL_JOIN_SESSION_KEYRING, unnamed) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Starts a copy of this process; none in the copy.
pub(crate) fn fork() -> io::Result<Option<Pid>> {
    // SAFETY: the process has one thread, so that the copy finds no lock that is held.
    match unsafe { fork_process() } {
        -1 => Err(io::Error::last_os_error()),
        id => Ok(Pid::from_raw(id)),
    }
}

/// Moves this process into a user namespace of its own.
pub(crate) fn unshare_users() -> io::Result<()> {
    // SAFETY: no memory is shared or freed by that.
    match unsafe { unshare(CLONE_NEWUSER) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Closes a descriptor that was open when this process began; one that is closed already is fine.
pub(crate) fn close_inherited(descriptor: i32) {
    // SAFETY: no value of this process owns the descriptor.
    let _ = unsafe { close(descriptor) };
}
