//! What a server offers, as clients show it.

use super::proto;
use super::{Malformed, bounds, read, write};

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

impl From<&Offer> for proto::ServicesReply {
    fn from(offer: &Offer) -> proto::ServicesReply {
        proto::ServicesReply {
            services: write::list(&offer.services, bounds::SERVICES_MAX),
            scripts: offer.scripts,
            hidden: offer.hidden,
        }
    }
}

impl TryFrom<proto::ServicesReply> for Offer {
    type Error = Malformed;
    fn try_from(message: proto::ServicesReply) -> Result<Offer, Malformed> {
        let services =
            read::list("services", message.services, bounds::SERVICES_MAX, OfferedService::try_from)?;
        Ok(Offer { services, scripts: message.scripts, hidden: message.hidden })
    }
}

impl From<&OfferedService> for proto::ServiceDescription {
    fn from(service: &OfferedService) -> proto::ServiceDescription {
        proto::ServiceDescription {
            name: write::text(&service.name, bounds::NAME_BYTES_MAX),
            summary: write::text(&service.summary, bounds::TEXT_BYTES_MAX),
            speedup: write::text(&service.speedup, bounds::TEXT_BYTES_MAX),
            arguments: write::list(&service.arguments, bounds::ARGUMENTS_MAX),
            for_others: service.for_others,
        }
    }
}

impl TryFrom<proto::ServiceDescription> for OfferedService {
    type Error = Malformed;
    fn try_from(message: proto::ServiceDescription) -> Result<OfferedService, Malformed> {
        let arguments =
            read::list("arguments", message.arguments, bounds::ARGUMENTS_MAX, OfferedArgument::try_from)?;
        Ok(OfferedService {
            name: read::word("name", "the name of a service", message.name, bounds::NAME_BYTES_MAX)?,
            summary: read::text("summary", message.summary, bounds::TEXT_BYTES_MAX)?,
            speedup: read::text("speedup", message.speedup, bounds::TEXT_BYTES_MAX)?,
            arguments,
            for_others: message.for_others,
        })
    }
}

impl From<&OfferedArgument> for proto::service_description::Argument {
    fn from(argument: &OfferedArgument) -> proto::service_description::Argument {
        proto::service_description::Argument {
            name: write::text(&argument.name, bounds::NAME_BYTES_MAX),
            takes: write::text(&argument.takes, bounds::TEXT_BYTES_MAX),
            required: argument.required,
            default: write::text(&argument.default, bounds::ARGUMENT_BYTES_MAX),
        }
    }
}

impl TryFrom<proto::service_description::Argument> for OfferedArgument {
    type Error = Malformed;
    fn try_from(message: proto::service_description::Argument) -> Result<OfferedArgument, Malformed> {
        Ok(OfferedArgument {
            name: read::word("name", "the name of an argument", message.name, bounds::NAME_BYTES_MAX)?,
            takes: read::text("takes", message.takes, bounds::TEXT_BYTES_MAX)?,
            required: message.required,
            default: read::text("default", message.default, bounds::ARGUMENT_BYTES_MAX)?,
        })
    }
}
