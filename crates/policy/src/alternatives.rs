//! Candidate sizes of a moldable job for a batch system that chooses among alternatives: OAR takes the request of a job that
//! ends first.
//!
//! A larger size that is not faster is dropped, so walltimes differ and identify the chosen alternative. The batch system
//! plans the job once per alternative, so there are at most [`AT_MOST`]: the smallest and the largest size, and between
//! them sizes that divide the range of walltimes into about equal ratios. Smaller sizes come first, because OAR keeps the
//! first of two alternatives that end together, as Pliant's tuners do.
//!
//! Cost: one walltime per size.

use pliant_model::{Procs, Span, Walltimes};

/// The largest number of alternatives of a job.
pub const AT_MOST: usize = 8;

/// A candidate size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Alternative {
    /// Processors.
    pub procs: Procs,
    /// The walltime on these processors.
    pub walltime: Span,
}

/// The candidate sizes of a request on a cluster of `capacity` processors, the smallest first. Empty if none fits.
pub fn candidate_sizes(walltimes: &Walltimes<'_>, capacity: Procs) -> Vec<Alternative> {
    let (least, most) = (walltimes.least(), walltimes.most().min(capacity));
    let mut faster: Vec<Alternative> = Vec::new();
    for procs in (least.0..=most.0).map(Procs) {
        let walltime = walltimes.at(procs);
        if faster.last().is_none_or(|last| walltime < last.walltime) {
            faster.push(Alternative { procs, walltime });
        }
    }
    reduced(faster)
}

/// At most [`AT_MOST`] sizes, including the first and the last.
fn reduced(sizes: Vec<Alternative>) -> Vec<Alternative> {
    let (Some(first), Some(last)) = (sizes.first(), sizes.last()) else { return sizes };
    if sizes.len() <= AT_MOST {
        return sizes;
    }
    let seconds = |size: &Alternative| size.walltime.0 as f64;
    let mut chosen = vec![*first];
    let mut wanted = seconds(first);
    let between = &sizes[1..sizes.len() - 1];
    for (index, size) in between.iter().enumerate() {
        let room = AT_MOST - 1 - chosen.len();
        let step = (seconds(last) / wanted).powf(1.0 / (room + 1) as f64);
        // The first size as fast as the next ratio requires; all sizes once there are no more than free positions.
        if room > 0 && (seconds(size) <= wanted * step || between.len() - index <= room) {
            chosen.push(*size);
            wanted = seconds(size);
        }
    }
    chosen.push(*last);
    chosen
}

#[cfg(test)]
mod tests {
    use pliant_model::{JobId, Request, Speed, Speedup, Time};

    use super::*;

    fn offered(procs: u32, walltime: i64, speedup: Speedup, capacity: u32) -> Vec<(u32, i64)> {
        let (procs, walltime) = (Procs(procs), Span(walltime));
        let request = Request::new(JobId(0), Time::ZERO, procs, walltime, speedup);
        let walltimes = request.on(Procs(capacity), Speed::REFERENCE);
        let sizes =
            walltimes.map(|walltimes| candidate_sizes(&walltimes, Procs(capacity))).unwrap_or_default();
        sizes.iter().map(|size| (size.procs.0, size.walltime.0)).collect()
    }

    #[test]
    fn sizes_worth_trying() {
        let check = |asked: (u32, i64, Speedup), capacity: u32, expected: &[(u32, i64)]| {
            assert_eq!(offered(asked.0, asked.1, asked.2, capacity), expected);
        };
        let amdahl = |parallel, limit| Speedup::Amdahl { parallel, limit: Procs(limit) };
        check((4, 100, Speedup::Rigid), 8, &[(4, 100)]);
        check((4, 100, Speedup::Rigid), 3, &[]);
        check((1, 600, amdahl(1.0, 4)), 8, &[(1, 600), (2, 300), (3, 200), (4, 150)]);
        // Of nothing in parallel one processor is enough.
        check((1, 600, amdahl(0.0, 4)), 8, &[(1, 600)]);
        // Rounded to seconds, some sizes are no faster than smaller ones.
        check((1, 4, amdahl(1.0, 8)), 8, &[(1, 4), (2, 2), (4, 1)]);
        check(
            (1, 6400, amdahl(1.0, 64)),
            64,
            &[(1, 6400), (2, 3200), (4, 1600), (7, 915), (13, 493), (23, 279), (39, 165), (64, 100)],
        );
    }

    #[test]
    fn few_and_ever_faster() {
        for limit in 1..200 {
            let sizes = offered(1, 86_400, Speedup::Amdahl { parallel: 0.97, limit: Procs(limit) }, 500);
            assert!(sizes.len() <= AT_MOST && sizes.len() >= (limit as usize).min(AT_MOST), "{sizes:?}");
            assert!(sizes.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 > pair[1].1), "{sizes:?}");
            assert_eq!((sizes[0].0, sizes[sizes.len() - 1].0), (1, limit), "both ends");
        }
    }
}
