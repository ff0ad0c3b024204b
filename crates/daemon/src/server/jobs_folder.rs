//! Where the folders of jobs and the uploads are: in the server's state folder, or in a folder of their own, on another file system
//! for example, which the nodes of a cluster share.
//!
//! A server that finds no folder of a job takes the job for one that was never started. So a file system that is not mounted must
//! not look like a folder without jobs: the folder has a file with the number of the server's journal, and the state folder remembers
//! where the folder is.

use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use pliant_control::names::Name;

/// The file in the folder of jobs that says whose it is.
const OWNER: &str = "pliant-server";
/// The file in the state folder that says where the folder of jobs is.
pub(crate) const FOLDER: &str = "jobs-folder";
/// The file in the state folder that says where the folders of accounts' jobs are.
pub(crate) const ACCOUNTS_FOLDER: &str = "accounts-folder";
/// What is in the folder of jobs.
const CONTENT: [&str; 5] = ["jobs", "subjobs", "requests", "gates", "staging"];

/// Makes and checks the folder in which a server with that journal has its jobs' folders: the state folder if none is `named`.
///
/// # Errors
///
/// The folder is not there although it was before, belongs to another server, or jobs have their folders elsewhere.
pub(super) fn open(state: &Path, named: Option<&Path>, journal: u64) -> io::Result<PathBuf> {
    let memory = state.join(FOLDER);
    let remembered = read(&memory)?.map(PathBuf::from);
    let Some(folder) = named else {
        return match remembered {
            None => Ok(state.to_owned()),
            Some(other) => Err(elsewhere(state, &other, &memory)),
        };
    };
    let journal = format!("{journal:016x}");
    match read(&folder.join(OWNER))? {
        Some(owner) if owner == journal => {}
        Some(_) => return Err(of_another(folder, OWNER)),
        None => first_use(state, folder, remembered.as_deref(), &memory, &journal)?,
    }
    if remembered.as_deref() != Some(folder) {
        write(&memory, &folder.to_string_lossy())?;
    }
    Ok(folder.to_owned())
}

/// The same for the folders of accounts' jobs, which several servers may have in one folder: gives the file by which the folder is known
/// again.
///
/// # Errors
///
/// It is not there although it was before, is another server's of that name, or jobs have their folders elsewhere.
pub(super) fn guard(state: &Path, folder: &Path, server: &Name, journal: u64) -> io::Result<PathBuf> {
    let (memory, guard) = (state.join(ACCOUNTS_FOLDER), folder.join(format!("{OWNER}-{server}")));
    let (remembered, journal) = (read(&memory)?.map(PathBuf::from), format!("{journal:016x}"));
    match (read(&guard)?, remembered.as_deref()) {
        (Some(owner), _) if owner == journal => {}
        (Some(_), _) => return Err(of_another(folder, &format!("{OWNER}-{server}"))),
        (None, Some(same)) if same == folder => return Err(unmounted(folder)),
        (None, Some(other)) => return Err(elsewhere(folder, other, &memory)),
        (None, None) => write(&guard, &journal)?,
    }
    if remembered.as_deref() != Some(folder) {
        write(&memory, &folder.to_string_lossy())?;
    }
    Ok(guard)
}

fn of_another(folder: &Path, file: &str) -> io::Error {
    let why = format!(
        "{}: expected a folder of this server alone, found one of another server, or of a journal that was lost; \
         name another folder, or remove the file {file} in it",
        folder.display()
    );
    io::Error::new(ErrorKind::AlreadyExists, why)
}

fn unmounted(folder: &Path) -> io::Error {
    let why = format!(
        "{}: expected the folders of jobs, found none of this server: is its file system mounted?",
        folder.display()
    );
    io::Error::new(ErrorKind::NotFound, why)
}

fn first_use(
    state: &Path,
    folder: &Path,
    remembered: Option<&Path>,
    memory: &Path,
    journal: &str,
) -> io::Result<()> {
    match remembered {
        Some(same) if same == folder => return Err(unmounted(folder)),
        Some(other) => return Err(elsewhere(folder, other, memory)),
        None if CONTENT.iter().any(|name| state.join(name).exists()) => {
            let why = format!(
                "{}: expected the folders of jobs there, found them in {}: move {} to it",
                folder.display(),
                state.display(),
                CONTENT.join(", ")
            );
            return Err(io::Error::new(ErrorKind::AlreadyExists, why));
        }
        None => {}
    }
    // Jobs run as the server's own user: no other needs to look into it.
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    write(&folder.join(OWNER), journal)
}

