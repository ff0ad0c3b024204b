//! Any text in place of what OAR's commands print: it is read or refused, and nothing panics. Tests and the fuzzer share it.

use pliant_model::Time;

use super::jobs;
use super::requested;
use super::resources::Resources;
use super::settings::Settings;
use crate::batch_system::error::fit_to_show;
use crate::batch_system::submitter::{Submitter, Submitters};

/// What oarstat prints of all jobs; and what one of them asks for.
pub fn jobs(text: &str) {
    let who = Submitter {
        prefix: "pliant:rennes:".to_owned(),
        user: "pliant".to_owned(),
        accounts: Submitters::default(),
    };
    let resources = Resources::default();
    if let Err(unreadable) = jobs::read(text, &who, &resources) {
        fit_to_show(&unreadable);
    }
    let _ = requested::read(text, resources.size());
}

/// What oarnodes prints of all resources.
pub fn resources(text: &str) {
    match Resources::read(text, Time(1_700_000_000), &Settings::default()) {
        Ok(resources) => assert!(resources.nodes.iter().all(|node| node.cores > 0)),
        Err(unreadable) => fit_to_show(&unreadable),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::batch_system::damaged::damaged;

    const PRINTED: &[&str] =
        &[include_str!("tests/captured/oarnodes.json"), include_str!("tests/captured/oarstat.json")];

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        #[test]
        fn damaged_output_is_read_or_refused(text in damaged(PRINTED)) {
            super::jobs(&text);
            super::resources(&text);
        }
    }
}
