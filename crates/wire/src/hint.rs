//! Hints: what a daemon advises the user to do about a refused call, beside the message of the error.

use tonic::Status;
use tonic::metadata::MetadataValue;

/// The metadata of an error that has a hint.
const HINT: &str = "x-pliant-hint";
/// The longest hint that a client shows.
const LENGTH_MAX: usize = 300;

/// Adds what to do about an error. The hint is printable ASCII.
pub fn with_hint(mut status: Status, hint: &'static str) -> Status {
    status.metadata_mut().insert(HINT, MetadataValue::from_static(hint));
    status
}

/// What the daemon says to do about an error; none if it is longer than a line or two, or not printable.
pub fn hint_of(status: &Status) -> Option<&str> {
    // Only printable characters pass.
    let hint = status.metadata().get(HINT)?.to_str().ok()?;
    (hint.len() <= LENGTH_MAX && !hint.contains('\t')).then_some(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_travels_with_its_error() {
        let status = with_hint(Status::permission_denied("only an operator may do this"), "ask an operator");
        assert_eq!(hint_of(&status), Some("ask an operator"));
        assert_eq!(status.message(), "only an operator may do this");
        assert_eq!(hint_of(&Status::permission_denied("without")), None);
    }

    #[test]
    fn what_is_no_line_of_text_is_no_hint() {
        let check = |bytes: &[u8]| {
            let mut status = Status::internal("");
            // Metadata admits these bytes.
            status.metadata_mut().insert(HINT, MetadataValue::try_from(bytes).unwrap());
            assert_eq!(hint_of(&status), None, "{bytes:?}");
        };
        check(b"tab\tin it");
        check("caf\u{e9}".as_bytes());
        check(&[b'x'; LENGTH_MAX + 1]);
    }
}
