//! A text that separates what a command prints and that no user can have written into the name of a job.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};

/// How the output of one call is marked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Mark(String);

impl Mark {
    /// A mark that cannot be guessed.
    pub(super) fn draw() -> Mark {
        // The standard library's tables draw their keys from the system.
        let draw = || RandomState::new().build_hasher().finish();
        Mark(format!("\u{1e}{:016x}{:016x}", draw(), draw()))
    }

    #[cfg(any(test, feature = "fuzzing"))]
    pub(super) fn fixed(text: &str) -> Mark {
        Mark(text.to_owned())
    }

    pub(super) fn text(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::Mark;

    #[test]
    fn two_marks_differ() {
        assert_ne!(Mark::draw(), Mark::draw());
    }
}
