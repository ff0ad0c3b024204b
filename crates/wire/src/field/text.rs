//! Texts, names, keys, bytes.

use std::fmt::{Debug, Display};
use std::str::FromStr;

use pliant_control::environment::{VARIABLE_NAME, may_be_given};
use pliant_control::exact_text::ExactText;
use pliant_control::names::{Handle, Key, Name, User};
use pliant_control::shared_folder::SharedFolder;
use pliant_control::signed::Digest;
use pliant_staging::{Checksum, FileName, NameError, ResultName};
#[cfg(test)]
use proptest::prelude::*;

use super::super::bounds::{
    ADDRESS_BYTES_MAX, ARGUMENT_BYTES_MAX, CALL_BYTES_MAX, NAME_BYTES_MAX, SCRIPT_BYTES_MAX,
    TASK_NAME_BYTES_MAX, TEXT_BYTES_MAX,
};
use super::{FieldType, Malformed};

/// A printable text of one line and at most `most` bytes. It may be empty. What is too long is cut when it is sent, and
/// what is unprintable escaped.
pub(crate) const fn text(most: usize) -> Text {
    Text { what: None, most, is_exact: false }
}

/// The same, not empty; `what` says what it is.
pub(crate) const fn word(what: &'static str, most: usize) -> Text {
    Text { what: Some(what), most, is_exact: false }
}

/// A text for people: a reason or a summary.
pub(crate) const TEXT: Text = text(TEXT_BYTES_MAX);
/// The name of a service that a user asks for.
pub(crate) const SERVICE: Text = word("the name of a service", NAME_BYTES_MAX).exact();
/// The name of an argument that a user gives.
pub(crate) const ARGUMENT_NAME: Text = word("the name of an argument", NAME_BYTES_MAX).exact();
/// The value of an argument that a user gives.
pub(crate) const ARGUMENT: Text = text(ARGUMENT_BYTES_MAX).exact();

#[derive(Clone)]
pub(crate) struct Text {
    what: Option<&'static str>,
    most: usize,
    is_exact: bool,
}

impl Text {
    /// Neither cut nor escaped: it comes from a user, whom the error at the other end informs.
    pub(crate) const fn exact(self) -> Text {
        Text { is_exact: true, ..self }
    }
}

impl FieldType for Text {
    type Value = String;
    type Wire = String;
    fn encode(&self, value: &String) -> String {
        if self.is_exact { value.clone() } else { shortened(value, self.most) }
    }
    fn decode(&self, field: &str, found: String) -> Result<String, Malformed> {
        if let (Some(what), true) = (self.what, found.is_empty()) {
            return Err(Malformed::text(field, what, &found));
        }
        length(field, found.len(), self.most)?;
        if found.contains(is_unprintable) {
            return Err(Malformed::text(field, "printable characters on one line", &found));
        }
        Ok(found)
    }
    #[cfg(test)]
    fn strategy(&self) -> BoxedStrategy<String> {
        let longest = "x".repeat(self.most);
        let texts = prop_oneof![20 => "[a-zéß文🦀'\"`;$]{1,10}", 20 => "[ -~]{1,20}", 1 => Just(longest)];
        match self.what {
            Some(_) => texts.boxed(),
            None => prop_oneof![9 => texts, 1 => Just(String::new())].boxed(),
        }
    }
}

fn length(field: &str, found: usize, most: usize) -> Result<(), Malformed> {
    if found <= most {
        return Ok(());
    }
    Err(Malformed::new(field, format!("at most {most} bytes"), format!("{found} bytes")))
}

/// A text for people: what cannot be printed is escaped, and what is too long cut.
pub(crate) fn shortened(text: &str, most: usize) -> String {
    const CUT: &str = "...";
    let mut written = String::with_capacity(text.len().min(most));
    for letter in text.chars() {
        if is_unprintable(letter) {
            written.extend(letter.escape_default());
        } else {
            written.push(letter);
        }
        if written.len() > most {
            let end = written.floor_char_boundary(most.saturating_sub(CUT.len()));
            written.truncate(end);
            written.push_str(CUT);
            break;
        }
    }
    written
}

