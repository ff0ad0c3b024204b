//! Bytes that mean nothing, and how fast they come.

use std::time::{Duration, Instant};

use pliant_wire::proto;
use tokio_stream::Stream;

/// The size of a message.
const PIECE: usize = 32 << 10;

/// Bytes to be sent: so many, and none once that time is over. `kept` is, until the last one was taken.
pub(super) fn ballast<K>(bytes: u64, limit: Duration, kept: K) -> impl Stream<Item = proto::Ballast> {
    let piece = noise();
    let limit_ms = u32::try_from(limit.as_millis()).unwrap_or(u32::MAX);
    let (mut left, mut begun) = (bytes, None);
    // The first one has no bytes: what is measured begins once it has arrived.
    let mut first = Some(proto::Ballast { bytes: Vec::new(), limit_ms });
    tokio_stream::iter(std::iter::from_fn(move || {
        let _kept = &kept;
        if let Some(first) = first.take() {
            return Some(first);
        }
        if left == 0 || begun.get_or_insert_with(Instant::now).elapsed() >= limit {
            return None;
        }
        let length = left.min(PIECE as u64) as usize;
        left -= length as u64;
        Some(proto::Ballast { bytes: piece[..length].to_vec(), limit_ms: 0 })
    }))
}

/// Bytes that no connection compresses (xorshift, Marsaglia 2003).
fn noise() -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    (0..PIECE / 8).flat_map(|_| next()).collect()
}

/// When bytes came.
#[derive(Default)]
pub(super) struct Meter {
    begun: Option<Instant>,
    /// How long after the first ones, and how many until then.
    came: Vec<(Duration, u64)>,
}

impl Meter {
    /// So many have come now.
    pub(super) fn arrived(&mut self, bytes: usize) {
        if bytes > 0 {
            let after = self.begun.get_or_insert_with(Instant::now).elapsed();
            self.note(after, bytes);
        }
    }

    fn note(&mut self, after: Duration, bytes: usize) {
        let before = self.came.last().map_or(0, |(_, before)| *before);
        self.came.push((after, before + bytes as u64));
    }

    /// How fast they came, in Mb/s; none if these were too few to measure. The first half does not count: TCP begins slowly, and a
    /// link that is limited may let some pass at once.
    pub(super) fn mbps(&self) -> Option<f64> {
        let (end, all) = *self.came.last()?;
        let (middle, until_then) = *self.came.iter().find(|(_, bytes)| *bytes >= all / 2)?;
        let seconds = (end - middle).as_secs_f64();
        // Clocks count nanoseconds: less is none.
        (all > until_then && seconds > 1e-9).then(|| 8.0 * (all - until_then) as f64 / seconds / 1e6)
    }
}

#[cfg(test)]
mod tests {
    use tokio_stream::StreamExt;

    use super::*;

    #[test]
    fn the_second_half_of_the_bytes_counts() {
        // 1 MB at once, and then 100 kB each 100 ms: 8 Mb/s.
        let mut meter = Meter::default();
        assert_eq!(meter.mbps(), None);
        meter.note(Duration::ZERO, 1_000_000);
        assert_eq!(meter.mbps(), None, "all at once");
        for at in 1..=20 {
            meter.note(Duration::from_millis(100 * at), 100_000);
        }
        let mbps = meter.mbps().unwrap();
        assert!((mbps - 8.0).abs() < 1e-9, "{mbps}");
    }

    #[tokio::test]
    async fn so_many_bytes_are_sent_and_no_two_pieces_of_eight_are_alike() {
        let pieces: Vec<proto::Ballast> = ballast(100_000, Duration::from_secs(60), ()).collect().await;
        assert_eq!((pieces[0].limit_ms, pieces[0].bytes.len()), (60_000, 0));
        assert_eq!(pieces.iter().map(|piece| piece.bytes.len()).sum::<usize>(), 100_000);
        let mut eights: Vec<&[u8]> = pieces[1].bytes.chunks(8).collect();
        let count = eights.len();
        eights.sort_unstable();
        eights.dedup();
        assert_eq!(eights.len(), count);
        let late: Vec<proto::Ballast> = ballast(100_000, Duration::ZERO, ()).collect().await;
        assert_eq!(late.len(), 1);
    }
}
