//! Compares the chunked queue with a plain vector.

use pliant_model::{JobId, Procs, Span};
use proptest::prelude::*;

use super::super::Submission;
use super::super::queue::SubmissionQueue;

#[derive(Clone, Debug)]
enum Action {
    Push(u32, i64),
    /// Removes the job at that position, modulo the length.
    Remove(usize),
    RemoveHead,
    /// Searches behind that position for a job of at most that size, or at most that walltime.
    Search(usize, u32, i64),
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        6 => (1..40_u32, 1..50_i64).prop_map(|(procs, walltime)| Action::Push(procs, walltime)),
        2 => (0..500_usize).prop_map(Action::Remove),
        3 => Just(Action::RemoveHead),
        2 => (0..500_usize, 0..12_u32, 0..12_i64).prop_map(|(at, procs, walltime)| Action::Search(at, procs, walltime)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn equals_a_vector(actions in prop::collection::vec(action(), 1..600)) {
        let mut queue = SubmissionQueue::default();
        let mut plain: Vec<Submission> = Vec::new();
        let mut next = 0;
        for action in actions {
            match action {
                Action::Push(procs, walltime) => {
                    let job = Submission::new(JobId(next), Procs(procs), Span(walltime));
                    next += 1;
                    queue.push(job.clone());
                    plain.push(job.clone());
                    prop_assert_eq!(queue.last().map(|(_, job)| job), Some(job));
                }
                Action::Remove(at) if !plain.is_empty() => {
                    let job = plain.remove(at % plain.len());
                    let slot = queue.slot(job.job).expect("the job waits");
                    prop_assert_eq!(queue.remove(slot), Some(job.clone()));
                    prop_assert_eq!(queue.slot(job.job), None);
                }
                Action::RemoveHead if !plain.is_empty() => {
                    let (slot, head) = queue.head().expect("somebody waits");
                    prop_assert_eq!(queue.remove(slot), Some(head.clone()));
                    prop_assert_eq!(plain.remove(0), head);
                }
                Action::Search(at, procs, walltime) if !plain.is_empty() => {
                    let at = at % plain.len();
                    let admits = |p: Procs, w: Span| p.0 <= 2 * procs && (p.0 <= procs || w.0 <= walltime);
                    let from = queue.slot(plain[at].job).expect("the job waits");
                    let expected = plain[at..].iter().find(|job| admits(job.procs, job.walltime));
                    prop_assert_eq!(queue.next_where(from, admits).map(|(_, job)| job), expected.cloned());
                }
                _ => {}
            }
            prop_assert_eq!(queue.len(), plain.len());
            prop_assert_eq!(queue.head().map(|(_, job)| job), plain.first().cloned());
        }
        prop_assert!(queue.iter().eq(plain));
    }
}
