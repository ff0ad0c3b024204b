//! The file of a client: which one is taken, as the command and the Python package do.

use std::path::{Path, PathBuf};

use pliant_client::ClientFile;
use pliant_config::ConfigError;

use crate::RequestError;
use crate::local_federation;

/// The variable that names the client's file.
const VARIABLE: &str = "PLIANT_CONFIG";

/// Reads the client's file: the given one, that of `PLIANT_CONFIG`, the user's own, or that of a running `pliant up`.
///
/// # Errors
///
/// If there is none, or it is not valid.
pub fn open(given: Option<&Path>) -> Result<ClientFile, RequestError> {
    ClientFile::read(&path(given)?).map_err(|error| match error {
        // As for every named file that cannot be read.
        error @ ConfigError::Io { .. } => RequestError::system(error).hint(
            "--config or PLIANT_CONFIG names the client's file; without them it is ~/.config/pliant/client.toml",
        ),
        error => error.into(),
    })
}

/// The client's file that [`open`] reads.
///
/// # Errors
///
/// If there is none.
pub fn path(given: Option<&Path>) -> Result<PathBuf, RequestError> {
    choose(given, ClientFilePaths::read()?)
}

/// The paths of client files.
struct ClientFilePaths {
    /// What [`VARIABLE`] says.
    variable: Option<PathBuf>,
    /// The user's own, which may not exist.
    own: Option<PathBuf>,
    /// The one of a running `pliant up`.
    local: Option<PathBuf>,
}

impl ClientFilePaths {
    fn read() -> Result<ClientFilePaths, RequestError> {
        let path = |name: &str| std::env::var_os(name).filter(|text| !text.is_empty()).map(PathBuf::from);
        let home = || path("HOME").map(|home| home.join(".config"));
        // A relative folder is to be ignored (XDG Base Directory Specification).
        let config = path("XDG_CONFIG_HOME").filter(|dir| dir.is_absolute()).or_else(home);
        let local = match local_federation::default_folder() {
            Ok(folder) => local_federation::running(&folder)?.map(|_| folder.join(local_federation::CLIENT)),
            Err(_) => None,
        };
        let own = config.map(|dir| dir.join("pliant").join("client.toml"));
        Ok(ClientFilePaths { variable: path(VARIABLE), own, local })
    }
}

/// The client's file to take.
fn choose(given: Option<&Path>, paths: ClientFilePaths) -> Result<PathBuf, RequestError> {
    let own = paths.own.clone().filter(|path| path.exists());
    let chosen = given.map(Path::to_owned).or(paths.variable).or(own).or(paths.local);
    chosen.ok_or_else(|| {
        let own = paths.own.map_or_else(String::new, |path| format!(" no {} and", path.display()));
        RequestError::input(format!(
            "expected the client file of a federation, found{own} no running `pliant up`"
        ))
        .hint("`pliant up` starts one on this machine; --config or PLIANT_CONFIG names the file of another")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_file_that_is_there_is_taken() {
        let dir = tempfile::tempdir().unwrap();
        let (own, none) = (dir.path().join("client.toml"), dir.path().join("none.toml"));
        std::fs::write(&own, "").unwrap();
        let check =
            |given: Option<&str>, variable: Option<&str>, own: &Path, local: Option<&str>, expected| {
                let (variable, local) = (variable.map(PathBuf::from), local.map(PathBuf::from));
                let paths = ClientFilePaths { variable, own: Some(own.to_owned()), local };
                let chosen = choose(given.map(Path::new), paths);
                assert_eq!(chosen.ok(), expected, "{given:?}");
            };
        let some = |path: &str| Some(PathBuf::from(path));
        check(Some("given"), Some("variable"), &own, Some("local"), some("given"));
        check(None, Some("variable"), &own, Some("local"), some("variable"));
        check(None, None, &own, Some("local"), Some(own.clone()));
        check(None, None, &none, Some("local"), some("local"));
        check(None, None, &none, None, None);
    }
}
