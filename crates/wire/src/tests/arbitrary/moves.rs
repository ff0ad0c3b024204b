//! Moves of waiting jobs, and the queues that they are decided on.

use pliant_control::agent::{Moving, Proposal, Report};
use pliant_control::handoff::{HandoffId, Movable, MoveOutcome, Order, Picture, Reply, Stays};
use pliant_control::job::Hop;
use pliant_model::{JobId, MoveReason, Owner, Span};
use pliant_policy::batch::order::{Charge, Shares, UserUsage};
use pliant_policy::batch::{Dump, RunningJob, Start, Submission as InLine, Waiting};
use pliant_policy::nodes;
use pliant_policy::reallocation::{Algorithm, Heuristic, Reallocation};
use pliant_policy::tuning::Tuner;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use super::super::super::{Prepare, bounds};
use super::*;

/// A completion that was expected, or that of a job that was not planned.
fn before() -> impl Strategy<Value = Time> {
    prop_oneof![3 => time(), 1 => Just(Time::MAX)]
}

pub(in super::super) fn hop() -> impl Strategy<Value = Hop> {
    let reason =
        select(&[MoveReason::EarlierCompletion, MoveReason::Resubmitted, MoveReason::FirstStart][..]);
    (name(), name(), any::<u32>(), time(), before(), estimate(), reason).prop_map(
        |(from, to, attempt, at, before, expected, reason)| Hop {
            from,
            to,
            attempt,
            at,
            before,
            expected,
            reason,
        },
    )
}

pub(in super::super) fn handoff_id() -> impl Strategy<Value = HandoffId> {
    (handle(), any::<u32>()).prop_map(|(job, attempt)| HandoffId { job, attempt })
}

pub(in super::super) fn outcome() -> impl Strategy<Value = MoveOutcome> {
    let stays = prop_oneof![
        Just(Stays::NotWaiting),
        Just(Stays::Pinned),
        Just(Stays::Kept),
        Just(Stays::OnItsWay),
        estimate().prop_map(|plan| Stays::NotWorthIt { plan }),
        text().prop_map(Stays::Refused),
        Just(Stays::Silent),
        text().prop_map(Stays::Other),
    ];
    prop_oneof![
        hop().prop_map(|hop| MoveOutcome::Moved(Box::new(hop))),
        stays.prop_map(MoveOutcome::Stays),
        estimate().prop_map(MoveOutcome::Copied),
    ]
}

pub(in super::super) fn order() -> impl Strategy<Value = Order> {
    let gain = option::of(bounds::PERIOD_S.prop_map(Span));
    let patience = bounds::PATIENCE_S.prop_map(Span);
    (handle(), name(), address(), estimate(), gain, hop(), patience, any::<bool>()).prop_map(
        |(job, to, address, expected, gain, hop, patience, copy)| Order {
            job,
            to,
            address,
            expected,
            gain,
            reason: hop.reason,
            patience,
            copy,
        },
    )
}

pub(in super::super) fn picture() -> impl Strategy<Value = Picture> {
    let number = || any::<u32>().prop_map(JobId);
    let running = (number(), procs(), time()).prop_map(|(job, procs, end)| RunningJob { job, procs, end });
    let placed = (number(), estimate()).prop_map(|(job, plan)| Waiting { job, plan });
    let owner = || any::<u64>().prop_map(Owner);
    let line = (number(), procs(), scaled_walltime(), time(), owner())
        .prop_map(|(job, procs, walltime, submit, owner)| InLine { job, procs, walltime, submit, owner });
    let head = (number(), procs(), scaled_walltime()).prop_map(|(job, procs, walltime)| Start {
        job,
        procs,
        walltime,
    });
    let whose = (time(), owner());
    let movable = (any::<u32>(), handle(), key(), work(), whose, any::<u32>(), vec(name(), 0..3)).prop_map(
        |(number, job, key, work, (submitted, owner), moves, copies)| Movable {
            avoids: copies.iter().rev().cloned().collect(),
            number,
            job,
            key,
            work,
            submitted,
            owner,
            moves,
            copies,
        },
    );
    let queue =
        (vec(running, 0..3), vec(placed, 0..3), vec(line, 0..3), option::of(head), option::of(shares()))
            .prop_map(|(running, placed, line, head, shares)| Dump { running, placed, line, head, shares });
    let closed = option::of(word());
    (server_info(), select(Tuner::ALL), queue, option::of(nodes_picture()), vec(movable, 0..3), closed)
        .prop_map(|(info, tuner, queue, nodes, movable, closed)| Picture {
            info,
            tuner,
            queue,
            nodes,
            movable,
            closed,
        })
}

