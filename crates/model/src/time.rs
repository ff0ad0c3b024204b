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
}

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
