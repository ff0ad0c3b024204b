//! Reading with checks: the parts that messages are made of. Each takes the name of the field, for the error.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

use pliant_control::names::{Handle, Key, Name, User};
use pliant_model::{Procs, Span, SpanMs, Speed, Time};
use pliant_staging::{Checksum, FileName, NameError, ResultName};

use super::bounds::{self, ADDRESS_BYTES_MAX};
use super::malformed::Malformed;

type Read<T> = Result<T, Malformed>;

/// A message within the message.
pub(super) fn required<M, T>(field: &str, expected: &str, message: Option<M>) -> Read<T>
where
    T: TryFrom<M, Error = Malformed>,
{
    let message = message.ok_or_else(|| Malformed::missing(field, expected))?;
    T::try_from(message).map_err(|malformed| malformed.under(field))
}

/// A message that may be absent.
pub(super) fn optional<M, T>(field: &str, message: Option<M>) -> Read<Option<T>>
where
    T: TryFrom<M, Error = Malformed>,
{
    message.map(T::try_from).transpose().map_err(|malformed| malformed.under(field))
}

/// A list of at most `most` items.
pub(super) fn list<M, T>(
    field: &str,
    items: Vec<M>,
    most: usize,
    item: impl Fn(M) -> Result<T, Malformed>,
) -> Read<Vec<T>> {
    count(field, items.len(), most)?;
    let numbered = items.into_iter().enumerate();
    numbered.map(|(index, one)| item(one).map_err(|malformed| malformed.at(field, index))).collect()
}

/// The length of a list.
pub(super) fn count(field: &str, found: usize, most: usize) -> Read<()> {
    if found <= most {
        return Ok(());
    }
    Err(Malformed::new(field, format!("at most {most} items"), found))
}

/// A number in a range.
pub(super) fn number<N: PartialOrd + Display>(
    field: &str,
    what: &str,
    range: &RangeInclusive<N>,
    found: N,
) -> Read<N> {
    if range.contains(&found) {
        return Ok(found);
    }
    Err(Malformed::new(field, format!("{what} from {} to {}", range.start(), range.end()), found))
}

/// At least one processor.
pub(super) fn procs(field: &str, found: u32) -> Read<Procs> {
    number(field, "a number of processors", &bounds::PROCS, found).map(Procs)
}

/// Processors, or none.
pub(super) fn free(field: &str, found: u32) -> Read<Procs> {
    number(field, "a number of processors", &(0..=*bounds::PROCS.end()), found).map(Procs)
}

/// The walltime of a request.
pub(super) fn walltime(field: &str, found: i64) -> Read<Span> {
    number(field, "a walltime in seconds", &bounds::WALLTIME_S, found).map(Span)
}

/// The walltime of an estimate or a job.
pub(super) fn scaled_walltime(field: &str, found: i64) -> Read<Span> {
    number(field, "a walltime in seconds", &bounds::SCALED_WALLTIME_S, found).map(Span)
}

/// An instant.
pub(super) fn time(field: &str, found: i64) -> Read<Time> {
    number(field, "seconds since the Unix epoch", &bounds::TIME_S, found).map(Time)
}

/// An instant, or none if nobody knows when ([`Time::MAX`]).
pub(super) fn time_or_never(field: &str, found: Option<i64>) -> Read<Time> {
    optional_time(field, found).map(|time| time.unwrap_or(Time::MAX))
}

/// An instant that may be absent.
pub(super) fn optional_time(field: &str, found: Option<i64>) -> Read<Option<Time>> {
    found.map(|found| time(field, found)).transpose()
}

/// A difference of instants that may be absent.
pub(super) fn optional_span(field: &str, found: Option<i64>) -> Read<Option<Span>> {
    found.map(|found| number(field, "seconds", &bounds::TIME_S, found).map(Span)).transpose()
}

/// A length of time in milliseconds.
pub(super) fn span_ms(field: &str, found: i64) -> Read<SpanMs> {
    number(field, "milliseconds", &(0..=*bounds::TIME_MS.end()), found).map(SpanMs)
}

/// A speed.
pub(super) fn speed(field: &str, found: f64) -> Read<Speed> {
    let (least, most) = (Speed::RANGE.start(), Speed::RANGE.end());
    Speed::new(found).map_err(|_| Malformed::new(field, format!("a speed from {least} to {most}"), found))
}

/// How many of the best answers are wanted; one if that is not said.
pub(super) fn best(field: &str, found: u32) -> Read<u32> {
    or_else(1, field, "a number of answers", &bounds::BEST, found)
}