fn elsewhere(expected: &Path, found: &Path, memory: &Path) -> io::Error {
    let why = format!(
        "{}: expected the folders of jobs there, found them in {}: move all that is in it, or remove {} if no job is left there",
        expected.display(),
        found.display(),
        memory.display()
    );
    io::Error::new(ErrorKind::NotFound, why)
}

/// The line of a file; none if there is no such file.
pub(super) fn read(path: &Path) -> io::Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text.trim_end().to_owned())),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
        Err(error) => Err(io::Error::new(error.kind(), format!("{}: {error}", path.display()))),
    }
}

/// Writes a file with one line so that it is whole or not there.
pub(super) fn write(path: &Path, line: &str) -> io::Result<()> {
    let temporary = path.with_extension("tmp");
    let mut file = File::create(&temporary)?;
    writeln!(file, "{line}")?;
    file.sync_all()?;
    fs::rename(&temporary, path)?;
    path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_is_not_there_is_no_folder_without_jobs() {
        let scratch = tempfile::tempdir().unwrap();
        let (state, folder) = (scratch.path().join("state"), scratch.path().join("mounted/jobs"));
        fs::create_dir(&state).unwrap();
        let open = |named: Option<&Path>, journal: u64| {
            super::open(&state, named, journal).map_err(|error| error.to_string())
        };
        let refused = |named: Option<&Path>, journal: u64, words: &str| {
            let why = open(named, journal).unwrap_err();
            assert!(why.contains(words), "{why}");
        };
        assert_eq!(open(None, 7), Ok(state.clone()));
        for _ in 0..2 {
            assert_eq!(open(Some(&folder), 7), Ok(folder.clone()));
        }
        // A server that went down before it remembered the folder.
        fs::remove_file(state.join(FOLDER)).unwrap();
        assert_eq!(open(Some(&folder), 7), Ok(folder.clone()));
        refused(Some(&folder), 8, "another server");
        let away = scratch.path().join("away");
        fs::rename(scratch.path().join("mounted"), &away).unwrap();
        refused(Some(&folder), 7, "mounted?");
        fs::create_dir_all(&folder).unwrap();
        refused(Some(&folder), 7, "mounted?");
        refused(None, 7, "move all that is in it");
        // It was moved on purpose.
        assert_eq!(open(Some(&away.join("jobs")), 7), Ok(away.join("jobs")));
        refused(Some(&folder), 7, "found them in");
    }

    #[test]
    fn accounts_folders_are_known_again() {
        let scratch = tempfile::tempdir().unwrap();
        let (state, folder) = (scratch.path().join("state"), scratch.path().join("mounted"));
        [&state, &folder].iter().for_each(|dir| fs::create_dir(dir).unwrap());
        let guard = |name: &str, journal: u64| {
            super::guard(&state, &folder, &name.parse().unwrap(), journal).map_err(|error| error.to_string())
        };
        let file = folder.join("pliant-server-lyon");
        assert_eq!(guard("lyon", 7), Ok(file.clone()));
        assert_eq!(guard("lyon", 7), Ok(file.clone()));
        assert!(guard("lyon", 8).unwrap_err().contains("another server"));
        fs::remove_file(file).unwrap();
        assert!(guard("lyon", 7).unwrap_err().contains("mounted?"));
        fs::write(state.join(ACCOUNTS_FOLDER), "/elsewhere").unwrap();
        assert!(guard("lyon", 7).unwrap_err().contains("found them in /elsewhere"));
    }

    #[test]
    fn jobs_that_are_in_the_state_folder_are_moved_first() {
        let scratch = tempfile::tempdir().unwrap();
        let (state, folder) = (scratch.path().join("state"), scratch.path().join("jobs"));
        fs::create_dir_all(state.join("jobs/1")).unwrap();
        let why = super::open(&state, Some(&folder), 7).unwrap_err().to_string();
        assert!(why.contains("move jobs, subjobs"), "{why}");
    }
}