fn shares() -> impl Strategy<Value = Shares> {
    let owner = || any::<u64>().prop_map(Owner);
    let user =
        (owner(), any::<u64>(), any::<i64>()).prop_map(|(owner, used, hour)| UserUsage { owner, used, hour });
    let charge = (any::<u32>().prop_map(JobId), owner(), procs(), time())
        .prop_map(|(job, owner, procs, start)| Charge { job, owner, procs, start });
    (time(), vec(user, 0..3), vec(charge, 0..3)).prop_map(|(since, users, running)| Shares {
        since,
        users,
        running,
    })
}

/// What is written is taken: the window of rules without an end is cut to the end of time.
pub(super) fn nodes_picture() -> impl Strategy<Value = nodes::Picture> {
    let number = || any::<u32>().prop_map(JobId);
    let node = (word(), procs(), any::<bool>(), option::of(procs()))
        .prop_map(|(name, cores, up, taken)| nodes::Node { name, cores, up, taken });
    let share = (0..9_u32, option::of(procs())).prop_map(|(node, cores)| nodes::Share { node, cores });
    let running = (number(), procs(), vec(share, 0..3), time(), option::of(time()))
        .prop_map(|(job, cores, on, end, expected)| nodes::Holder { job, cores, on, end, expected });
    let shape = (procs(), option::of(1..9_u32), procs(), any::<bool>())
        .prop_map(|(cores, nodes, per_node, exclusive)| nodes::Shape { cores, nodes, per_node, exclusive });
    let times = (scaled_walltime(), option::of(scaled_walltime()), option::of(time()));
    let pending = (number(), shape, times, any::<bool>()).prop_map(
        |(job, shape, (walltime, expected, begin), blocked)| nodes::Pending {
            job,
            shape,
            walltime,
            expected,
            begin,
            blocked,
            published: None,
        },
    );
    let rules = (1..100_i64).prop_map(|interval| nodes::Rules {
        window: Span(86_400),
        pause: Span(interval / 2),
        ..nodes::Rules::slurm(Span(interval))
    });
    (vec(node, 0..3), vec(running, 0..3), vec(pending, 0..3), rules)
        .prop_map(|(nodes, running, pending, rules)| nodes::Picture { nodes, running, pending, rules })
}

pub(in super::super) fn prepare() -> impl Strategy<Value = Prepare> {
    let times = (time(), before(), time());
    (handoff_id(), address(), user(), submission(), vec(hop(), 1..3), times, word(), any::<bool>()).prop_map(
        |(id, address, owner, submission, hops, (submitted, before, latest), request, copy)| Prepare {
            id,
            address,
            key: submission.key,
            owner,
            what: submission.what,
            inputs: submission.inputs,
            submitted,
            compared: submission.compared,
            survey: submission.survey,
            reason: hops[0].reason,
            hops,
            before,
            latest,
            copy,
            request,
        },
    )
}

pub(in super::super) fn handoff_reply() -> impl Strategy<Value = Reply> {
    prop_oneof![
        estimate().prop_map(Reply::Prepared),
        text().prop_map(Reply::Refused),
        Just(Reply::Done),
        Just(Reply::Unknown),
    ]
}

pub(in super::super) fn moving() -> impl Strategy<Value = Moving> {
    let (algorithm, heuristic) = (select(Algorithm::ALL), select(Heuristic::ALL));
    let span = || bounds::PERIOD_S.prop_map(Span);
    (algorithm, heuristic, span(), span(), 1..u32::MAX, option::of(span())).prop_map(
        |(algorithm, heuristic, period, threshold, window, early)| {
            let window = window as usize;
            Moving { policy: Reallocation { algorithm, heuristic, period, threshold, window }, early }
        },
    )
}

pub(in super::super) fn report() -> impl Strategy<Value = Report> {
    let proposal = (handle(), name(), name(), before(), estimate(), any::<bool>(), option::of(outcome()))
        .prop_map(|(job, from, to, before, expected, copy, outcome)| Proposal {
            job,
            from,
            to,
            before,
            expected,
            copy,
            outcome,
        });
    let closed = vec((name(), word()), 0..3);
    (option::of(word()), any::<u32>(), vec(name(), 0..3), closed, any::<u32>(), vec(proposal, 0..3)).prop_map(
        |(refused, servers, silent, closed, movable, proposals)| Report {
            closed,
            refused,
            servers,
            silent,
            movable,
            proposals,
        },
    )
}
