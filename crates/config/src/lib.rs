//! Files of keys that people write: TOML, with errors that name line, column and key, and say what to do.

mod source;

use std::fmt;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

pub use source::{ContentError, Source, in_plain_words};

/// A file that cannot be used.
#[derive(Debug)]
pub enum ConfigError {
    /// It cannot be read.
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It is not what is expected there.
    Content(ContentError),
    /// A value cannot be.
    Value {
        /// The file.
        path: PathBuf,
        /// The key.
        key: &'static str,
        /// What was expected and found.
        message: String,
        /// What to do, if that is not plain from the message.
        hint: Option<&'static str>,
    },
}

impl ConfigError {
    /// What to do about it.
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Content(error) => Some(&error.hint),
            Self::Value { hint, .. } => *hint,
            Self::Io { .. } => None,
        }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { path, source } => write!(f, "cannot read {}: {source}", path.display()),
            Self::Content(error) => write!(f, "{error}"),
            Self::Value { path, key, message, .. } => write!(f, "{}: {key}: {message}", path.display()),
        }
    }
}

impl std::error::Error for ConfigError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            Self::Content(error) => Some(error),
            Self::Value { .. } => None,
        }
    }
}

/// Reads a file of that kind; `hint` says what such a file looks like.
///
/// # Errors
///
/// If it cannot be read, is not TOML, or has a key that is unknown, missing or of another type.
pub fn read<T: DeserializeOwned>(path: &Path, hint: &str) -> Result<(T, Source), ConfigError> {
    let text =
        std::fs::read_to_string(path).map_err(|source| ConfigError::Io { path: path.to_owned(), source })?;
    let source = Source::new(path, text);
    let file = source.parse(hint).map_err(ConfigError::Content)?;
    Ok((file, source))
}

/// Makes a path that is relative to the folder of `file` absolute: batch systems and daemons have other working folders.
pub fn beside(file: &Path, path: &mut PathBuf) {
    if let Some(folder) = file.parent() {
        *path = folder.join(&path);
    }
    // Fails only if the working folder is gone; then the error is reported when the path is opened.
    if let Ok(absolute) = std::path::absolute(&path) {
        *path = absolute;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_relative_to_the_file_that_names_them() {
        let beside = |file: &str, path: &str| {
            let mut path = PathBuf::from(path);
            beside(Path::new(file), &mut path);
            path
        };
        let here = std::env::current_dir().unwrap();
        assert_eq!(beside("server.toml", "state"), here.join("state"));
        assert_eq!(beside("etc/server.toml", "state"), here.join("etc/state"));
        assert_eq!(beside("/etc/server.toml", "state"), Path::new("/etc/state"));
        assert_eq!(beside("server.toml", "/var/state"), Path::new("/var/state"));
    }
}
