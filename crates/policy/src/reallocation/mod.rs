//! reallocation
use pliant_model::Span;

crate::named_enum! {
    /// How waiting jobs are taken up at a reallocation event (paper 000, section 3.2.2).
    Algorithm, "reallocation algorithm", {
        /// A job moves when another cluster completes it earlier by at least the threshold.
        Regular = "regular",
        /// Every waiting job is cancelled and submitted again.
        AllCancellation = "all-cancellation",
        /// All-cancellation in which no job is ever given a later ECT than it had.
        NoWorse = "no-worse",
    }
}

crate::named_enum! {
    /// In which order jobs are taken up at a reallocation event.
    Heuristic, "heuristic", {
        /// Order of submission.
        Mct = "mct",
        /// Smallest minimum ECT first.
        MinMin = "minmin",
        /// Largest minimum ECT first.
        MaxMin = "maxmin",
        /// Largest difference between the best and the second-best ECT first.
        Sufferage = "sufferage",
        /// Largest gain over the present ECT first.
        MaxGain = "maxgain",
        /// Largest gain per processor first.
        MaxRelGain = "maxrelgain",
    }
}

/// A reallocation policy with its parameters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reallocation {
    /// How jobs are taken up.
    pub algorithm: Algorithm,
    /// In which order.
    pub heuristic: Heuristic,
    /// Time between two events.
    pub period: Span,
    /// The least gain for which `regular` moves a job.
    pub threshold: Span,
    /// How many of the oldest jobs the heuristics other than MCT consider per event.
    pub window: usize,
}

impl Reallocation {
    /// The paper's parameters: every hour, at least a minute, the 20 oldest.
    pub fn new(algorithm: Algorithm, heuristic: Heuristic) -> Reallocation {
        Reallocation { algorithm, heuristic, period: Span(3600), threshold: Span(60), window: 20 }
    }
}
