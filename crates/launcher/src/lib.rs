//! `pliant-launcher` does things on a cluster as a user's account, for a server that has no such right itself.
//!
//! The program belongs to root, is set-user-id, and only the group of Pliant's servers may execute it. A server gives it one
//! [`Request`] on its standard input. The launcher checks the request against `/etc/pliant/launcher.toml` ([`Config`]), which only
//! root can write, becomes the account for good, and does what was asked for: it makes the folder of a job, runs one of the
//! programs that the file names, or signals processes.
//!
//! Its caller may be hostile: someone who has taken over a server can do no more with it than the file allows, and never becomes
//! root. So the launcher
//!
//! - reads nothing from its environment or its arguments, and starts programs with an environment of their own;
//! - refuses a caller other than the user in the file, and closes all descriptors beside the three usual ones;
//! - is root only until it has become the account, or has given a new folder to it; it opens no file of the account as root;
//! - gives up root for good before it starts a program: real, effective and saved ids, and all groups.
//!
//! What it cannot prevent: a server that is taken over can run programs as any account that the file allows, since that is
//! what servers do.

mod account;
mod c_library;
mod config;
mod error;
mod folder;
mod privileges;
mod protected;
mod request;
mod serve;
mod subordinates;
mod toml;

pub use c_library::{IpcObject, clear_user_keyring, keep_from_programs, remove_ipc_object};
pub use config::Config;
pub use error::ConfigError;
pub use error::{FAILED_AS_ACCOUNT, REFUSED, UNAVAILABLE};
pub use request::{Action, MAX_REQUEST_BYTES, Request, Signal};
pub use serve::launch;
