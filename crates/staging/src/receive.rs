//! Input files that arrive in one stream, put into the folder of a job by a process of the account as which the job runs. The
//! server has verified them; what is wrong with the stream keeps the job from being started.

use std::fs::{File, Metadata};
use std::io::{self, ErrorKind, Read, Write};
use std::path::Path;

use rustix::fs::{Mode, fchmod};

use super::adopt::{Inputs, WORK};
use super::error::StagingError;
use super::folder::Folder;
use super::manifest::{FileSpec, check_manifest};
use super::share::SHARED;

/// Puts files whose contents follow each other on `content` into the working folder of a job, which is made. A job that was given
/// its files before keeps what it has made of them: then the stream is only read.
///
/// # Errors
///
/// [`StagingError::TooLittle`] if the stream ends early; whatever the disk refuses.
pub fn receive_inputs(
    job_dir: &Path,
    files: &[FileSpec],
    content: &mut impl Read,
) -> Result<(), StagingError> {
    check_manifest(files)?;
    let job = Folder::create(job_dir)?;
    if Inputs::are_given(&job)? {
        return files.iter().try_for_each(|spec| skip(spec, job_dir, content));
    }
    let work = job.make_child(WORK)?;
    let mut given = Vec::new();
    for spec in files {
        given.push((spec.clone(), put(&work, spec, content, Mode::RUSR | Mode::WUSR)?));
    }
    Inputs::given(&job, given)
}

/// Copies files out of a folder into the working folder of a job, which is made. A job that was given its files before keeps what it has
/// made of them.
///
/// # Errors
///
/// As for [`receive_inputs`]; [`StagingError::Missing`] if a file is not there.
pub fn copy_inputs(job_dir: &Path, files: &[FileSpec], from: &Path) -> Result<(), StagingError> {
    check_manifest(files)?;
    let job = Folder::create(job_dir)?;
    if Inputs::are_given(&job)? {
        return Ok(());
    }
    let work = job.make_child(WORK)?;
    let mut given = Vec::new();
    for spec in files {
        let path = from.join(spec.name.as_str());
        let mut content = File::open(&path).map_err(|error| match error.kind() {
            ErrorKind::NotFound => StagingError::Missing { name: spec.name.clone() },
            _ => StagingError::io(path, error),
        })?;
        given.push((spec.clone(), put(&work, spec, &mut content, Mode::RUSR | Mode::WUSR)?));
    }
    Inputs::given(&job, given)
}

/// Puts files whose contents follow each other on `content` into the folder of files that several tasks of a job share. From then
/// on they cannot be written.
///
/// # Errors
///
/// As for [`receive_inputs`].
pub fn receive_shared(
    job_dir: &Path,
    files: &[FileSpec],
    content: &mut impl Read,
) -> Result<(), StagingError> {
    check_manifest(files)?;
    let shared = Folder::create(job_dir)?.make_child(SHARED)?;
    let unwritable = Mode::RUSR;
    files.iter().try_for_each(|spec| put(&shared, spec, content, unwritable).map(drop))
}

/// Puts one file into a folder, in the place of what an earlier try has left.
fn put(
    folder: &Folder,
    spec: &FileSpec,
    content: &mut impl Read,
    mode: Mode,
) -> Result<Metadata, StagingError> {
    let mut folders = Vec::new();
    for name in spec.name.folders() {
        folders.push(folders.last().unwrap_or(folder).make_child(name)?);
    }
    let folder = folders.last().unwrap_or(folder);
    let last = spec.name.last();
    let failed = |error| StagingError::io(folder.path_of(last), error);
    folder.remove(last)?;
    let mut file = folder.file_to_write(last, Mode::RUSR | Mode::WUSR)?;
    copy(spec, content, &mut file).map_err(failed)??;
    fchmod(&file, mode).map_err(|error| failed(error.into()))?;
    file.sync_all().map_err(failed)?;
    folder.sync()?;
    let metadata: io::Result<Metadata> = File::metadata(&file);
    metadata.map_err(failed)
}

