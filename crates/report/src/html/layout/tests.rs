use pliant_model::{ClusterId, JobOutcome, MapReason, Platform, Procs, Reason, Span, Time};
use proptest::prelude::*;

use super::*;

fn job(start: i64, end: i64, procs: u32) -> JobOutcome {
    JobOutcome {
        log_id: 0,
        cluster: ClusterId(0),
        submit: Time(0),
        start: Time(start),
        end: Time(end),
        procs: Procs(procs),
        walltime: Span(end - start),
        moves: 0,
        managed: true,
        reason: Reason::Mapped(MapReason::Given),
    }
}

fn layout_of(procs: u32, jobs: Vec<JobOutcome>) -> (Run, Layout) {
    let platform = Platform::single(Procs(procs), "cbf").unwrap();
    let run = Run { platform, jobs, refused: Vec::new(), moves: Vec::new(), reallocations: 0 };
    let layout = Layout::of(&run);
    (run, layout)
}

fn check(procs: u32, jobs: &[(i64, i64, u32)], expected: &[&[(u32, u32)]]) {
    let (_, layout) =
        layout_of(procs, jobs.iter().map(|&(start, end, procs)| job(start, end, procs)).collect());
    for (index, expected) in expected.iter().enumerate() {
        let found: Vec<_> =
            layout.pieces(index as u32).iter().map(|piece| (piece.first, piece.count)).collect();
        assert_eq!(&found[..], *expected, "job {index}");
    }
}

#[test]
fn the_narrowest_gap_that_is_wide_enough() {
    // 0 and 1 leave a gap of one and a gap of two; the third job fits the second gap only.
    check(5, &[(0, 5, 1), (0, 9, 2), (5, 9, 2), (6, 9, 1)], &[&[(0, 1)], &[(1, 2)], &[(3, 2)], &[(0, 1)]]);
}

#[test]
fn pieces_where_no_gap_is_wide_enough() {
    check(4, &[(0, 5, 1), (0, 9, 2), (5, 9, 2)], &[&[(0, 1)], &[(1, 2)], &[(0, 1), (3, 1)]]);
}

#[test]
fn few_pieces_rather_than_low_ones() {
    // Free are 0, 2 and 4..7: three processors in one piece, four in two.
    let held = [(0, 2, 1), (0, 9, 1), (0, 2, 1), (0, 9, 1), (0, 2, 3)];
    let with = |procs| [&held[..], &[(2, 9, procs)]].concat();
    check(7, &with(3), &[&[(0, 1)], &[(1, 1)], &[(2, 1)], &[(3, 1)], &[(4, 3)], &[(4, 3)]]);
    check(7, &with(4), &[&[(0, 1)], &[(1, 1)], &[(2, 1)], &[(3, 1)], &[(4, 3)], &[(4, 3), (0, 1)]]);
}

#[test]
fn a_job_may_start_when_another_ends() {
    check(4, &[(0, 5, 4), (5, 5, 4), (5, 6, 4)], &[&[(0, 4)], &[(0, 4)], &[(0, 4)]]);
}

#[test]
fn overbooking_is_counted() {
    let (_, layout) = layout_of(4, vec![job(0, 5, 3), job(1, 2, 3)]);
    assert_eq!(layout.overbooked, 1);
    assert_eq!(layout.pieces(1), [Piece { first: 3, count: 1 }]);
}

proptest! {
    /// Whatever fits is drawn, whole, and nowhere twice at one time.
    #[test]
    fn nothing_overlaps(drawn in prop::collection::vec((0_i64..60, 1_i64..20, 1_u32..6), 0..60)) {
        let mut used = vec![0_u32; 100];
        let mut jobs = Vec::new();
        for (start, length, procs) in drawn {
            let when = start as usize..(start + length) as usize;
            if used[when.clone()].iter().all(|busy| busy + procs <= 8) {
                used[when].iter_mut().for_each(|busy| *busy += procs);
                jobs.push(job(start, start + length, procs));
            }
        }
        let (run, layout) = layout_of(8, jobs);
        prop_assert_eq!(layout.overbooked, 0);
        let mut owner = vec![[false; 8]; 100];
        for (index, job) in run.jobs.iter().enumerate() {
            let pieces = layout.pieces(index as u32);
            prop_assert_eq!(pieces.iter().map(|piece| piece.count).sum::<u32>(), job.procs.0);
            for second in job.start.0..job.end.0 {
                for row in pieces.iter().flat_map(|piece| piece.first..piece.first + piece.count) {
                    let taken = &mut owner[second as usize][row as usize];
                    prop_assert!(!*taken, "processor {} at {}", row, second);
                    *taken = true;
                }
            }
        }
    }
}
