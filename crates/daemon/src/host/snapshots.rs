//! Snapshots of a machine, made while it goes on: a thread of its own turns the state into text, and the parts of the text go into
//! the journal one by one, along with the commits of other events. A snapshot that fails is tried again after a pause, which doubles each
//! time.

use std::io::{self, ErrorKind, Write};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use pliant_journal::SnapshotPart;
use serde::Serialize;

use super::pause::Pause;

/// The bytes of a part.
const PART_BYTES: usize = 1 << 20;
/// How many parts are made ahead.
const PARTS_AHEAD: usize = 2;
/// How much longer than the commit of a part took no other part is committed, so that other commits wait for few of them.
const REST: u32 = 4;
/// How often is looked for the next part.
const PART_PERIOD: Duration = Duration::from_millis(5);

/// A snapshot that is being made, and when the next one may be.
#[derive(Debug)]
pub(super) struct Snapshots {
    under_way: Option<UnderWay>,
    pause: Pause,
}

#[derive(Debug)]
struct UnderWay {
    /// The last entry in it.
    seq: u64,
    parts: Receiver<SnapshotPart>,
    bytes: usize,
    begun: Instant,
    /// When the next part may be committed.
    next: Instant,
}

/// The state could not be written as text, which is a defect.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the state cannot be written as text")]
pub(super) struct Incomplete;

/// A snapshot that is complete.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Complete {
    pub(super) bytes: usize,
    pub(super) took: Duration,
}

impl Snapshots {
    pub(super) fn new() -> Snapshots {
        Snapshots { under_way: None, pause: Pause::default() }
    }

    /// True if one may be begun now.
    pub(super) fn may_begin(&self, now: Instant) -> bool {
        self.under_way.is_none() && self.pause.is_over(now)
    }

    /// Begins one of that state, in which `seq` is the last entry and which was taken at that time. One that is under way is given up.
    ///
    /// # Errors
    /// No thread can be started.
    pub(super) fn begin(
        &mut self,
        state: impl Serialize + Send + 'static,
        seq: u64,
        at: i64,
    ) -> io::Result<()> {
        let (sender, parts) = sync_channel(PARTS_AHEAD);
        let mut writer = PartWriter { sender, seq, at, part: 0, bytes: Vec::with_capacity(PART_BYTES) };
        let write = move || {
            // It fails if the snapshot is given up.
            let _ = serde_json::to_writer(&mut writer, &state).map_err(io::Error::from).and_then(|()| {
                drop(state);
                writer.send(true)
            });
        };
        thread::Builder::new().name("snapshot".into()).spawn(write)?;
        let now = Instant::now();
        self.under_way = Some(UnderWay { seq, parts, bytes: 0, begun: now, next: now });
        Ok(())
    }

    /// How soon to look for a part, if a snapshot is under way.
    pub(super) fn look_in(&self, now: Instant) -> Option<Duration> {
        let under_way = self.under_way.as_ref()?;
        Some(under_way.next.saturating_duration_since(now).max(PART_PERIOD))
    }

    /// The last entry in the snapshot under way, if there is one.
    pub(super) fn seq(&self) -> Option<u64> {
        self.under_way.as_ref().map(|under_way| under_way.seq)
    }

    /// The next part, if it is there and other commits have had their time.
    ///
    /// # Errors
    /// The thread has ended without the last part.
    pub(super) fn next_part(&mut self, now: Instant) -> Result<Option<SnapshotPart>, Incomplete> {
        let Some(under_way) = self.under_way.as_ref().filter(|under_way| now >= under_way.next) else {
            return Ok(None);
        };
        match under_way.parts.try_recv() {
            Ok(part) => Ok(Some(part)),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(Incomplete),
        }
    }

    /// The next part, as soon as it is there.
    ///
    /// # Errors
    /// The thread has ended without the last part.
    pub(super) fn wait_for_part(&self) -> Result<SnapshotPart, Incomplete> {
        self.under_way.as_ref().and_then(|under_way| under_way.parts.recv().ok()).ok_or(Incomplete)
    }

    /// A part is durable, and its commit took so long. Says if the snapshot is complete.
    pub(super) fn committed(
        &mut self,
        part: &SnapshotPart,
        now: Instant,
        took: Duration,
    ) -> Option<Complete> {
        let under_way = self.under_way.as_mut()?;
        under_way.bytes += part.bytes.len();
        under_way.next = now + took * REST;
        if !part.is_last {
            return None;
        }
        let complete = Complete { bytes: under_way.bytes, took: now - under_way.begun };
        *self = Snapshots::new();
        Some(complete)
    }

    /// A part cannot be written: the snapshot is given up. Returns the pause until the next one.
    pub(super) fn failed(&mut self, now: Instant) -> Duration {
        self.under_way = None;
        self.pause.failed(now)
    }
}

