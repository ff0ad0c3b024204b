//! The services of a server, as clients show them.

use super::field::*;
use super::table::message;
use super::{bounds, proto};

message! {
    /// The services of a server.
    #[derive(Clone, Default, PartialEq, Eq, Debug)]
    proto::ServicesReply <=> pub struct Offer {
        /// Its services.
        services: Vec<OfferedService> = list(nested(), bounds::SERVICES_MAX),
        /// Whether it runs users' own scripts.
        scripts: bool,
        /// The number of its services for other users only.
        hidden: u32,
    }

    /// A service, described for people.
    #[derive(Clone, Default, PartialEq, Eq, Debug)]
    proto::ServiceDescription <=> pub struct OfferedService {
        /// Its name.
        name: String = word("the name of a service", bounds::NAME_BYTES_MAX),
        /// What it does.
        summary: String = TEXT,
        /// Its speedup model.
        speedup: String = TEXT,
        /// What it takes.
        arguments: Vec<OfferedArgument> = list(nested(), bounds::ARGUMENTS_MAX),
        /// It is for other users than the caller; only operators see it.
        for_others: bool,
        /// What its jobs need besides processors; empty if nothing.
        resources: String = TEXT,
        /// Its signature; empty if it is not a typed service.
        signature: String = text(bounds::SIGNATURE_TEXT_BYTES_MAX),
        /// Calls are carried out by a process that is there already.
        resident: bool,
    }

    /// An argument of a service, described for people.
    #[derive(Clone, Default, PartialEq, Eq, Debug)]
    proto::service_description::Argument <=> pub struct OfferedArgument {
        /// Its name.
        name: String = word("the name of an argument", bounds::NAME_BYTES_MAX),
        /// What it takes.
        takes: String = TEXT,
        /// True if it must be given.
        required: bool,
        /// What it is if it is not given; empty if it is then left out.
        default: String = text(bounds::ARGUMENT_BYTES_MAX),
    }
}
