//! What is asked down the tree and answered up it: questions, vectors, and who is there.

use pliant_control::access::Caller;
use pliant_control::agent::{Ask, ChildKind, Found, What};
use pliant_control::reason::{Reason, Survey};
use pliant_control::server_info::ServerInfo;
use pliant_control::vector::Vector;

use super::super::super::{AgentStatus, Federation, FromChild, FromParent, ServerStatus};
use super::*;

pub(in super::super) fn vector() -> impl Strategy<Value = Vector> {
    of!(Vector {
        server: name(),
        address: address(),
        rank: any::<u32>(),
        estimate: estimate(),
        speed: speed(),
        procs: procs(),
        free: free(),
        queue_length: any::<u32>(),
    })
}

pub(in super::super) fn what() -> impl Strategy<Value = What> {
    prop_oneof![
        work().prop_map(What::Work),
        of!(What::Service { name: word(), arguments: btree_map(word(), text(), 0..4) }),
    ]
}

pub(in super::super) fn ask() -> impl Strategy<Value = Ask> {
    of!(Ask {
        what: what(),
        caller: of!(Caller { user: user(), operator: any::<bool>() }),
        best: bounds::BEST,
        only: option::of(name()),
        patience: option::of(bounds::PATIENCE_S.prop_map(Span)),
    })
}

pub(in super::super) fn found() -> impl Strategy<Value = Found> {
    of!(Found {
        vectors: vec(vector(), 0..4),
        refusals: vec((name(), reason()), 0..4),
        silent: vec(name(), 0..4),
        more: any::<u32>(),
        absent: vec(name(), 0..4),
        servers: any::<u32>(),
        answered: any::<u32>(),
        pictures: vec(picture(), 0..3),
        outcome: option::of(outcome()),
    })
}

pub(super) fn reason() -> impl Strategy<Value = Reason> {
    of!(Reason { cause: select(&Cause::ALL[..]), why: text() })
}

pub(in super::super) fn survey() -> impl Strategy<Value = Survey> {
    let passed = vec((name(), select(&Cause::ALL[..])), 0..4);
    of!(Survey { servers: any::<u32>(), answered: any::<u32>(), passed: passed })
}

pub(in super::super) fn server_info() -> impl Strategy<Value = ServerInfo> {
    of!(ServerInfo {
        name: name(),
        address: address(),
        rank: any::<u32>(),
        procs: procs(),
        speed: speed(),
        policy: text(),
        services: vec((word(), text()), 0..4),
        scripts: any::<bool>(),
        optional_cores: 0..=10_000_000_u32,
        optional_per_core: 0..=10_000_000_u32,
    })
}

pub(in super::super) fn from_child() -> impl Strategy<Value = FromChild> {
    let servers = || vec(server_info(), 0..3);
    prop_oneof![
        of!(FromChild::Hello {
            name: name(),
            kind: select(vec![ChildKind::Server, ChildKind::Agent]),
            journal: any::<u64>(),
            servers: servers(),
        }),
        servers().prop_map(FromChild::Servers),
        of!(FromChild::Answer { discovery: any::<u64>(), found: found() }),
        of!(FromChild::Piece { discovery: any::<u64>(), bytes: vec(any::<u8>(), 0..9), last: any::<bool>() }),
        of!(FromChild::News { sequence: any::<u64>(), record: job().prop_map(Box::new) }),
        of!(FromChild::Heartbeat { now: option::of(time()) }),
        of!(FromChild::Unnumbered { server: name() }),
        Just(FromChild::Freed),
    ]
}

pub(in super::super) fn from_parent() -> impl Strategy<Value = FromParent> {
    let request = any::<u64>().prop_map(|number| format!("{number:016x}").parse().unwrap());
    prop_oneof![
        of!(FromParent::Question {
            discovery: any::<u64>(),
            ask: ask().prop_map(Box::new),
            request: option::of(request),
            pieces: any::<bool>(),
        }),
        of!(FromParent::Acknowledge { sequence: any::<u64>(), numbers: any::<bool>() }),
        of!(FromParent::Numbered { server: name(), highest: any::<u32>() }),
        Just(FromParent::Heartbeat),
    ]
}

pub(in super::super) fn federation() -> impl Strategy<Value = Federation> {
    let ahead = || option::of(time().prop_map(|time| Span(time.0)));
    let server = of!(ServerStatus {
        info: server_info(),
        via: name(),
        attached: any::<bool>(),
        queued: any::<u32>(),
        active: any::<u32>(),
        clock_ahead: ahead(),
    });
    let agent =
        of!(AgentStatus { name: name(), attached: any::<bool>(), since: time(), clock_ahead: ahead() });
    of!(Federation { servers: vec(server, 0..3), agents: vec(agent, 0..3), now: option::of(time()) })
}
