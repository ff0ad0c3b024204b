//! Numbers, instants, lengths of time, processors.

use std::fmt::{Debug, Display};
use std::ops::RangeInclusive;
use std::time::Duration;

use pliant_model::{JobId, Owner, Procs, Span, SpanMs, Speed, Time, TimeMs};
#[cfg(test)]
use proptest::prelude::*;

use super::super::bounds;
use super::{FieldType, Malformed};

/// A number of a message.
pub(crate) trait Numeric: Copy + Default + PartialOrd + Display + Debug + 'static {
    /// Numbers of a range, with its ends.
    #[cfg(test)]
    fn within(range: &RangeInclusive<Self>) -> BoxedStrategy<Self>;
}

macro_rules! numeric {
    ($($number:ty),*) => {$(
        impl Numeric for $number {
            #[cfg(test)]
            fn within(range: &RangeInclusive<$number>) -> BoxedStrategy<$number> {
                prop_oneof![1 => Just(*range.start()), 1 => Just(*range.end()), 8 => range.clone()].boxed()
            }
        }
    )*};
}

numeric!(u32, u64, i64, f64);

/// A number `N` in a range, as a `V`.
pub(crate) struct Number<N, V> {
    /// What it is, for errors: "{what} from 1 to 9".
    what: &'static str,
    range: RangeInclusive<N>,
    decoded: fn(N) -> V,
    encoded: fn(&V) -> N,
    /// What 0 is decoded as.
    absent: Option<N>,
    is_exact: bool,
}

impl<N: Copy, V> Clone for Number<N, V> {
    fn clone(&self) -> Self {
        Number { range: self.range.clone(), ..*self }
    }
}

impl<N, V> Number<N, V> {
    /// A number in a range, and what it is decoded as.
    pub(crate) const fn new(
        what: &'static str,
        range: RangeInclusive<N>,
        decoded: fn(N) -> V,
        encoded: fn(&V) -> N,
    ) -> Number<N, V> {
        Number { what, range, decoded, encoded, absent: None, is_exact: false }
    }

    /// Not cut to the bounds: it comes from a user, whom the error at the other end informs.
    pub(crate) fn exact(self) -> Number<N, V> {
        Number { is_exact: true, ..self }
    }

    /// 0, which is what is decoded if the field is absent, is decoded as `absent`.
    pub(crate) fn or(self, absent: N) -> Number<N, V> {
        Number { absent: Some(absent), ..self }
    }
}

impl<N: Numeric, V: Clone + Debug + 'static> FieldType for Number<N, V> {
    type Value = V;
    type Wire = N;
    fn encode(&self, value: &V) -> N {
        let number = (self.encoded)(value);
        if self.is_exact { number } else { nearest(&self.range, number) }
    }
    fn decode(&self, field: &str, found: N) -> Result<V, Malformed> {
        let found = self.absent.filter(|_| found == N::default()).unwrap_or(found);
        if self.range.contains(&found) {
            return Ok((self.decoded)(found));
        }
        let (least, most) = (self.range.start(), self.range.end());
        Err(Malformed::new(field, format!("{} from {least} to {most}", self.what), found))
    }
    #[cfg(test)]
    fn strategy(&self) -> BoxedStrategy<V> {
        N::within(&self.range).prop_map(self.decoded).boxed()
    }
}

/// The nearest number in the range; the least if it is none.
fn nearest<N: Numeric>(range: &RangeInclusive<N>, number: N) -> N {
    if number > *range.end() {
        *range.end()
    } else if number >= *range.start() {
        number
    } else {
        *range.start()
    }
}

/// A number in a range; `what` says what it is.
pub(crate) const fn number<N: Copy>(what: &'static str, range: RangeInclusive<N>) -> Number<N, N> {
    Number::new(what, range, |number| number, |number| *number)
}

/// How many are wanted, at most `most`.
pub(crate) const fn up_to(what: &'static str, most: u32) -> Number<u32, u32> {
    number(what, 1..=most)
}

/// A length of time in seconds.
pub(crate) const fn seconds(range: RangeInclusive<i64>) -> Number<i64, Span> {
    Number::new("seconds", range, Span, |span| span.0)
}

