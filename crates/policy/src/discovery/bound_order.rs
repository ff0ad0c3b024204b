//! Candidates in the order of their bounds.

use pliant_model::Time;

use crate::completion::Preference;

/// Candidates in the order of their bounds: no estimate of a candidate is preferred to its bound. Reused without allocating.
#[derive(Clone, Debug)]
pub struct BoundOrder<Rank, Candidate> {
    candidates: Vec<(Preference<Time, Rank>, Candidate)>,
    next: usize,
}

impl<Rank, Candidate> Default for BoundOrder<Rank, Candidate> {
    fn default() -> Self {
        BoundOrder { candidates: Vec::new(), next: 0 }
    }
}

impl<Rank: Ord, Candidate: Clone> BoundOrder<Rank, Candidate> {
    /// Removes all candidates.
    pub fn clear(&mut self) {
        self.candidates.clear();
        self.next = 0;
    }

    /// Adds a candidate. [`BoundOrder::sort`] follows.
    pub fn push(&mut self, completion: Time, rank: Rank, candidate: Candidate) {
        self.candidates.push((Preference { completion, rank }, candidate));
    }

    /// Puts the candidates in order.
    pub fn sort(&mut self) {
        self.candidates.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
    }

    /// The candidates that were not taken, the best bound first.
    pub fn rest(&self) -> impl Iterator<Item = &(Preference<Time, Rank>, Candidate)> {
        self.candidates[self.next..].iter()
    }

    /// Takes the next candidate if `may_take` says that an estimate at its bound can be of use. If not, no later one is.
    pub fn next_if(&mut self, may_take: impl FnOnce(&Preference<Time, Rank>) -> bool) -> Option<Candidate> {
        let (bound, candidate) = self.candidates.get(self.next)?;
        if !may_take(bound) {
            return None;
        }
        self.next += 1;
        Some(candidate.clone())
    }
}
