//! Bounds the log lines that others can cause: a flood of refusals must not fill the log.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Lines of one source at once, after a pause, if nothing else is said: different refusals are seen.
const BURST: u32 = 10;
/// The time for each further line.
const PERIOD: Duration = Duration::from_secs(1);
/// Sources that are counted each on its own. All further ones count as one.
const SOURCES_MAX: usize = 256;

/// Says which lines are written: some of each source at once, and then one each second. Each line that is written contains how many were left out.
#[derive(Debug)]
pub struct LineLimit {
    /// Lines of one source at once.
    burst: u32,
    sources: Mutex<Sources>,
}

#[derive(Debug)]
struct Sources {
    each: BTreeMap<String, Source>,
    others: Source,
}

#[derive(Clone, Copy, Debug)]
struct Source {
    /// When all lines that were written have had their time; none before the first one.
    until: Option<Instant>,
    left_out: u64,
}

impl LineLimit {
    /// A limit of ten lines of each source at once, which nothing has reached.
    pub const fn new() -> LineLimit {
        LineLimit::with_burst(BURST)
    }

    /// The same with another number of lines.
    pub const fn with_burst(burst: u32) -> LineLimit {
        let sources = Mutex::new(Sources { each: BTreeMap::new(), others: Source::NEW });
        LineLimit { burst, sources }
    }

    /// If a line about this source is written: how many were left out since its last one; none of these if that is zero.
    pub fn admit(&self, source: &str, now: Instant) -> Option<LeftOut> {
        let mut sources = self.sources.lock();
        let Sources { each, others } = &mut *sources;
        if !each.contains_key(source) && each.len() >= SOURCES_MAX {
            each.retain(|_, one| {
                let stays = one.until.is_some_and(|until| until > now);
                // The next line of the others says it.
                others.left_out += if stays { 0 } else { one.left_out };
                stays
            });
        }
        let is_other = !each.contains_key(source) && each.len() >= SOURCES_MAX;
        let one = if is_other { others } else { each.entry(source.to_owned()).or_insert(Source::NEW) };
        one.admit(now, self.burst)
    }
}

impl Default for LineLimit {
    fn default() -> LineLimit {
        LineLimit::new()
    }
}

/// How many lines were left out, for a field of a line; none if it were zero.
pub type LeftOut = Option<u64>;

impl Source {
    const NEW: Source = Source { until: None, left_out: 0 };

    fn admit(&mut self, now: Instant, burst: u32) -> Option<LeftOut> {
        let until = self.until.map_or(now, |until| until.max(now)) + PERIOD;
        if until > now + PERIOD * burst {
            self.left_out += 1;
            return None;
        }
        self.until = Some(until);
        let left_out = std::mem::take(&mut self.left_out);
        Some((left_out > 0).then_some(left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_one_source_is_a_line_a_second_with_the_count_of_the_others() {
        let (limit, begun) = (LineLimit::new(), Instant::now());
        let at = |ms: u64| begun + Duration::from_millis(ms);
        let flood: Vec<LeftOut> = (0..25_000).filter_map(|ms| limit.admit("a", at(ms))).collect();
        assert_eq!(flood.len(), 10 + 24);
        assert_eq!(&flood[..11], [&[None; 10][..], &[Some(990)]].concat());
        let left_out = limit.admit("a", at(60_000)).unwrap().unwrap();
        assert_eq!(flood.iter().flatten().sum::<u64>() + left_out, 25_000 - 34);
        assert_eq!(limit.admit("b", at(24_999)), Some(None), "another source");
    }

    #[test]
    fn a_flood_of_many_sources_is_bounded_and_counted() {
        let (limit, now) = (LineLimit::new(), Instant::now());
        let ask = |from: usize, to: usize, now| -> Vec<LeftOut> {
            (from..to).filter_map(|source| limit.admit(&source.to_string(), now)).collect()
        };
        assert_eq!(ask(0, 10_000, now).len(), SOURCES_MAX + 10);
        assert_eq!(limit.sources.lock().each.len(), SOURCES_MAX);
        let later = now + PERIOD * BURST;
        assert_eq!(ask(10_000, 10_000 + SOURCES_MAX, later).len(), SOURCES_MAX, "earlier ones are forgotten");
        let left_out = (10_000 - SOURCES_MAX - 10) as u64;
        assert_eq!(ask(20_000, 20_001, later), [Some(left_out)]);
    }
}
