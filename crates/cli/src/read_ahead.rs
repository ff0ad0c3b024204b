//! Reading a log in a thread of its own while what was read is simulated.

use std::iter::Flatten;
use std::sync::mpsc::{self, IntoIter};

/// How many items are handed over at a time.
const CHUNK: usize = 256;
/// How many chunks wait at most.
const WAITING: usize = 8;

/// What `take` makes of the items of `source`, which another thread reads. Items that `take` leaves may have been read.
pub(crate) fn read_ahead<T: Send, R>(
    mut source: impl Iterator<Item = T> + Send,
    take: impl FnOnce(Flatten<IntoIter<Vec<T>>>) -> R,
) -> R {
    std::thread::scope(|scope| {
        let (sender, receiver) = mpsc::sync_channel(WAITING);
        scope.spawn(move || {
            loop {
                let chunk: Vec<T> = source.by_ref().take(CHUNK).collect();
                if chunk.is_empty() || sender.send(chunk).is_err() {
                    return;
                }
            }
        });
        take(receiver.into_iter().flatten())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_comes_in_order_and_none_has_to_be_taken() {
        let whole: Vec<u32> = read_ahead(0..10_000, Iterator::collect);
        assert!(whole.into_iter().eq(0..10_000));
        assert_eq!(read_ahead(std::iter::empty::<u32>(), Iterator::count), 0);
        assert_eq!(read_ahead(0.., |mut items| items.nth(1_000)), Some(1_000));
    }
}
