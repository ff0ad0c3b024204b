//! Files that go with a job: scripts and inputs, named on the command line or in a file of the user.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use pliant_control::exact_text::ExactText;
use pliant_staging::{Checksum, FileName, FileSpec, StagingError, check_manifest};
use pliant_wire::bounds;

use crate::error::RequestError;

/// An input file: its name in the job's folder, and its path.
#[derive(Clone, PartialEq, Debug)]
pub struct Input {
    name: FileName,
    path: PathBuf,
}

impl Input {
    /// The same, with a relative path from this folder on.
    pub fn relative_to(self, folder: &Path) -> Input {
        Input { path: folder.join(self.path), ..self }
    }

    /// Its name in the folder of the job.
    pub fn name(&self) -> &FileName {
        &self.name
    }

    /// Its path on this machine.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Checks that it is a file that can be read.
    pub(crate) fn check(&self, asked: &str) -> Result<(), RequestError> {
        self.open(asked).map(drop)
    }

    fn open(&self, asked: &str) -> Result<File, RequestError> {
        let path = &self.path;
        let failed = |error: std::io::Error| RequestError::io(path, "read", &error);
        // Checked before it is opened: a pipe without a writer would block.
        if !std::fs::metadata(path).map_err(failed)?.is_file() {
            let problem = format!("{asked}: {}: expected a file, found something else", path.display());
            return Err(RequestError::input(problem).hint("put the files of a folder into an archive"));
        }
        File::open(path).map_err(failed)
    }

    /// Reads the file for its size and checksum.
    fn announced(&self, asked: &str) -> Result<(FileSpec, PathBuf), RequestError> {
        let failed = |error: std::io::Error| RequestError::io(&self.path, "read", &error);
        let (sha256, size) = Checksum::of_reader(self.open(asked)?).map_err(failed)?;
        Ok((FileSpec { name: self.name.clone(), size, sha256 }, self.path.clone()))
    }
}

/// The name and the text of a script; `asked` is where it is named, for errors.
pub fn script_file(asked: &str, path: &Path) -> Result<(String, ExactText), RequestError> {
    let name = own_name(path)?;
    check_name(asked, name)?;
    let text = std::fs::read(path).map_err(|error| RequestError::io(path, "read", &error))?;
    Ok((name.to_owned(), exact_text(&path.display().to_string(), text)?))
}

/// The text of a script that was typed into a page.
pub fn typed_script(name: &str, text: &str) -> Result<ExactText, RequestError> {
    if name.contains('/') {
        let problem = format!("name: expected a name without slashes, found `{}`", name.escape_debug());
        return Err(RequestError::input(problem).hint("give the script a plainer name"));
    }
    check_name("name", name)?;
    exact_text(name, text.as_bytes().to_vec())
}

/// Refuses a name that no script has: it is the name of the job.
fn check_name(asked: &str, name: &str) -> Result<(), RequestError> {
    if let Err(error) = name.parse::<FileName>() {
        let problem = format!("{asked}: {error}");
        return Err(RequestError::input(problem).hint("give the script a plainer name"));
    }
    if name.len() > bounds::NAME_BYTES_MAX {
        let (most, found) = (bounds::NAME_BYTES_MAX, name.len());
        let problem = format!("{asked}: expected a name of at most {most} bytes, found {found}");
        return Err(RequestError::input(problem).hint("give the script a shorter name"));
    }
    Ok(())
}

/// The name and the text of a script on standard input.
pub fn script_on_standard_input() -> Result<(String, ExactText), RequestError> {
    let mut text = Vec::new();
    let most = bounds::SCRIPT_BYTES_MAX as u64 + 1;
    let read = std::io::stdin().lock().take(most).read_to_end(&mut text);
    read.map_err(|error| RequestError::system(format!("cannot read standard input: {error}")))?;
    Ok(("stdin".to_owned(), exact_text("standard input", text)?))
}

/// The text of a script; `shown` is where it is from, for errors.
fn exact_text(shown: &str, text: Vec<u8>) -> Result<ExactText, RequestError> {
    if text.len() > bounds::SCRIPT_BYTES_MAX {
        let (most, found) = (bounds::SCRIPT_BYTES_MAX, text.len());
        return Err(RequestError::input(format!(
            "{shown}: expected a script of at most {most} bytes, found {found}"
        ))
        .hint("give large data as input files, with --in"));
    }
    if !text.starts_with(b"#!") {
        let problem =
            format!("{shown}:1: expected a first line that names the interpreter of the script, found none");
        return Err(RequestError::input(problem).hint("begin it with #!/bin/sh, or another interpreter"));
    }
    Ok(text.into())
}

/// What is announced of these files, once each is read; `asked` is where they are named, for errors.
pub fn announced(asked: &str, inputs: &[Input]) -> Result<Vec<(FileSpec, PathBuf)>, RequestError> {
    let inputs = inputs.iter().map(|input| input.announced(asked)).collect::<Result<Vec<_>, _>>()?;
    let specs: Vec<FileSpec> = inputs.iter().map(|(spec, _)| spec.clone()).collect();
    let clash = |error| RequestError::input(format!("{asked}: {error}")).hint(StagingError::hint(&error));
    check_manifest(&specs).map_err(clash)?;
    Ok(inputs)
}

/// `FILE` or `NAME=FILE`.
pub fn input(text: &str) -> Result<Input, String> {
    let (name, path) = match text.split_once('=') {
        Some((name, path)) if !path.is_empty() => (name.to_owned(), PathBuf::from(path)),
        Some(_) => return Err(format!("expected a file behind `=`, found `{text}`")),
        None => {
            let path = PathBuf::from(text);
            (own_name(&path).map_err(|_| format!("expected a file, found `{text}`"))?.to_owned(), path)
        }
    };
    let named = name.parse::<FileName>();
    let name = named.map_err(|error| format!("{error}; NAME=FILE sends it under another name"))?;
    Ok(Input { name, path })
}

/// The last part of a path.
fn own_name(path: &Path) -> Result<&str, RequestError> {
    let name = path.file_name().and_then(|name| name.to_str());
    name.ok_or_else(|| {
        RequestError::input(format!("{}: expected a file name in UTF-8, found none", path.display()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_have_a_name_in_the_folder_of_the_job() {
        let check = |text: &str, expected: Result<(&str, &str), &str>| match (input(text), expected) {
            (Ok(found), Ok((name, path))) => {
                assert_eq!((found.name.as_str(), found.path.as_path()), (name, Path::new(path)), "{text}");
            }
            (Err(found), Err(part)) => assert!(found.contains(part), "{text}: {found}"),
            (found, _) => panic!("{text}: {found:?}"),
        };
        check("data.csv", Ok(("data.csv", "data.csv")));
        check("../far/data.csv", Ok(("data.csv", "../far/data.csv")));
        check("in/a.csv=/tmp/b=c.csv", Ok(("in/a.csv", "/tmp/b=c.csv")));
        check("..", Err("expected a file"));
        check("", Err("expected a file"));
        check("a=", Err("expected a file behind `=`"));
        check("../a=b", Err("without `.` and `..`"));
        check("=b", Err("not empty"));
        check("it's (1).csv", Ok(("it's (1).csv", "it's (1).csv")));
        check("a\nb", Err("NAME=FILE sends it under another name"));
    }
}
