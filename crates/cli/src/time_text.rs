//! Instants and lengths of time as people read them.

use std::time::SystemTime;

use pliant_model::{Span, Time};
use pliant_site::services::show_duration;

/// The present, in whole seconds since the Unix epoch; the epoch itself if the clock says something earlier.
pub(crate) fn now() -> Time {
    let elapsed = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Time(i64::try_from(elapsed.as_secs()).unwrap_or(i64::MAX))
}

/// An instant in UTC: `2026-11-21 11:03:05Z`.
pub(crate) fn moment(time: Time) -> String {
    time.utc().to_string()
}

/// How far an instant is from now: `in 5m`, `2h10m ago`, `now`.
pub(crate) fn from_now(time: Time, now: Time) -> String {
    match (time - now).0 {
        0 => "now".to_owned(),
        seconds if seconds > 0 => format!("in {}", rough(Span(seconds))),
        seconds => format!("{} ago", rough(Span(-seconds))),
    }
}

/// The completion that was expected of a job where it waited; none if it was not planned there.
pub(crate) fn known(before: Time) -> Option<Time> {
    Some(before).filter(|before| *before != Time::MAX)
}

/// The same for people.
pub(crate) fn before_from_now(before: Time, now: Time) -> String {
    known(before).map_or_else(|| "not planned".to_owned(), |before| from_now(before, now))
}

/// An instant both ways: `2026-11-21 11:03:05Z (in 5m)`.
pub(crate) fn both(time: Time, now: Time) -> String {
    format!("{} ({})", moment(time), from_now(time, now))
}

/// A rounded duration: hours without seconds, days without minutes.
pub(crate) fn rough(span: Span) -> String {
    let seconds = span.0.max(0);
    let unit = match seconds {
        0..3_600 => 1,
        3_600..86_400 => 60,
        _ => 3_600,
    };
    show_duration(Span(seconds - seconds % unit))
}

/// A difference with its sign: `+1m30s`, `-5s`, `0s`.
pub(crate) fn signed(span: Span) -> String {
    let sign = match span.0 {
        0 => "",
        seconds if seconds > 0 => "+",
        _ => "-",
    };
    format!("{sign}{}", rough(Span(span.0.saturating_abs())))
}

/// A difference between what happened and what was expected, in words.
pub(crate) fn against_expected(error: Span) -> String {
    match error.0 {
        0 => "as expected".to_owned(),
        seconds if seconds > 0 => format!("{} later than expected", rough(error)),
        seconds => format!("{} earlier than expected", rough(Span(-seconds))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_from_now() {
        let check =
            |seconds: i64, expected: &str| assert_eq!(from_now(Time(1000 + seconds), Time(1000)), expected);
        check(0, "now");
        check(1, "in 1s");
        check(-150, "2m30s ago");
        check(3_661, "in 1h1m");
        check(-(86_400 + 3_599), "1d ago");
        check(2 * 86_400 + 7_300, "in 2d2h");
    }

    #[test]
    fn differences() {
        let check = |seconds, sign: &str, words: &str| {
            assert_eq!(
                (signed(Span(seconds)).as_str(), against_expected(Span(seconds)).as_str()),
                (sign, words)
            );
        };
        check(0, "0s", "as expected");
        check(90, "+1m30s", "1m30s later than expected");
        check(-5, "-5s", "5s earlier than expected");
    }
}
