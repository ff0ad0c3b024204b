//! tuning

crate::named_enum! {
    /// How a server chooses the number of processors of a moldable request (paper 000, section 3.2.1).
    Tuner, "tuner", {
        /// Tries every size.
        Exhaustive = "exhaustive",
        /// The paper's binary search: few estimations, may miss the best size.
        Binary = "binary",
        /// One pass over the profile: the exhaustive answer at the cost of a few probes.
        Exact = "exact",
    }
}
