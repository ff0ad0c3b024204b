//! mapping

crate::named_enum! {
    /// How the agent chooses the cluster of an arriving request.
    Mapping, "mapping", {
        /// Minimum completion time (paper 000, section 3.1): the earliest ECT, ties to the first cluster.
        Mct = "mct",
        /// Uniformly among the clusters that can run it.
        Random = "random",
        /// The cluster that the log's user chose.
        Given = "given",
    }
}
