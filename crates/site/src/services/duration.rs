//! Lengths of time as people write them.

use std::fmt;

use pliant_model::Span;

/// A text that is no length of time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DurationError {
    found: String,
    /// True if it is a length of time.
    is_length: bool,
}

/// The longest that is read: 10 000 days.
const LONGEST_S: i64 = 10_000 * 86_400;

const UNITS: [(char, i64); 4] = [('d', 86_400), ('h', 3600), ('m', 60), ('s', 1)];

/// Reads `90s`, `15m`, `2h`, `1d`, several of them from the longest to the shortest (`1h30m`), or
/// hours, minutes and seconds (`1:30:00`). A bare number and `1:30` are refused: batch systems do not agree on
/// what they mean.
///
/// # Errors
///
/// If it is none of these, less than a second or more than 10 000 days.
pub fn parse_duration(text: &str) -> Result<Span, DurationError> {
    let seconds = if text.contains(':') { clock(text) } else { units(text) };
    let within = seconds.filter(|seconds| (1..=LONGEST_S).contains(seconds));
    within.map(Span).ok_or_else(|| DurationError { found: text.to_owned(), is_length: seconds.is_some() })
}

fn number(digits: &str) -> Option<i64> {
    let plain = !digits.is_empty() && digits.len() <= 12 && digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|_| plain)
}

fn clock(text: &str) -> Option<i64> {
    let parts: Vec<&str> = text.split(':').collect();
    let [hours, minutes, seconds] = parts[..] else { return None };
    let sixtieth = |part: &str| number(part).filter(|count| part.len() == 2 && *count < 60);
    Some(number(hours)? * 3600 + sixtieth(minutes)? * 60 + sixtieth(seconds)?)
}

fn units(text: &str) -> Option<i64> {
    let (mut rest, mut seconds, mut shorter) = (text, 0i64, &UNITS[..]);
    while !rest.is_empty() {
        let end = rest.find(|letter: char| !letter.is_ascii_digit())?;
        let unit = rest[end..].chars().next()?;
        let at = shorter.iter().position(|(name, _)| *name == unit)?;
        seconds = seconds.checked_add(number(&rest[..end])?.checked_mul(shorter[at].1)?)?;
        shorter = &shorter[at + 1..];
        rest = &rest[end + 1..];
    }
    Some(seconds)
}

/// Writes a length of time so that [`parse_duration`] reads it: `1h30m`.
pub fn show_duration(span: Span) -> String {
    let (mut left, mut text) = (span.seconds().max(0), String::new());
    for (name, seconds) in UNITS {
        if left >= seconds {
            text.push_str(&format!("{}{name}", left / seconds));
            left %= seconds;
        }
    }
    if text.is_empty() { "0s".to_owned() } else { text }
}

/// What Slurm's `D-H`, `D-H:MIN` or `D-H:MIN:S` is here.
fn of_slurm(text: &str) -> Option<String> {
    let (days, clock) = text.split_once('-')?;
    let mut seconds = number(days)?.checked_mul(86_400)?;
    let parts: Vec<i64> = clock.split(':').map(number).collect::<Option<_>>()?;
    if parts.len() > 3 {
        return None;
    }
    for (part, unit) in parts.into_iter().zip([3600, 60, 1]) {
        seconds = seconds.checked_add(part.checked_mul(unit)?)?;
    }
    (1..=LONGEST_S).contains(&seconds).then(|| show_duration(Span(seconds)))
}

impl DurationError {
    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        "write 90s, 15m, 2h, 1d, 1h30m or 1:30:00"
    }
}

impl fmt::Display for DurationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found: String = self.found.chars().take(40).flat_map(char::escape_debug).collect();
        match self.is_length {
            true => {
                write!(f, "expected a length of time from 1s to {}d, found `{found}`", LONGEST_S / 86_400)
            }
            false => write!(
                f,
                "expected a length of time with its unit, such as 90s, 15m or 2h, found `{found}`{}",
                of_slurm(&self.found)
                    .map_or_else(String::new, |meant| format!(": {meant} is meant, perhaps"))
            ),
        }
    }
}

impl std::error::Error for DurationError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_time() {
        let check = |text: &str, seconds| {
            let span = parse_duration(text).unwrap();
            assert_eq!(span, Span(seconds), "{text}");
            assert_eq!(parse_duration(&show_duration(span)), Ok(span), "{text}");
        };
        for (text, seconds) in [("90s", 90), ("15m", 900), ("2h", 7200), ("1d", 86_400), ("1h30m", 5400)] {
            check(text, seconds);
        }
        for (text, seconds) in [("1:30:00", 5400), ("0:00:01", 1), ("100:00:00", 360_000), ("1d1s", 86_401)] {
            check(text, seconds);
        }
        assert_eq!(show_duration(Span(5400)), "1h30m");
    }

    #[test]
    fn errors_say_what_is_wrong() {
        let check = |text: &str, expected: &str| {
            let error = parse_duration(text).unwrap_err().to_string();
            assert!(error.ends_with(expected), "{text}: {error}");
        };
        for text in ["0s", "0:00:00", "10001d"] {
            check(text, &format!("from 1s to 10000d, found `{text}`"));
        }
        check("1-0", "found `1-0`: 1d is meant, perhaps");
        check("1-12:30", "found `1-12:30`: 1d12h30m is meant, perhaps");
        for text in ["1-", "1-2-3", "0-0", "-5s", "1-1:1:1:1", "90"] {
            check(text, &format!("2h, found `{text}`"));
        }
    }

    #[test]
    fn what_could_mean_two_things_is_refused() {
        let bad = [
            "",
            "90",
            "1:30",
            "0s",
            "0:00:00",
            "-5s",
            "+5s",
            "1.5h",
            "5 m",
            "m",
            "1m1h",
            "1m1m",
            "1:60:00",
            "1:5:00",
            "10001d",
            "99999999999999999999d",
            "1h30",
            "1é",
            "1:2:3:4",
            "٣s",
        ];
        for text in bad {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }
}