/// A number in a range that does not begin at 0; `unsaid` in place of 0, which is what is read if nothing is said.
pub(super) fn or_else(
    unsaid: u32,
    field: &str,
    what: &str,
    range: &RangeInclusive<u32>,
    found: u32,
) -> Read<u32> {
    number(field, what, range, if found == 0 { unsaid } else { found })
}

/// A text that is read as something else, or none if it is empty.
pub(super) fn unless_empty<S: AsRef<str>, T>(found: S, read: impl FnOnce(S) -> Read<T>) -> Read<Option<T>> {
    if found.as_ref().is_empty() { Ok(None) } else { read(found).map(Some) }
}

/// The name of a daemon.
pub(super) fn name(field: &str, found: &str) -> Read<Name> {
    parsed(field, "a name of 1 to 63 lower-case letters, digits and hyphens", found)
}

/// The name of a daemon, or none if it is empty.
pub(super) fn optional_name(field: &str, found: &str) -> Read<Option<Name>> {
    unless_empty(found, |found| name(field, found))
}

/// The name of a user.
pub(super) fn user(field: &str, found: &str) -> Read<User> {
    parsed(field, "a user name of 1 to 64 letters, digits and `. _ - @`", found)
}

/// The handle of a job.
pub(super) fn handle(field: &str, found: &str) -> Read<Handle> {
    parsed(field, "a job handle like `lyon.17`", found)
}

fn parsed<T: FromStr>(field: &str, expected: &str, found: &str) -> Read<T> {
    found.parse().map_err(|_| Malformed::text(field, expected, found))
}

/// The key of a submission.
pub(super) fn key(field: &str, found: &[u8]) -> Read<Key> {
    bytes(field, "a key", found).map(Key)
}

/// A checksum.
pub(super) fn checksum(field: &str, found: &[u8]) -> Read<Checksum> {
    bytes(field, "a SHA-256 checksum", found).map(Checksum)
}

fn bytes<const N: usize>(field: &str, what: &str, found: &[u8]) -> Read<[u8; N]> {
    let wrong = |_| Malformed::new(field, format!("{what} of {N} bytes"), format!("{} bytes", found.len()));
    found.try_into().map_err(wrong)
}

/// At most `most` bytes.
pub(super) fn bytes_to(field: &str, found: Vec<u8>, most: usize) -> Read<Vec<u8>> {
    length(field, found.len(), most).map(|()| found)
}

fn length(field: &str, found: usize, most: usize) -> Read<()> {
    if found <= most {
        return Ok(());
    }
    Err(Malformed::new(field, format!("at most {most} bytes"), format!("{found} bytes")))
}

/// The name of an input file.
pub(super) fn file_name(field: &str, found: &str) -> Read<FileName> {
    found.parse().map_err(|error| no_file_name(field, found, &error))
}

/// The name of a result.
pub(super) fn result_name(field: &str, found: &str) -> Read<ResultName> {
    found.parse().map_err(|error| no_file_name(field, found, &error))
}

fn no_file_name(field: &str, found: &str, error: &NameError) -> Malformed {
    Malformed::text(field, format!("a file name {}", error.problem), found)
}

/// A printable text of one line and at most `most` bytes. It may be empty.
pub(super) fn text(field: &str, found: String, most: usize) -> Read<String> {
    length(field, found.len(), most)?;
    if found.contains(is_unprintable) {
        return Err(Malformed::text(field, "printable characters on one line", &found));
    }
    Ok(found)
}

/// A text for people that may be absent.
pub(super) fn optional_text(field: &str, found: Option<String>) -> Read<Option<String>> {
    found.map(|found| text(field, found, bounds::TEXT_BYTES_MAX)).transpose()
}

/// The same, not empty.
pub(super) fn word(field: &str, what: &str, found: String, most: usize) -> Read<String> {
    if found.is_empty() {
        return Err(Malformed::text(field, what, &found));
    }
    text(field, found, most)
}

/// Where a daemon is reached. Only characters that host names and numeric addresses have, so that nothing else
/// can be smuggled into what is made of it.
pub(super) fn address(field: &str, found: String) -> Read<String> {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || ".-_:[]".contains(letter);
    let port = |text: &str| text.bytes().all(|digit| digit.is_ascii_digit()) && text.parse::<u16>().is_ok();
    let split =
        found.rsplit_once(':').filter(|(host, end)| !host.is_empty() && host.chars().all(plain) && port(end));
    if split.is_some() && found.len() <= ADDRESS_BYTES_MAX {
        return Ok(found);
    }
    Err(Malformed::text(field, "an address like `lyon.example.org:7450`", &found))
}

/// True if a character ends a line, moves the cursor or turns the direction of writing.
pub(super) fn is_unprintable(letter: char) -> bool {
    letter.is_control() || matches!(letter, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}
