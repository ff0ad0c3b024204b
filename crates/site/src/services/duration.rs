//! Lengths of time as people write them.

use std::fmt;

use pliant_model::Span;

/// A text that is no length of time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DurationError {
    found: String,
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
    let seconds = seconds.filter(|seconds| (1..=LONGEST_S).contains(seconds));
    seconds.map(Span).ok_or_else(|| DurationError { found: text.to_owned() })
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

impl DurationError {
    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        "write 90s, 15m, 2h, 1d, 1h30m or 1:30:00"
    }
}

impl fmt::Display for DurationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found: String = self.found.chars().take(40).flat_map(char::escape_debug).collect();
        write!(f, "expected a length of time with its unit, such as 90s, 15m or 2h, found `{found}`")
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
