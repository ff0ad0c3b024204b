//! What a server says that it offers.

use pliant_control::access::Caller;
use pliant_site::services::ServiceDescription;
use pliant_wire::{Offer, OfferedArgument, OfferedService};

use super::offer::ServiceOffer;

impl ServiceOffer {
    /// The services that a caller may use, and how many there are for others.
    pub(super) fn offered(&self, caller: &Caller) -> Offer {
        let service = |(service, usable): (ServiceDescription, bool)| OfferedService {
            name: service.name,
            for_others: !usable,
            summary: service.summary,
            speedup: service.speedup,
            resources: service.resources.unwrap_or_default(),
            signature: service.signature.unwrap_or_default(),
            resident: service.resident,
            arguments: service
                .arguments
                .into_iter()
                .map(|argument| OfferedArgument {
                    name: argument.name,
                    takes: argument.expected,
                    required: argument.required,
                    default: argument.default.unwrap_or_default(),
                })
                .collect(),
        };
        // What a user may not use is counted; who runs the federation sees it.
        let all = self.catalogue.describe_all(&caller.user).into_iter();
        let (visible, hidden): (Vec<_>, Vec<_>) = all.partition(|(_, usable)| *usable || caller.operator);
        let services = visible.into_iter().map(service).collect();
        Offer { services, scripts: self.catalogue.takes_scripts(), hidden: hidden.len() as u32 }
    }
}