/// Sends what is written in parts.
struct PartWriter {
    sender: SyncSender<SnapshotPart>,
    seq: u64,
    at: i64,
    /// The number of the next part.
    part: u32,
    bytes: Vec<u8>,
}

impl PartWriter {
    fn send(&mut self, is_last: bool) -> io::Result<()> {
        let bytes = std::mem::replace(&mut self.bytes, Vec::with_capacity(PART_BYTES));
        let part = SnapshotPart { seq: self.seq, at: self.at, part: self.part, bytes, is_last };
        self.part += 1;
        self.sender.send(part).map_err(|_| ErrorKind::BrokenPipe.into())
    }
}

impl Write for PartWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(PART_BYTES - self.bytes.len());
        self.bytes.extend(&bytes[..taken]);
        if self.bytes.len() == PART_BYTES {
            self.send(false)?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All parts of a snapshot of that state.
    fn parts(state: impl Serialize + Send + 'static) -> (Vec<SnapshotPart>, Complete) {
        let (mut snapshots, mut parts) = (Snapshots::new(), Vec::new());
        snapshots.begin(state, 7, 70).unwrap();
        loop {
            let part = snapshots.wait_for_part().unwrap();
            parts.push(part.clone());
            if let Some(complete) = snapshots.committed(&part, Instant::now(), Duration::ZERO) {
                assert!(snapshots.may_begin(Instant::now()));
                return (parts, complete);
            }
        }
    }

    #[test]
    fn a_state_comes_in_parts_and_whole() {
        for length in [0, 1, PART_BYTES - 2, PART_BYTES - 1, 3 * PART_BYTES + 5] {
            let state = "x".repeat(length);
            let (parts, complete) = parts(state.clone());
            let bytes: Vec<u8> = parts.iter().flat_map(|part| part.bytes.clone()).collect();
            assert_eq!(serde_json::from_slice::<String>(&bytes).unwrap(), state);
            assert_eq!(complete.bytes, length + 2);
            assert!(
                parts.iter().all(|part| part.bytes.len() <= PART_BYTES && (part.seq, part.at) == (7, 70))
            );
            let numbers: Vec<u32> = parts.iter().map(|part| part.part).collect();
            assert_eq!(numbers, (0..u32::try_from(parts.len()).unwrap()).collect::<Vec<_>>());
            let last: Vec<bool> = parts.iter().map(|part| part.is_last).collect();
            assert_eq!(last.iter().position(|is_last| *is_last), Some(parts.len() - 1));
        }
    }

    #[test]
    fn other_commits_come_between_two_parts() {
        let (mut snapshots, now) = (Snapshots::new(), Instant::now());
        snapshots.begin("x".repeat(2 * PART_BYTES), 1, 1).unwrap();
        assert!(!snapshots.may_begin(now));
        let part = snapshots.wait_for_part().unwrap();
        let took = Duration::from_millis(50);
        let later = now + Duration::from_secs(1);
        assert_eq!(snapshots.committed(&part, later, took), None);
        assert_eq!(snapshots.next_part(later + took * REST - Duration::from_nanos(1)), Ok(None));
        assert_eq!(snapshots.look_in(later), Some(took * REST));
    }

    #[test]
    fn a_state_that_cannot_be_written_is_no_snapshot() {
        // JSON has texts as keys only.
        let state = std::collections::BTreeMap::from([([1_u8], 2)]);
        let mut snapshots = Snapshots::new();
        snapshots.begin(state, 1, 1).unwrap();
        assert_eq!(snapshots.seq(), Some(1));
        assert_eq!(snapshots.wait_for_part(), Err(Incomplete));
        assert_eq!(snapshots.next_part(Instant::now()), Err(Incomplete));
    }

    #[test]
    fn failures_are_followed_by_longer_and_longer_pauses() {
        let (mut snapshots, mut now) = (Snapshots::new(), Instant::now());
        let mut pauses = Vec::new();
        for _ in 0..9 {
            snapshots.begin((), 1, 1).unwrap();
            let pause = snapshots.failed(now);
            assert!(!snapshots.may_begin(now + pause - Duration::from_nanos(1)));
            now += pause;
            assert!(snapshots.may_begin(now));
            pauses.push(pause.as_secs());
        }
        assert_eq!(pauses, [10, 20, 40, 80, 160, 320, 600, 600, 600]);
        snapshots.begin((), 1, 1).unwrap();
        let part = snapshots.wait_for_part().unwrap();
        assert!(snapshots.committed(&part, now, Duration::ZERO).is_some());
        assert_eq!(snapshots.failed(now).as_secs(), 10, "a success begins anew");
    }
}
