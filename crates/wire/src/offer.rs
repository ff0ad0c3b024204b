//! What a server offers, as clients show it.

use super::field::*;
use super::table::message;
use super::{bounds, proto};

/// What a server offers.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Offer {
    /// Its services.
    pub services: Vec<OfferedService>,
    /// Whether it runs users' own scripts.
    pub scripts: bool,
    /// How many services it has beside these, for other users.
    pub hidden: u32,
}

/// A service, described for people.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct OfferedService {
    /// Its name.
    pub name: String,
    /// What it does.
    pub summary: String,
    /// How its time changes with the number of processors.
    pub speedup: String,
    /// What it takes.
    pub arguments: Vec<OfferedArgument>,
    /// It is for other users than the one who asks; only operators are told of such.
    pub for_others: bool,
}

/// An argument of a service, described for people.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct OfferedArgument {
    /// Its name.
    pub name: String,
    /// What it takes.
    pub takes: String,
    /// True if it must be given.
    pub required: bool,
    /// What it is if it is not given; empty if it is then left out.
    pub default: String,
}

message! {
    proto::ServicesReply <=> Offer {
        services: list(nested(), bounds::SERVICES_MAX),
        scripts,
        hidden,
    }

    proto::ServiceDescription <=> OfferedService {
        name: word("the name of a service", bounds::NAME_BYTES_MAX),
        summary: TEXT,
        speedup: TEXT,
        arguments: list(nested(), bounds::ARGUMENTS_MAX),
        for_others,
    }

    proto::service_description::Argument <=> OfferedArgument {
        name: word("the name of an argument", bounds::NAME_BYTES_MAX),
        takes: TEXT,
        required,
        default: text(bounds::ARGUMENT_BYTES_MAX),
    }
}
