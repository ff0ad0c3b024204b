//! Which mandatory requests move to better servers while they wait: what paper 004 leaves to future work (section 6).
//!
//! The algorithm is the regular one of paper 000 with the MCT heuristic: each waiting request, in the order in which they were
//! submitted, goes to the server that would complete it first, if that is sooner than where it is. A server is given one
//! request at a time: then what it told of itself holds no more.
//!
//! Cost: O(waiting requests times servers).

use pliant_model::SpanMs;

use super::Prospect;
use crate::completion::Preference;

/// How mandatory requests that wait are moved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Reallocation {
    /// How often servers are asked what may be expected of them.
    pub every: SpanMs,
    /// By how much sooner a request has to be completed elsewhere: a move takes two messages.
    pub least_gain: SpanMs,
}

/// A mandatory request that waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Waiting<S> {
    /// The request.
    pub number: u32,
    /// Where.
    pub server: S,
    /// For how long still; none if that cannot be told.
    pub wait: Option<SpanMs>,
}

/// A move that is worth it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Move<S> {
    /// The request.
    pub number: u32,
    /// Where it waits.
    pub from: S,
    /// Where it would be completed first.
    pub to: S,
    /// By how much sooner; none if nobody could tell how long it would wait where it is.
    pub gain: Option<SpanMs>,
}

/// Which of one user's waiting requests move. `servers` are those that can be gone to, in the order in which they are preferred
/// among equals; where nothing has ended yet a request is taken to run as long as anywhere.
pub fn reallocate<S: Copy + PartialEq>(
    waiting: &[Waiting<S>],
    servers: &[(S, Prospect)],
    least_gain: SpanMs,
) -> Vec<Move<S>> {
    let anywhere = servers.iter().filter_map(|(_, prospect)| prospect.run).max().unwrap_or_default();
    let run = |server: S| {
        let found = servers.iter().find(|(other, _)| *other == server);
        found.and_then(|(_, prospect)| prospect.run).unwrap_or(anywhere)
    };
    let mut free = servers.to_vec();
    let mut moves = Vec::new();
    for Waiting { number, server, wait } in waiting.iter().copied() {
        let there = |(place, (to, prospect)): (usize, &(S, Prospect))| {
            let wait = prospect.wait.filter(|_| *to != server)?;
            Some(Preference { completion: wait + run(*to), rank: place })
        };
        let best = free.iter().enumerate().filter_map(there).min();
        let Some(Preference { completion, rank: place }) = best else { continue };
        let gain = wait.map(|wait| wait + run(server) - completion);
        if gain.is_none_or(|gain| gain >= least_gain && gain > SpanMs::ZERO) {
            let (to, _) = free.remove(place);
            moves.push(Move { number, from: server, to, gain });
        }
    }
    moves
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Waiting requests as (server, wait), servers as (server, wait, run), -1 for what cannot be told; moves as (request, to).
    fn check(waiting: &[(char, i64)], servers: &[(char, i64, i64)], expected: &[(u32, char)]) {
        let told = |ms: i64| (ms >= 0).then_some(SpanMs(ms));
        let waiting: Vec<_> = (0..)
            .zip(waiting)
            .map(|(number, (server, wait))| Waiting { number, server: *server, wait: told(*wait) })
            .collect();
        let servers: Vec<_> = servers
            .iter()
            .map(|(server, wait, run)| (*server, Prospect { wait: told(*wait), run: told(*run) }))
            .collect();
        let moves = reallocate(&waiting, &servers, SpanMs(100));
        let found: Vec<_> = moves.iter().map(|one| (one.number, one.to)).collect();
        assert_eq!(found, expected, "{waiting:?} {servers:?}");
    }

    #[test]
    fn a_request_goes_where_it_is_completed_first() {
        check(&[('a', 900)], &[('a', 1_900, 1_000), ('b', 300, 1_000), ('c', 0, 1_000)], &[(0, 'c')]);
        // Waiting less is worth nothing on a server that is so much slower.
        check(&[('a', 900)], &[('a', 1_900, 1_000), ('b', 0, 3_000), ('c', 500, 1_000)], &[(0, 'c')]);
    }

    #[test]
    fn a_small_gain_is_none() {
        check(&[('a', 350)], &[('a', 1_350, 1_000), ('b', 300, 1_000)], &[]);
        check(&[('a', 400)], &[('a', 1_400, 1_000), ('b', 300, 1_000)], &[(0, 'b')]);
    }

    #[test]
    fn a_server_gets_one_request_at_a_time_and_none_its_own() {
        check(
            &[('a', 1_000), ('a', 2_000), ('a', 3_000)],
            &[('a', 4_000, 1_000), ('b', 0, 1_000), ('c', 500, 1_000)],
            &[(0, 'b'), (1, 'c')],
        );
        check(&[('a', 1_000)], &[('a', 0, 1_000)], &[]);
    }

    #[test]
    fn what_cannot_be_told_is_no_place_to_go_and_one_to_leave() {
        check(&[('a', -1)], &[('a', -1, -1), ('b', -1, -1)], &[]);
        check(&[('a', -1)], &[('a', -1, -1), ('b', 0, -1)], &[(0, 'b')]);
        check(&[('a', 500)], &[('a', 1_500, 1_000), ('b', 0, -1)], &[(0, 'b')]);
    }
}
