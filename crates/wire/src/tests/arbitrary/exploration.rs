//! What clients and servers say of explorations.

use pliant_control::optional::server::{Prospects, Standing, UserShare};
use pliant_model::TimeMs;
use pliant_policy::optional::{Kind, Prospect, Share};

use super::super::super::{Attempt, Call, FromServer, OffersQuery, Said, Shares, ToServer};
use super::*;

fn moment() -> impl Strategy<Value = TimeMs> {
    bounds::TIME_MS.prop_map(TimeMs)
}

fn attempt() -> impl Strategy<Value = Attempt> {
    (any::<u32>(), any::<u32>()).prop_map(|(number, attempt)| Attempt { number, attempt })
}

pub(in super::super) fn to_server() -> impl Strategy<Value = ToServer> {
    let kind = select(vec![Kind::Mandatory, Kind::Optional]);
    prop_oneof![
        (key(), word(), option::of(moment()), vec(file(), 0..3), any::<u32>()).prop_map(
            |(exploration, service, deadline, inputs, shares_every_s)| ToServer::Begin {
                exploration,
                service,
                deadline,
                inputs,
                shares_every_s
            }
        ),
        (attempt(), kind, btree_map(word(), text(), 0..4)).prop_map(|(id, kind, arguments)| {
            ToServer::Call(Call { number: id.number, kind, attempt: id.attempt, arguments })
        }),
        attempt().prop_map(ToServer::Cancel),
        Just(ToServer::CancelAll),
        Just(ToServer::Expect),
        attempt().prop_map(ToServer::Withdraw),
    ]
}

fn prospects() -> impl Strategy<Value = Prospects> {
    let ms = || option::of(span_ms());
    (ms(), ms(), vec((any::<u32>(), ms()), 0..4))
        .prop_map(|(wait, run, waiting)| Prospects { more: Prospect { wait, run }, waiting })
}

fn user_share() -> impl Strategy<Value = UserShare> {
    let counts = || (any::<u32>(), any::<u32>(), any::<u32>());
    (user(), any::<u32>(), any::<u32>(), span_ms(), span_ms(), span_ms(), counts()).prop_map(
        |(user, weight, requests, consumed, deserved, useful, (completed, killed, late))| UserShare {
            user,
            share: Share { weight, requests, consumed, deserved, completed, useful, killed, late },
        },
    )
}

pub(in super::super) fn from_server() -> impl Strategy<Value = FromServer> {
    let standing = select(vec![
        Standing::Waiting,
        Standing::Running,
        Standing::Completed,
        Standing::Failed,
        Standing::Cancelled,
    ]);
    let said = prop_oneof![
        (attempt(), standing, vec(any::<u8>(), 0..20)).prop_map(|(id, standing, output)| Said::Stands {
            id,
            standing,
            output
        }),
        (any::<u32>(), reason()).prop_map(|(number, why)| Said::NotTaken { number, why }),
        Just(Said::AllCancelled),
        prospects().prop_map(Said::Expected),
        Just(Said::Shared),
    ];
    (said, option::of(user_share())).prop_map(|(said, share)| FromServer { said, share })
}

pub(in super::super) fn shares() -> impl Strategy<Value = Shares> {
    (vec(user_share(), 0..4), 0..=*bounds::PROCS.end(), moment()).prop_map(|(users, cores, at)| Shares {
        users,
        cores,
        at,
    })
}

pub(in super::super) fn offers_query() -> impl Strategy<Value = OffersQuery> {
    (word(), bounds::OFFERS, key()).prop_map(|(service, most, exploration)| OffersQuery {
        service,
        most,
        exploration,
    })
}
