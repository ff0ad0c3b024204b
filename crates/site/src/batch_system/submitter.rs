//! How a server's own jobs are distinguished from others' in a listing.

/// The user as whom a server submits, and the tags that its jobs carry. `U` is how the batch system writes users.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Submitter<U> {
    /// What the tags begin with: `pliant:<server>:`.
    pub(crate) prefix: String,
    /// The user. Others may give their jobs any name.
    pub(crate) user: U,
}

impl<U> Submitter<U> {
    /// The tag of a job.
    pub(crate) fn tag(&self, number: u32) -> String {
        format!("{}{number}", self.prefix)
    }

    /// The number that a tag says.
    pub(crate) fn number(&self, text: &str) -> Option<u32> {
        let number = text.strip_prefix(&self.prefix)?;
        // One way to write each: no sign, no leading zero.
        number.parse().ok().filter(|&parsed| self.tag(parsed) == text)
    }
}
