//! Moves of waiting mandatory requests to better servers, which paper 004 leaves to future work (section 6).
//!
//! The algorithm is regular reallocation of paper 000 with MCT: each waiting request, in order of submission, moves to the
//! server that completes it first, if that is earlier than at its own. Each server gets one request per cycle, since its
//! forecast is stale after that.
//!
//! Cost: O(waiting requests x servers).

use pliant_model::SpanMs;

use super::Prospect;
use crate::completion::Preference;

/// The parameters of reallocation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Reallocation {
    /// Time between two queries of the servers.
    pub every: SpanMs,
    /// The smallest gain of a move, which takes two messages.
    pub least_gain: SpanMs,
}

/// A waiting mandatory request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Waiting<S> {
    /// The request.
    pub number: u32,
    /// Its server.
    pub server: S,
    /// Its remaining wait; none if unknown.
    pub wait: Option<SpanMs>,
}

/// A move of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Move<S> {
    /// The request.
    pub number: u32,
    /// The source.
    pub from: S,
    /// The target.
    pub to: S,
    /// The gain; none if the wait at the source is unknown.
    pub gain: Option<SpanMs>,
}

/// The moves of one user's waiting requests. `servers` are the possible targets in order of preference. A server without
/// ended requests is assumed to run a request as long as any other.
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
        let there = |(index, (to, prospect)): (usize, &(S, Prospect))| {
            let wait = prospect.wait.filter(|_| *to != server)?;
            Some(Preference { completion: wait + run(*to), rank: index })
        };
        let best = free.iter().enumerate().filter_map(there).min();
        let Some(Preference { completion, rank: index }) = best else { continue };
        let gain = wait.map(|wait| wait + run(server) - completion);
        if gain.is_none_or(|gain| gain >= least_gain && gain > SpanMs::ZERO) {
            let (to, _) = free.remove(index);
            moves.push(Move { number, from: server, to, gain });
        }
    }
    moves
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Requests as (server, wait), servers as (server, wait, run), -1 for unknown; moves as (request, target).
    fn check(waiting: &[(char, i64)], servers: &[(char, i64, i64)], expected: &[(u32, char)]) {
        let known = |ms: i64| (ms >= 0).then_some(SpanMs(ms));
        let waiting: Vec<_> = (0..)
            .zip(waiting)
            .map(|(number, (server, wait))| Waiting { number, server: *server, wait: known(*wait) })
            .collect();
        let servers: Vec<_> = servers
            .iter()
            .map(|(server, wait, run)| (*server, Prospect { wait: known(*wait), run: known(*run) }))
            .collect();
        let moves = reallocate(&waiting, &servers, SpanMs(100));
        let found: Vec<_> = moves.iter().map(|one| (one.number, one.to)).collect();
        assert_eq!(found, expected, "{waiting:?} {servers:?}");
    }

    #[test]
    fn a_request_goes_where_it_is_completed_first() {
        check(&[('a', 900)], &[('a', 1_900, 1_000), ('b', 300, 1_000), ('c', 0, 1_000)], &[(0, 'c')]);
        // A shorter wait does not help on a much slower server.
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
    fn servers_with_unknown_waits_are_no_targets_and_are_left() {
        check(&[('a', -1)], &[('a', -1, -1), ('b', -1, -1)], &[]);
        check(&[('a', -1)], &[('a', -1, -1), ('b', 0, -1)], &[(0, 'b')]);
        check(&[('a', 500)], &[('a', 1_500, 1_000), ('b', 0, -1)], &[(0, 'b')]);
    }
}
