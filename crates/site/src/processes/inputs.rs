//! Input files that several folders share, those of the instances of a batch or of the tasks of a subjob: each finds them as
//! links to the same files, so that there is one copy on the disk however many there are.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use pliant_staging::FileName;

/// Some files, and the folder that has them.
#[derive(Clone)]
pub(super) struct Inputs<'a> {
    pub(super) from: PathBuf,
    /// What each is called there, and in the folders that get it.
    names: Vec<(&'a FileName, &'a FileName)>,
}

impl<'a> Inputs<'a> {
    /// Files of which some are called otherwise in the folder that has them, which comes first.
    pub(super) fn new(
        from: PathBuf,
        names: impl IntoIterator<Item = (&'a FileName, &'a FileName)>,
    ) -> Inputs<'a> {
        Inputs { from, names: names.into_iter().collect() }
    }

    /// Files that are called the same everywhere.
    pub(super) fn same(from: PathBuf, names: &'a [FileName]) -> Inputs<'a> {
        Inputs::new(from, names.iter().map(|name| (name, name)))
    }

    /// Puts the files into a folder.
    pub(super) fn give_to(&self, folder: &Path) -> io::Result<()> {
        for (own, name) in &self.names {
            let target = folder.join(name.as_str());
            if let Some(parent) = target.parent() {
                fs::create_dir_all(parent)?;
            }
            fs::hard_link(self.from.join(own.as_str()), &target).map_err(|error| {
                io::Error::new(error.kind(), format!("the input file {}: {error}", name.as_str()))
            })?;
        }
        Ok(())
    }

    /// Removes what is left of them in a folder; what has replaced them is a result. What cannot be removed is
    /// fetched with the results, and does no other harm.
    pub(super) fn take_from(&self, folder: &Path) {
        let file = |path: &Path| fs::symlink_metadata(path).ok().map(|found| (found.dev(), found.ino()));
        for (own, name) in &self.names {
            let target = folder.join(name.as_str());
            if file(&target).is_some() && file(&target) == file(&self.from.join(own.as_str())) {
                let _ = fs::remove_file(&target);
            }
            let mut parents = target.ancestors().skip(1).take_while(|parent| *parent != folder);
            // The innermost first, as long as there is nothing else in them.
            while parents.next().is_some_and(|parent| fs::remove_dir(parent).is_ok()) {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_leaves_what_is_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let (from, folder) = (dir.path().join("inputs"), dir.path().join("work/7"));
        let names: Vec<FileName> = ["a", "in/b", "in/deep/c"].map(|name| name.parse().unwrap()).into();
        for name in &names {
            fs::create_dir_all(from.join(name.as_str()).parent().unwrap()).unwrap();
            fs::write(from.join(name.as_str()), name.as_str()).unwrap();
        }
        fs::create_dir_all(&folder).unwrap();
        let inputs = Inputs::same(from.clone(), &names);
        inputs.give_to(&folder).unwrap();
        assert_eq!(fs::read_to_string(folder.join("in/deep/c")).unwrap(), "in/deep/c");
        inputs.take_from(&folder);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);

        inputs.give_to(&folder).unwrap();
        fs::remove_file(folder.join("a")).unwrap();
        fs::write(folder.join("a"), "mine").unwrap();
        fs::write(folder.join("in/new"), "mine too").unwrap();
        inputs.take_from(&folder);
        let left = |name: &str| fs::read_to_string(folder.join(name)).ok();
        assert_eq!((left("a").as_deref(), left("in/new").as_deref()), (Some("mine"), Some("mine too")));
        assert!(!folder.join("in/b").exists() && !folder.join("in/deep").exists());
        assert_eq!(fs::read_to_string(from.join("a")).unwrap(), "a");

        fs::remove_dir_all(&folder).unwrap();
        fs::remove_file(from.join("in/b")).unwrap();
        fs::create_dir(&folder).unwrap();
        let error = inputs.give_to(&folder).unwrap_err().to_string();
        assert!(error.starts_with("the input file in/b: "), "{error}");
    }
}
