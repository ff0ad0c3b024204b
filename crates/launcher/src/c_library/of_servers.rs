//! The same for servers and for what they run as an account. None of it is in the launcher itself.

use std::ffi::{c_int, c_void};
use std::io;
use std::ptr;

use super::{KEYCTL, syscall};

unsafe extern "C" {
    fn shmctl(number: c_int, command: c_int, buffer: *mut c_void) -> c_int;
    fn semctl(number: c_int, semaphore: c_int, command: c_int, ...) -> c_int;
    fn msgctl(number: c_int, command: c_int, buffer: *mut c_void) -> c_int;
    fn fcntl(descriptor: c_int, command: c_int, ...) -> c_int;
}

const KEYCTL_CLEAR: c_int = 7;
const KEY_SPEC_USER_KEYRING: c_int = -4;
const IPC_RMID: c_int = 0;
const F_SETFD: c_int = 2;
const FD_CLOEXEC: c_int = 1;

/// A kind of object of System V (sysvipc(7)).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IpcObject {
    /// A segment of shared memory.
    Memory,
    /// A set of semaphores.
    Semaphores,
    /// A queue of messages.
    Queue,
}

/// Removes an object of System V by its number. No program is run for that, which another process of this user could take over.
///
/// # Errors
/// There is none of that number, or it belongs to another user.
pub fn remove_ipc_object(kind: IpcObject, number: i32) -> io::Result<()> {
    let unused: *mut c_void = ptr::null_mut();
    // SAFETY: a removal reads nothing through the pointer, and ends no mapping of this process.
    let done = unsafe {
        match kind {
            IpcObject::Memory => shmctl(number, IPC_RMID, unused),
            IpcObject::Semaphores => semctl(number, 0, IPC_RMID),
            IpcObject::Queue => msgctl(number, IPC_RMID, unused),
        }
    };
    match done {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Removes all keys from the keyring of this process's user (user-keyring(7)), which outlive its processes.
///
/// # Errors
/// The kernel or the container has no keyrings.
pub fn clear_user_keyring() -> io::Result<()> {
    // SAFETY: the call takes numbers alone.
    match unsafe { syscall(KEYCTL, KEYCTL_CLEAR, KEY_SPEC_USER_KEYRING) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Keeps a descriptor from the programs that this process runs.
///
/// # Errors
/// It is not open.
pub fn keep_from_programs(descriptor: i32) -> io::Result<()> {
    // SAFETY: the call takes numbers alone, and neither opens nor closes anything.
    match unsafe { fcntl(descriptor, F_SETFD, FD_CLOEXEC) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}