/// True if a character ends a line, moves the cursor or turns the direction of writing.
pub(crate) fn is_unprintable(letter: char) -> bool {
    letter.is_control() || matches!(letter, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A text that must have a certain form, as a `T`. It is not cut.
pub(crate) struct FormattedText<T> {
    decoded: fn(&str, String) -> Result<T, Malformed>,
    encoded: fn(&T) -> String,
    /// A regular expression of such texts.
    #[cfg(test)]
    pattern: &'static str,
}

impl<T> Clone for FormattedText<T> {
    fn clone(&self) -> Self {
        FormattedText { ..*self }
    }
}

/// Field types that are texts of a certain form: their names, types, how they are decoded and encoded, and a regular
/// expression that the property tests draw texts from.
macro_rules! formatted {
    ($($(#[$doc:meta])* $name:ident: $type:ty, $decoded:expr, $encoded:expr, $pattern:literal;)+) => {$(
        $(#[$doc])*
        pub(crate) const $name: FormattedText<$type> = FormattedText {
            decoded: $decoded,
            encoded: $encoded,
            #[cfg(test)]
            pattern: $pattern,
        };
    )+};
}

formatted! {
    /// The name of a daemon.
    NAME: Name, |field, found| parsed(field, "a name of 1 to 63 lower-case letters, digits and hyphens", &found),
        Name::to_string, "[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?";
    /// The name of a user.
    USER: User, |field, found| parsed(field, "a user name of 1 to 64 letters, digits and `. _ - @`", &found),
        User::to_string, "[A-Za-z0-9][A-Za-z0-9._@-]{0,20}";
    /// The ID of a job.
    HANDLE: Handle, |field, found| parsed(field, "a job ID like `lyon.17`", &found),
        Handle::to_string, "[a-z0-9]{1,9}\\.([1-9][0-9]{0,8}|4294967295)";
    /// A folder on a shared file system.
    SHARED_FOLDER: SharedFolder,
        |field, found| parsed(field, "a folder on a shared file system like `site-a:alice/run`", &found),
        SharedFolder::to_string, "[a-z0-9]{1,9}:([a-zé ]{1,9}(/[a-z._ ]?[a-z]{1,9}){0,3})?";
    /// The name of an input file.
    FILE_NAME: FileName, file_name, FileName::to_string, "[a-zé][a-z0-9._ -]{0,8}(/[a-z][a-z0-9]{0,8}){0,3}";
    /// The name of a result.
    RESULT_NAME: ResultName, file_name, ResultName::to_string, "stdout|stderr|work(/[a-z]{1,8}){1,3}";
    /// The address of a daemon.
    ADDRESS: String, address, String::clone, "[a-z0-9.-]{1,30}:[1-9][0-9]{0,3}|\\[::1\\]:65535";
    /// The name of an environment variable that a user gives.
    VARIABLE: String, variable, String::clone, "[A-Za-z_][a-z0-9_]{0,9}";
    /// The name of a task of a launch.
    TASK_NAME: String, task_name, String::clone, "[A-Za-z0-9][A-Za-z0-9._-]{0,63}";
}

impl<T: Clone + Debug + 'static> FieldType for FormattedText<T> {
    type Value = T;
    type Wire = String;
    fn encode(&self, value: &T) -> String {
        (self.encoded)(value)
    }
    fn decode(&self, field: &str, found: String) -> Result<T, Malformed> {
        (self.decoded)(field, found)
    }
    #[cfg(test)]
    fn strategy(&self) -> BoxedStrategy<T> {
        let decoded = self.decoded;
        self.pattern.prop_map(move |text| decoded("", text).expect("the pattern has the form")).boxed()
    }
}

fn parsed<T: FromStr>(field: &str, expected: &str, found: &str) -> Result<T, Malformed> {
    found.parse().map_err(|_| Malformed::text(field, expected, found))
}

fn file_name<T: FromStr<Err = NameError>>(field: &str, found: String) -> Result<T, Malformed> {
    let wrong = |error: NameError| Malformed::text(field, format!("a file name {}", error.problem), &found);
    found.parse().map_err(wrong)
}

/// The address of a daemon: only characters of host names and numeric addresses, so that nothing can be injected.
fn address(field: &str, found: String) -> Result<String, Malformed> {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || ".-_:[]".contains(letter);
    let port = |text: &str| text.bytes().all(|digit| digit.is_ascii_digit()) && text.parse::<u16>().is_ok();
    let split =
        found.rsplit_once(':').filter(|(host, end)| !host.is_empty() && host.chars().all(plain) && port(end));
    if split.is_some() && found.len() <= ADDRESS_BYTES_MAX {
        return Ok(found);
    }
    Err(Malformed::text(field, "an address like `lyon.example.org:7450`", &found))
}

fn variable(field: &str, found: String) -> Result<String, Malformed> {
    length(field, found.len(), NAME_BYTES_MAX)?;
    if may_be_given(&found) { Ok(found) } else { Err(Malformed::text(field, VARIABLE_NAME, &found)) }
}

/// The name of a task, which environment variables and a folder have, too.
fn task_name(field: &str, found: String) -> Result<String, Malformed> {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
    let is_name = (1..=TASK_NAME_BYTES_MAX).contains(&found.len())
        && found.starts_with(|first: char| first.is_ascii_alphanumeric())
        && found.chars().all(plain);
    if is_name {
        return Ok(found);
    }
    let expected =
        "the name of a task, 1 to 64 letters, digits and `. _ -` of which the first is a letter or digit";
    Err(Malformed::text(field, expected, &found))
}

/// One of a list of values that have names, by its name; `expected` says what it is.
pub(crate) const fn named<T>(expected: &'static str, all: &'static [T]) -> NamedValue<T> {
    NamedValue { expected, all }
}

#[derive(Clone)]
pub(crate) struct NamedValue<T: 'static> {
    expected: &'static str,
    #[cfg_attr(not(test), expect(dead_code, reason = "only property tests draw from all"))]
    all: &'static [T],
}

impl<T: Copy + Debug + Display + FromStr> FieldType for NamedValue<T> {
    type Value = T;
    type Wire = String;
    fn encode(&self, value: &T) -> String {
        value.to_string()
    }
    fn decode(&self, field: &str, found: String) -> Result<T, Malformed> {
        parsed(field, self.expected, &found)
    }
    #[cfg(test)]
    fn strategy(&self) -> BoxedStrategy<T> {
        proptest::sample::select(self.all).boxed()
    }
}

/// `N` bytes as a `T`; `what` says what they are.
pub(crate) struct FixedBytes<const N: usize, T> {
    what: &'static str,
    decoded: fn([u8; N]) -> T,
    encoded: fn(&T) -> [u8; N],
}

/// The key of a submission.
pub(crate) const KEY: FixedBytes<16, Key> = FixedBytes { what: "a key", decoded: Key, encoded: |key| key.0 };
/// A digest of what is signed.
pub(crate) const DIGEST: FixedBytes<32, Digest> =
    FixedBytes { what: "a SHA-256 digest", decoded: Digest, encoded: |digest| digest.0 };
/// A checksum.
pub(crate) const CHECKSUM: FixedBytes<32, Checksum> =
    FixedBytes { what: "a SHA-256 checksum", decoded: Checksum, encoded: |checksum| checksum.0 };

impl<const N: usize, T> Clone for FixedBytes<N, T> {
    fn clone(&self) -> Self {
        FixedBytes { ..*self }
    }
}

impl<const N: usize, T: Clone + Debug + 'static> FieldType for FixedBytes<N, T> {
    type Value = T;
    type Wire = Vec<u8>;
    fn encode(&self, value: &T) -> Vec<u8> {
        (self.encoded)(value).to_vec()
    }
    fn decode(&self, field: &str, found: Vec<u8>) -> Result<T, Malformed> {
        let expected = |_| format!("{} of {N} bytes", self.what);
        let bytes = found.as_slice().try_into().map_err(expected);
        bytes
            .map(self.decoded)
            .map_err(|expected| Malformed::new(field, expected, format!("{} bytes", found.len())))
    }
    #[cfg(test)]
    fn strategy(&self) -> BoxedStrategy<T> {
        any::<[u8; N]>().prop_map(self.decoded).boxed()
    }
}

/// At most `most` bytes.
pub(crate) const fn bytes_to(most: usize) -> Bytes {
    Bytes { most, is_exact: false }
}

#[derive(Clone)]
pub(crate) struct Bytes {
    most: usize,
    is_exact: bool,
}

impl Bytes {
    /// Not cut: the sender cuts files into pieces itself.
    pub(crate) const fn exact(self) -> Bytes {
        Bytes { is_exact: true, ..self }
    }
}

impl FieldType for Bytes {
    type Value = Vec<u8>;
    type Wire = Vec<u8>;
    fn encode(&self, value: &Vec<u8>) -> Vec<u8> {
        let end = if self.is_exact { value.len() } else { value.len().min(self.most) };
        value[..end].to_vec()
    }
    fn decode(&self, field: &str, found: Vec<u8>) -> Result<Vec<u8>, Malformed> {
        length(field, found.len(), self.most).map(|()| found)
    }
    #[cfg(test)]
    fn strategy(&self) -> BoxedStrategy<Vec<u8>> {
        proptest::collection::vec(any::<u8>(), 0..40).boxed()
    }
}

/// The encoded arguments of a call.
pub(crate) const CALL_VALUES: CallValues = CallValues;

#[derive(Clone)]
pub(crate) struct CallValues;

impl FieldType for CallValues {
    type Value = ExactText;
    type Wire = Vec<u8>;
    fn encode(&self, value: &ExactText) -> Vec<u8> {
        value.as_bytes().to_vec()
    }
    fn decode(&self, field: &str, found: Vec<u8>) -> Result<ExactText, Malformed> {
        length(field, found.len(), CALL_BYTES_MAX).map(|()| found.into())
    }
    #[cfg(test)]
    fn strategy(&self) -> BoxedStrategy<ExactText> {
        proptest::collection::vec(any::<u8>(), 0..40).prop_map(ExactText::from).boxed()
    }
}

/// A script whose first line names its interpreter.
pub(crate) const SCRIPT: Script = Script;

#[derive(Clone)]
pub(crate) struct Script;

impl FieldType for Script {
    type Value = ExactText;
    type Wire = Vec<u8>;
    fn encode(&self, value: &ExactText) -> Vec<u8> {
        value.as_bytes().to_vec()
    }
    fn decode(&self, field: &str, found: Vec<u8>) -> Result<ExactText, Malformed> {
        script(field, &found).map(|()| found.into())
    }
    #[cfg(test)]
    fn strategy(&self) -> BoxedStrategy<ExactText> {
        let text = proptest::collection::vec(any::<u8>(), 0..40);
        text.prop_map(|text| [b"#!".as_slice(), &text].concat().into()).boxed()
    }
}

fn script(field: &str, text: &[u8]) -> Result<(), Malformed> {
    length(field, text.len(), SCRIPT_BYTES_MAX)?;
    if text.starts_with(b"#!") {
        return Ok(());
    }
    let first = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let first = String::from_utf8_lossy(&first[..first.len().min(80)]);
    Err(Malformed::text(field, "a first line that says what runs it, like `#!/bin/sh`", &first))
}