/// At least one processor.
pub(crate) const PROCS: Number<u32, Procs> = procs(*bounds::PROCS.start());
/// Processors, or none.
pub(crate) const PROCS_OR_NONE: Number<u32, Procs> = procs(0);
/// Any number of processors.
pub(crate) const ANY_PROCS: Number<u32, Procs> =
    Number::new(PROCS.what, 0..=u32::MAX, Procs, |procs| procs.0);
/// As [`PROCS`], for a domain type that has a bare number.
pub(crate) const PROCS_COUNT: Number<u32, u32> = number(PROCS.what, bounds::PROCS);
/// As [`PROCS_OR_NONE`], for a domain type that has a bare number.
pub(crate) const CORES: Number<u32, u32> = number(PROCS.what, 0..=*bounds::PROCS.end());

/// How far a job stands back.
pub(crate) const NICE: Number<u32, u32> = number("a number for --nice", bounds::NICE);

/// How often a job runs again after failures of nodes.
pub(crate) const REQUEUE: Number<u32, u32> = number("a number for --requeue", bounds::REQUEUE);

const fn procs(least: u32) -> Number<u32, Procs> {
    Number::new("a number of processors", least..=*bounds::PROCS.end(), Procs, |procs| procs.0)
}

/// The walltime of a request.
pub(crate) const WALLTIME: Number<i64, Span> = walltime(bounds::WALLTIME_S);
/// The walltime of an estimate or a job.
pub(crate) const SCALED_WALLTIME: Number<i64, Span> = walltime(bounds::SCALED_WALLTIME_S);

const fn walltime(range: RangeInclusive<i64>) -> Number<i64, Span> {
    Number::new("a walltime in seconds", range, Span, |span| span.0)
}

/// An instant.
pub(crate) const TIME: Number<i64, Time> =
    Number::new("seconds since the Unix epoch", bounds::TIME_S, Time, |time| time.0);
/// An instant in milliseconds.
pub(crate) const TIME_MS: Number<i64, TimeMs> =
    Number::new("milliseconds since the Unix epoch", bounds::TIME_MS, TimeMs, |time| time.0);
/// A difference of instants.
pub(crate) const DIFFERENCE: Number<i64, Span> = seconds(bounds::TIME_S);
/// A length of time in milliseconds.
pub(crate) const SPAN_MS: Number<i64, SpanMs> =
    Number::new("milliseconds", 0..=*bounds::TIME_MS.end(), SpanMs, |span| span.0);
/// A length of time in milliseconds, as a [`Duration`].
pub(crate) const fn milliseconds(range: RangeInclusive<u32>) -> Number<u32, Duration> {
    Number::new(
        "milliseconds",
        range,
        |ms| Duration::from_millis(ms.into()),
        |time| u32::try_from(time.as_millis()).unwrap_or(u32::MAX),
    )
}

/// A length of time in microseconds.
pub(crate) const MICROSECONDS: Number<u32, Duration> = Number::new(
    "microseconds",
    0..=u32::MAX,
    |us| Duration::from_micros(us.into()),
    |time| u32::try_from(time.as_micros()).unwrap_or(u32::MAX),
);

/// A speed.
pub(crate) const SPEED: Number<f64, Speed> = Number::new(
    "a speed",
    Speed::RANGE,
    |speed| Speed::new(speed).expect("the number is within the range of speeds"),
    |speed| speed.get(),
);

/// The number of a job in a queue.
pub(crate) const JOB_ID: Number<u32, JobId> = Number::new("a number", 0..=u32::MAX, JobId, |job| job.0);
/// What stands for the owner of a job in queue orders.
pub(crate) const OWNER: Number<u64, Owner> = Number::new("a number", 0..=u64::MAX, Owner, |owner| owner.0);

/// A finite number above 0 that a user gives: it is not cut to any bounds.
#[derive(Clone)]
pub(crate) struct Positive;

impl FieldType for Positive {
    type Value = f64;
    type Wire = f64;
    fn encode(&self, value: &f64) -> f64 {
        *value
    }
    fn decode(&self, field: &str, found: f64) -> Result<f64, Malformed> {
        if found > 0.0 && found.is_finite() {
            return Ok(found);
        }
        Err(Malformed::new(field, "a number above 0", found))
    }
    #[cfg(test)]
    fn strategy(&self) -> BoxedStrategy<f64> {
        prop_oneof![Just(f64::MIN_POSITIVE), Just(f64::MAX), 1e-3..1e9].boxed()
    }
}
