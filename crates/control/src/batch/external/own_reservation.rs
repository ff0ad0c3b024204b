//! The advance reservation that our own jobs have their nodes of, if the server submits them with one.

use std::collections::BTreeMap;

use pliant_model::Time;

use crate::listing::{Listing, Node, Reservation};

/// The reservations of our own jobs, as one: from the first beginning to the last end.
pub(super) struct OwnReservation<'a> {
    pub(super) from: Time,
    pub(super) until: Time,
    /// Its nodes, with the number of its cores if it keeps only some.
    pub(super) nodes: BTreeMap<&'a str, Option<u32>>,
}

/// The reservations of our own jobs.
pub(super) fn own(listing: &Listing) -> impl Iterator<Item = &Reservation> {
    listing.reservations.iter().filter(|one| one.ours)
}

impl<'a> OwnReservation<'a> {
    /// None if our jobs have no reservation.
    pub(super) fn of(listing: &'a Listing) -> Option<OwnReservation<'a>> {
        let from = own(listing).map(|one| one.from).min()?;
        let until = own(listing).map(|one| one.until).max()?;
        let parts = own(listing).flat_map(|one| &one.nodes);
        Some(OwnReservation {
            from,
            until,
            nodes: parts.map(|part| (part.node.as_str(), part.cores)).collect(),
        })
    }

    /// The cores of one of its nodes that our jobs may have.
    pub(super) fn cores(&self, node: &Node) -> u32 {
        let kept = self.nodes.get(node.name.as_str()).copied().unwrap_or(Some(0));
        kept.unwrap_or(node.cores).min(node.cores)
    }
}
