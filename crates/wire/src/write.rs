//! Writing within bounds: what is written here is taken by [`read`](super::read) at the other end.

use std::ops::RangeInclusive;

use pliant_control::names::Name;
use pliant_model::{Procs, Span, SpanMs, Time};

use super::bounds;
use super::read::is_unprintable;

/// A number, or the nearest one in the range.
pub(super) fn number<N: Ord + Copy>(range: &RangeInclusive<N>, number: N) -> N {
    number.clamp(*range.start(), *range.end())
}

/// What was measured, or the nearest in the range; the least if it is no number.
pub(super) fn measured(range: &RangeInclusive<f64>, number: f64) -> f64 {
    number.max(*range.start()).min(*range.end())
}

/// At least one processor.
pub(super) fn procs(procs: Procs) -> u32 {
    number(&bounds::PROCS, procs.0)
}

/// Processors, or none.
pub(super) fn free(procs: Procs) -> u32 {
    procs.0.min(*bounds::PROCS.end())
}

/// The walltime of a request.
pub(super) fn walltime(walltime: Span) -> i64 {
    number(&bounds::WALLTIME_S, walltime.0)
}

/// The walltime of an estimate or a job.
pub(super) fn scaled_walltime(walltime: Span) -> i64 {
    number(&bounds::SCALED_WALLTIME_S, walltime.0)
}

/// A text for people that may be absent.
pub(super) fn optional_text(text: Option<&str>) -> Option<String> {
    text.map(|text| self::text(text, bounds::TEXT_BYTES_MAX))
}

/// An instant.
pub(super) fn time(time: Time) -> i64 {
    number(&bounds::TIME_S, time.0)
}

/// An instant; none if it is [`Time::MAX`], since nobody knows when.
pub(super) fn unless_never(at: Time) -> Option<i64> {
    (at != Time::MAX).then(|| time(at))
}

/// An instant that may be absent.
pub(super) fn optional_time(at: Option<Time>) -> Option<i64> {
    at.map(time)
}

/// A difference of instants that may be absent.
pub(super) fn optional_span(span: Option<Span>) -> Option<i64> {
    span.map(|span| number(&bounds::TIME_S, span.0))
}

/// A length of time in milliseconds.
pub(super) fn span_ms(span: SpanMs) -> i64 {
    number(&(0..=*bounds::TIME_MS.end()), span.0)
}

/// A name, or nothing.
pub(super) fn optional_name(name: Option<&Name>) -> String {
    name.map(Name::to_string).unwrap_or_default()
}

/// The first items of a list, at most so many.
pub(super) fn list<'a, T: 'a, M: From<&'a T>>(items: &'a [T], most: usize) -> Vec<M> {
    items.iter().take(most).map(M::from).collect()
}

/// A text for people: what cannot be printed is escaped, and what is too long cut.
pub(super) fn text(text: &str, most: usize) -> String {
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
