//! Work that really computes, for demonstrations and tests: an estimate of pi and a dense matrix product.
//!
//! Both are cut into pieces whose size does not depend on the number of threads, and each piece is computed in the
//! same way wherever it runs: the answer is the same to the last bit on any number of threads.

pub(crate) mod matrix;
pub(crate) mod pi;

use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;

/// Computes every piece, each on one of `threads`, and hands the answers to `done` as they come: in any order.
fn in_pieces<P: Send, A: Send>(
    pieces: impl Iterator<Item = P> + Send,
    threads: NonZeroUsize,
    compute: impl Fn(P) -> A + Sync,
    mut done: impl FnMut(A),
) {
    let pieces = Mutex::new(pieces);
    let next = || pieces.lock().unwrap_or_else(PoisonError::into_inner).next();
    thread::scope(|scope| {
        let (sender, answers) = mpsc::channel();
        for _ in 0..threads.get() {
            let (sender, next, compute) = (sender.clone(), &next, &compute);
            scope.spawn(move || {
                while let Some(piece) = next() {
                    if sender.send(compute(piece)).is_err() {
                        break;
                    }
                }
            });
        }
        // The last thread that ends closes the channel.
        drop(sender);
        answers.into_iter().for_each(&mut done);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_piece_is_computed_once_on_any_number_of_threads() {
        for threads in [1, 2, 3, 8] {
            let mut answers = Vec::new();
            let threads = NonZeroUsize::new(threads).unwrap();
            in_pieces(0..100_u32, threads, |piece| piece * 2, |answer| answers.push(answer));
            answers.sort_unstable();
            assert_eq!(answers, (0..100).map(|piece| piece * 2).collect::<Vec<_>>());
        }
        in_pieces(
            std::iter::empty::<u32>(),
            NonZeroUsize::MIN,
            |piece| piece,
            |_| panic!("there is no piece"),
        );
    }
}
