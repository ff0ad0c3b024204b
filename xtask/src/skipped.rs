//! What tests leave out for want of a file or a program: they note it in a file, and the run ends with it.
//! `crates/testing` writes the notes.

use std::collections::BTreeMap;

/// The variable that names the file.
pub(crate) const VARIABLE: &str = "PLIANT_SKIPPED";

/// What was left out: for each thing that was absent, the tests that went without it.
#[derive(PartialEq, Eq, Debug, Default)]
pub(crate) struct Skipped {
    tests_of: BTreeMap<Absent, Vec<String>>,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Absent {
    /// A file outside the repository.
    File(String),
    /// Anything else.
    Other(String),
}

impl Skipped {
    /// Lines of kind, test and what was absent, between tabs.
    pub(crate) fn parse(text: &str) -> Skipped {
        let mut skipped = Skipped::default();
        for line in text.lines() {
            let mut fields = line.splitn(3, '\t');
            let (kind, test) = (fields.next().unwrap_or_default(), fields.next().unwrap_or("?"));
            let what = fields.next().unwrap_or(line).to_owned();
            let absent = if kind == "file" { Absent::File(what) } else { Absent::Other(what) };
            let tests = skipped.tests_of.entry(absent).or_default();
            if let Err(place) = tests.binary_search_by(|known| known.as_str().cmp(test)) {
                tests.insert(place, test.to_owned());
            }
        }
        skipped
    }

    /// How many files were absent.
    pub(crate) fn files(&self) -> usize {
        self.tests_of.keys().filter(|absent| matches!(absent, Absent::File(_))).count()
    }
}

impl std::fmt::Display for Skipped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.tests_of.is_empty() {
            return write!(f, "no test has left anything out");
        }
        write!(f, "counted as passed, though tests have left parts out:")?;
        for (Absent::File(what) | Absent::Other(what), tests) in &self.tests_of {
            write!(f, "\n  {what}: {}", tests.join(", "))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_grouped_by_what_was_absent() {
        let notes = "file\toracle::easy\t/logs/CTC is not there\nprogram\tbrowser::pages\tno chromium\n\
                     file\toracle::cbf\t/logs/CTC is not there\nfile\toracle::easy\t/logs/CTC is not there\n";
        let skipped = Skipped::parse(notes);
        assert_eq!(skipped.files(), 1);
        assert_eq!(
            skipped.to_string(),
            "counted as passed, though tests have left parts out:\n  \
             /logs/CTC is not there: oracle::cbf, oracle::easy\n  no chromium: browser::pages"
        );
        assert_eq!(Skipped::parse("").to_string(), "no test has left anything out");
    }
}