fn skip(spec: &FileSpec, job_dir: &Path, content: &mut impl Read) -> Result<(), StagingError> {
    copy(spec, content, &mut io::sink()).map_err(|error| StagingError::io(job_dir, error))?
}

/// Copies as many bytes as the file has.
fn copy(
    spec: &FileSpec,
    content: &mut impl Read,
    file: &mut impl Write,
) -> io::Result<Result<(), StagingError>> {
    let copied = match io::copy(&mut content.take(spec.size), file) {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => 0,
        copied => copied?,
    };
    let (name, announced) = (spec.name.clone(), spec.size);
    Ok(if copied == announced {
        Ok(())
    } else {
        Err(StagingError::TooLittle { name, announced, found: copied })
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, symlink};

    use super::super::checksum::Checksum;
    use super::super::results::{ResultLimits, results};
    use super::*;

    fn specs(names: &[&str]) -> Vec<FileSpec> {
        let spec = |name: &&str| FileSpec {
            name: name.parse().unwrap(),
            size: name.len() as u64,
            sha256: Checksum::of(name.as_bytes()),
        };
        names.iter().map(spec).collect()
    }

    fn names_of_results(dir: &Path) -> Vec<String> {
        let limits = ResultLimits { files: 100, bytes: 1 << 20 };
        results(dir, limits).unwrap().files.into_iter().map(|file| file.name.to_string()).collect()
    }

    #[test]
    fn inputs_arrive_in_one_stream_and_are_no_results() {
        let dir = tempfile::tempdir().unwrap();
        let files = specs(&["a.txt", "in/b.txt"]);
        let stream = "a.txtin/b.txt";
        assert!(matches!(
            receive_inputs(dir.path(), &files, &mut &stream.as_bytes()[..7]),
            Err(StagingError::TooLittle { found: 2, .. })
        ));
        receive_inputs(dir.path(), &files, &mut stream.as_bytes()).unwrap();
        let read = |name: &str| fs::read_to_string(dir.path().join("work").join(name)).unwrap();
        assert_eq!((read("a.txt"), read("in/b.txt")), ("a.txt".to_owned(), "in/b.txt".to_owned()));
        assert_eq!(names_of_results(dir.path()), [""; 0]);
        // What the job has done with them stays.
        fs::write(dir.path().join("work/a.txt"), "mine").unwrap();
        receive_inputs(dir.path(), &files, &mut stream.as_bytes()).unwrap();
        assert_eq!(read("a.txt"), "mine");
        assert_eq!(names_of_results(dir.path()), ["work/a.txt"]);
    }

    #[test]
    fn no_link_is_followed() {
        let dir = tempfile::tempdir().unwrap();
        let elsewhere = dir.path().join("elsewhere");
        fs::create_dir(&elsewhere).unwrap();
        fs::write(elsewhere.join("a.txt"), "theirs").unwrap();
        let job = dir.path().join("job");
        fs::create_dir_all(job.join("work")).unwrap();
        symlink(&elsewhere, job.join("work/in")).unwrap();
        symlink(elsewhere.join("a.txt"), job.join("work/a.txt")).unwrap();
        assert!(receive_inputs(&job, &specs(&["in/b.txt"]), &mut "in/b.txt".as_bytes()).is_err());
        receive_inputs(&job, &specs(&["a.txt"]), &mut "a.txt".as_bytes()).unwrap();
        assert_eq!(fs::read_to_string(elsewhere.join("a.txt")).unwrap(), "theirs");
        assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 1);
    }

    #[test]
    fn shared_files_cannot_be_written() {
        let dir = tempfile::tempdir().unwrap();
        for _ in 0..2 {
            receive_shared(dir.path(), &specs(&["a.txt"]), &mut "a.txt".as_bytes()).unwrap();
        }
        assert_eq!(fs::metadata(dir.path().join("inputs/a.txt")).unwrap().mode() & 0o777, 0o400);
    }
}
