//! TOML configuration files: errors name line, column and key, and say what to do.

mod source;

use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

pub use source::{ContentError, Source, plain_message};

/// An error in a configuration file.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The content is not valid.
    #[error("{0}")]
    Content(#[source] ContentError),
    /// A value is not valid.
    #[error("{}: {key}: {message}", path.display())]
    Value {
        /// The file.
        path: PathBuf,
        /// The key.
        key: &'static str,
        /// What was expected and what was found.
        message: String,
        /// What to do, if the message does not say so.
        hint: Option<&'static str>,
    },
}

impl ConfigError {
    /// What to do about the error.
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Content(error) => Some(&error.hint),
            Self::Value { hint, .. } => *hint,
            Self::Io { .. } => None,
        }
    }
}

/// Reads a configuration file; `hint` describes the expected content.
///
/// # Errors
///
/// If the file cannot be read, is not TOML, or has an unknown key, a missing key or a value of the wrong type.
pub fn read<T: DeserializeOwned>(path: &Path, hint: &str) -> Result<(T, Source), ConfigError> {
    let text =
        std::fs::read_to_string(path).map_err(|source| ConfigError::Io { path: path.to_owned(), source })?;
    let source = Source::new(path, text);
    let file = source.parse(hint).map_err(ConfigError::Content)?;
    Ok((file, source))
}

/// Makes a path relative to the folder of `file` absolute, since batch systems and daemons have other working folders.
pub fn resolve_relative(file: &Path, path: &mut PathBuf) {
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
        let resolve_relative = |file: &str, path: &str| {
            let mut path = PathBuf::from(path);
            resolve_relative(Path::new(file), &mut path);
            path
        };
        let here = std::env::current_dir().unwrap();
        assert_eq!(resolve_relative("server.toml", "state"), here.join("state"));
        assert_eq!(resolve_relative("etc/server.toml", "state"), here.join("etc/state"));
        assert_eq!(resolve_relative("/etc/server.toml", "state"), Path::new("/etc/state"));
        assert_eq!(resolve_relative("server.toml", "/var/state"), Path::new("/var/state"));
    }
}
