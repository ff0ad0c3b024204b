//! Options that take a whole number or a length of time within limits: anything else is refused with the limits.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::time::Duration;

use pliant_model::Span;
use pliant_site::services::{DurationError, parse_duration, show_duration};

/// Reads a whole number of `range`.
pub fn whole<T>(range: RangeInclusive<T>) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync
where
    T: TryFrom<i128> + PartialOrd + Display + Clone + Send + Sync,
{
    move |text| {
        let number = text.parse::<i128>().ok().and_then(|number| T::try_from(number).ok());
        number.filter(|number| range.contains(number)).ok_or_else(|| {
            format!("expected a whole number from {} to {}, found `{text}`", range.start(), range.end())
        })
    }
}

/// Reads a length of time of `range` seconds, such as `90s`, `1h` or, if the range has it, `0s`.
pub fn duration(range: RangeInclusive<i64>) -> impl Fn(&str) -> Result<i64, String> + Clone + Send + Sync {
    move |text| {
        let seconds = match text {
            "0" | "0s" => 0,
            text => parse_duration(text).map_err(|error| error.to_string())?.0,
        };
        let (least, most) = (Span(*range.start()), Span(*range.end()));
        range.contains(&seconds).then_some(seconds).ok_or_else(|| {
            format!("expected {} to {}, found `{text}`", show_duration(least), show_duration(most))
        })
    }
}

/// Reads a timeout.
///
/// # Errors
///
/// If it is no length of time.
pub fn timeout(text: &str) -> Result<Duration, DurationError> {
    // A parsed duration is positive.
    parse_duration(text).map(|span| Duration::from_secs(span.seconds().unsigned_abs()))
}

/// Reads a similarity threshold of tasks.
///
/// # Errors
///
/// If it is no number above 0 and below 1.
pub fn similarity_threshold(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| *number > 0.0 && *number < 1.0);
    number.ok_or_else(|| "expected a number above 0 and below 1".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_part_of_the_range_and_of_the_message() {
        let read = whole(1..=20_u32);
        assert_eq!(["1", "20", "+7"].map(|text| read(text).unwrap()), [1, 20, 7]);
        for text in ["0", "21", "-3", "1.5", "", "x", "99999999999999999999999999999999999999999"] {
            let expected = format!("expected a whole number from 1 to 20, found `{text}`");
            assert_eq!(read(text).unwrap_err(), expected);
        }
    }

    #[test]
    fn durations_have_units() {
        let read = duration(0..=7_200);
        assert_eq!(
            ["0", "0s", "90s", "1h30m", "2h"].map(|text| read(text).unwrap()),
            [0, 0, 90, 5_400, 7_200]
        );
        assert_eq!(read("3h").unwrap_err(), "expected 0s to 2h, found `3h`");
        assert!(read("90").unwrap_err().contains("with its unit"));
        assert!(duration(1..=60)("0s").is_err());
    }
}
