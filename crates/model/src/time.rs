//! Integer time: floating-point time double-books processors (ARCHITECTURE.md, invariant 3).
//!
//! One tick is one second, except for optional computations (paper 004), whose requests may take a second each: they
//! use milliseconds. Types keep the two apart.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};

/// An instant, in whole seconds since the driver's origin (a workload's first submission, or the Unix epoch).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Time(pub i64);

/// A length of time, in whole seconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Span(pub i64);

impl Time {
    /// The origin.
    pub const ZERO: Time = Time(0);
    /// Later than any event. Adding any walltime does not overflow.
    pub const MAX: Time = Time(i64::MAX / 4);

    /// Seconds since the origin.
    pub const fn seconds(self) -> i64 {
        self.0
    }

    /// The text of the instant in UTC, if the origin is the Unix epoch.
    pub const fn utc(self) -> Utc {
        Utc(self)
    }
}

/// An instant as people read it: `2026-11-21 11:03:05Z`. One outside the years 0 to 9999 is shown in seconds since the Unix epoch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Utc(Time);

impl Span {
    /// A length of 0.
    pub const ZERO: Span = Span(0);
    /// Longer than any run.
    pub const MAX: Span = Span(i64::MAX / 4);

    /// Length in seconds.
    pub const fn seconds(self) -> i64 {
        self.0
    }
}

/// An instant, in whole milliseconds since the driver's origin.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct TimeMs(pub i64);

/// A length of time, in whole milliseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct SpanMs(pub i64);

impl TimeMs {
    /// The origin.
    pub const ZERO: TimeMs = TimeMs(0);
    /// Later than any event.
    pub const MAX: TimeMs = TimeMs(i64::MAX / 4);
}

impl SpanMs {
    /// A length of 0.
    pub const ZERO: SpanMs = SpanMs(0);

    /// Length in seconds.
    pub const fn seconds(self) -> f64 {
        self.0 as f64 / 1_000.0
    }
}

/// The arithmetic of instants and lengths.
macro_rules! arithmetic {
    ($time:ident, $span:ident) => {
        impl Add<$span> for $time {
            type Output = $time;
            fn add(self, span: $span) -> $time {
                $time(self.0 + span.0)
            }
        }

        impl AddAssign<$span> for $time {
            fn add_assign(&mut self, span: $span) {
                self.0 += span.0;
            }
        }

        impl Sub<$span> for $time {
            type Output = $time;
            fn sub(self, span: $span) -> $time {
                $time(self.0 - span.0)
            }
        }

        impl Sub for $time {
            type Output = $span;
            fn sub(self, earlier: $time) -> $span {
                $span(self.0 - earlier.0)
            }
        }

        impl Add for $span {
            type Output = $span;
            fn add(self, other: $span) -> $span {
                $span(self.0 + other.0)
            }
        }

        impl Sub for $span {
            type Output = $span;
            fn sub(self, other: $span) -> $span {
                $span(self.0 - other.0)
            }
        }
    };
}

arithmetic!(Time, Span);
arithmetic!(TimeMs, SpanMs);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl fmt::Display for Utc {
    /// The date by the algorithm `civil_from_days` of H. Hinnant, "chrono-Compatible Low-Level Date Algorithms": years
    /// begin in March, in eras of 400 years.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DAY_S: i64 = 86_400;
        const ERA_DAYS: i64 = 146_097;
        /// From the first day of an era to the epoch.
        const EPOCH_DAYS: i64 = 719_468;
        let Utc(Time(seconds)) = *self;
        let (days, second) = (seconds.div_euclid(DAY_S) + EPOCH_DAYS, seconds.rem_euclid(DAY_S));
        let (era, day_of_era) = (days.div_euclid(ERA_DAYS), days.rem_euclid(ERA_DAYS));
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / (ERA_DAYS - 1)) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
        let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
        let year = year_of_era + 400 * era + i64::from(month <= 2);
        if !(0..=9_999).contains(&year) {
            return write!(f, "@{seconds}s");
        }
        let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
        write!(f, "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}Z")
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} s", self.0)
    }
}

impl fmt::Display for TimeMs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ms", self.0)
    }
}

impl fmt::Display for SpanMs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ms", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_and_lengths_add_up() {
        let mut later = Time(100) + Span(20);
        later += Span(3);
        assert_eq!((later, later - Time(100), later - Span(3)), (Time(123), Span(23), Time(120)));
        assert_eq!((Span(9) + Span(4), Span(9) - Span(4)), (Span(13), Span(5)));
    }

    #[test]
    fn the_last_instants_are_beyond_all_events_and_can_be_added_to() {
        const A_MILLION_YEARS_MS: i64 = 1_000_000 * 365 * 86_400_000;
        assert!(Time::MAX + Span::MAX > Time(A_MILLION_YEARS_MS));
        assert!([Time::MAX.0, Span::MAX.0, TimeMs::MAX.0].iter().all(|last| *last > A_MILLION_YEARS_MS));
        assert!(TimeMs::MAX + SpanMs(TimeMs::MAX.0) > TimeMs::MAX);
    }

    #[test]
    fn times_are_written_with_their_units() {
        assert_eq!(format!("{} {} {} {}", Time(5), Span(6), TimeMs(7), SpanMs(8)), "5 6 s 7 ms 8 ms");
        assert_eq!((Time(5).seconds(), Span(6).seconds(), SpanMs(1_500).seconds()), (5, 6, 1.5));
    }

    #[test]
    fn instants_have_a_date_in_utc() {
        let check = |seconds, expected: &str| assert_eq!(Time(seconds).utc().to_string(), expected);
        check(0, "1970-01-01 00:00:00Z");
        check(951_782_400, "2000-02-29 00:00:00Z");
        check(951_868_799, "2000-02-29 23:59:59Z");
        check(951_868_800, "2000-03-01 00:00:00Z");
        check(1_709_164_800, "2024-02-29 00:00:00Z");
        check(1_795_258_985, "2026-11-21 11:03:05Z");
        check(4_107_542_400, "2100-03-01 00:00:00Z");
        check(-1, "1969-12-31 23:59:59Z");
        check(-62_167_219_200, "0000-01-01 00:00:00Z");
        check(253_402_300_799, "9999-12-31 23:59:59Z");
        check(253_402_300_800, "@253402300800s");
        check(Time::MAX.0, &format!("@{}s", Time::MAX.0));
    }
}
