//! The advance reservations that our own jobs have their nodes of, if the server submits them with any.

use std::collections::BTreeMap;

use pliant_model::{Span, Time};

use crate::listing::{ListedJob, Listing, Node, Reservation};

/// Which nodes our own jobs have of their reservations, and when.
pub(super) struct OwnReservations<'a> {
    /// Of each node from when until when, and how many cores if not all.
    windows: BTreeMap<&'a str, Vec<Window>>,
}

#[derive(Clone, Copy)]
struct Window {
    from: Time,
    until: Time,
    cores: Option<u32>,
}

/// One that keeps licences alone says nothing about nodes.
fn own(listing: &Listing) -> impl Iterator<Item = &Reservation> {
    listing.reservations.iter().filter(|one| one.ours && !one.nodes.is_empty())
}

/// Whether a job may have nodes that ours may have.
pub(super) fn shares_own(listing: &Listing, job: &ListedJob) -> bool {
    let mut named = job.reservation.iter().flat_map(|names| names.split(','));
    own(listing).next().is_none() || named.any(|name| own(listing).any(|one| one.name == name))
}

impl<'a> OwnReservations<'a> {
    /// None if our jobs have no reservation of nodes.
    pub(super) fn of(listing: &'a Listing) -> Option<OwnReservations<'a>> {
        let mut windows: BTreeMap<&str, Vec<Window>> = BTreeMap::new();
        for one in own(listing) {
            for part in &one.nodes {
                let window = Window { from: one.from, until: one.until, cores: part.cores };
                windows.entry(&part.node).or_default().push(window);
            }
        }
        windows.values_mut().for_each(|all| all.sort_by_key(|window| window.from));
        (!windows.is_empty()).then_some(OwnReservations { windows })
    }

    pub(super) fn has(&self, node: &Node) -> bool {
        self.windows.contains_key(node.name.as_str())
    }

    /// The cores of a node that our jobs may have.
    pub(super) fn cores(&self, node: &Node) -> u32 {
        let windows = self.windows.get(node.name.as_str()).into_iter().flatten();
        windows.map(|window| window.cores.unwrap_or(node.cores).min(node.cores)).max().unwrap_or(0)
    }

    /// How long a job can run at most that starts now or later.
    pub(super) fn longest(&self, now: Time) -> Option<Span> {
        let windows = self.windows.values().flatten();
        windows.map(|window| (window.until - window.from.max(now)).max(Span::ZERO)).max()
    }

    /// When our jobs may not have a node, from now until the end of its last reservation.
    pub(super) fn gaps(&self, node: &Node, now: Time) -> Vec<(Time, Time)> {
        let (mut gaps, mut free_from) = (Vec::new(), now);
        for window in self.windows.get(node.name.as_str()).into_iter().flatten() {
            if window.from > free_from {
                gaps.push((free_from, window.from));
            }
            free_from = free_from.max(window.until);
        }
        gaps
    }
}
