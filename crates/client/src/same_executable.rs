//! Whether the work in a folder runs what its user asks for now. Only the folder's own copy of a script is run.

use pliant_staging::Checksum;
use pliant_wire::{Executable, ParameterScript};

use crate::work_folder::{FolderError, Work, WorkFolder};

impl<W: Work> WorkFolder<W> {
    /// An error unless the two run the same, in the same way.
    pub(crate) fn expect_executable(
        &self,
        expected: &Executable,
        found: &Executable,
    ) -> Result<(), FolderError> {
        let (Executable::Script(expected), Executable::Script(found)) = (expected, found) else {
            let shown = |executable: &Executable| match executable {
                Executable::Service(name) => name.clone(),
                Executable::Script(script) => shown_script(script),
            };
            return self.expect("service", &shown(expected), &shown(found));
        };
        self.expect("script", &shown_script(expected), &shown_script(found))?;
        // Quoted, so that no two lists are shown alike.
        let words = |script: &ParameterScript| format!("{:?}", script.arguments);
        self.expect("arguments of the script", &words(expected), &words(found))?;
        let variables = |script: &ParameterScript| {
            let each = script.environment.iter().map(|(name, value)| format!("{name}={value:?}"));
            each.collect::<Vec<_>>().join(" ")
        };
        self.expect("--env", &variables(expected), &variables(found))?;
        let folder =
            |script: &ParameterScript| script.folder.as_ref().map_or("none".to_owned(), ToString::to_string);
        self.expect("--chdir", &folder(expected), &folder(found))?;
        let stdin =
            |script: &ParameterScript| script.stdin.as_ref().map_or("none".to_owned(), ToString::to_string);
        self.expect("--stdin", &stdin(expected), &stdin(found))?;
        self.expect("--merge-output", &expected.merge_output, &found.merge_output)?;
        self.expect("time, processors and resources", &shown_work(expected), &shown_work(found))
    }
}

/// A script by its name and its content.
fn shown_script(script: &ParameterScript) -> String {
    format!("{} (SHA-256 {})", script.name, Checksum::of(script.text.as_bytes()))
}

/// What one run of a script needs.
fn shown_work(script: &ParameterScript) -> String {
    let work = &script.work;
    let resources = work.resources.iter().map(|resources| format!(", {resources}"));
    let size = format!("{} s, {} processors", work.walltime.seconds(), work.procs);
    std::iter::once(size).chain(resources).collect()
}
