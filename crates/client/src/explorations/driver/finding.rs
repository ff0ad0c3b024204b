//! Which servers there are for an exploration, and what is said of it where there are none.

use std::collections::BTreeSet;

use pliant_control::agent::Offering;
use pliant_control::optional::explore::{Event, Offer};
use tokio::time::Instant;

use super::super::wanted::ExploreError;
use super::{Explorer, LOOK, LOOK_SOON};
use crate::ClientError;

/// Services that are named where one is not known.
const SERVICES_NAMED: usize = 12;

impl Explorer {
    pub(super) fn discover(&mut self, most: u32) {
        self.look = Instant::now() + LOOK;
        if std::mem::replace(&mut self.looking, true) {
            return;
        }
        let (client, found) = (self.client.clone(), self.found.clone());
        let (service, exploration) = (self.service.clone(), self.exploration);
        let most = most.clamp(1, *pliant_wire::bounds::OFFERS.end());
        tokio::spawn(async move {
            let offers = client.offers(&service, most, exploration).await;
            // Whoever asked may have ended.
            let _ = found.send(offers);
        });
    }

    /// Servers were found, or not.
    pub(super) async fn offered(
        &mut self,
        found: Result<Vec<Offering>, ClientError>,
    ) -> Result<Event, ExploreError> {
        self.looking = false;
        let is_leaving = self.machine.wants_no_servers();
        let offers = match found {
            Ok(offers) => offers,
            // The lines to its servers are given up when the patience is at its end.
            Err(error) if error.may_pass() && is_leaving => {
                self.look = Instant::now() + LOOK_SOON;
                Vec::new()
            }
            Err(error) if error.may_pass() && self.may_still_be_found() => {
                self.trouble(error.to_string());
                Vec::new()
            }
            Err(error) => return Err(error.into()),
        };
        if !offers.is_empty() {
            self.found_by = None;
        } else if self.found_by.is_some() && !is_leaving {
            self.nobody().await?;
        }
        self.calls.know(&offers);
        let usable = offers.into_iter().filter(|offer| !self.barred.contains(&offer.server));
        let offer = |Offering { server, cores, per_core, .. }| {
            // Of a server that does not say it, the window of the plan is right.
            let per_core = (per_core > 0).then_some(per_core);
            Offer { server, cores, per_core }
        };
        Ok(Event::Found(usable.map(offer).collect()))
    }

    /// Whoever has found servers waits for them for as long as it takes, others for as long as they have patience.
    fn may_still_be_found(&self) -> bool {
        self.found_by.is_none_or(|until| Instant::now() < until)
    }

    /// No server offers the service, and none has since this client began: that is an error if they are there and offer
    /// others, and otherwise when the patience is at its end.
    async fn nobody(&mut self) -> Result<(), ExploreError> {
        let infos = match self.client.servers().await {
            Ok(federation) => federation.servers.into_iter().filter(|server| server.attached),
            Err(error) if error.may_pass() && self.may_still_be_found() => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let (mut others, mut servers, mut without_cores) = (BTreeSet::new(), 0, 0);
        for server in infos {
            servers += 1;
            let offers = server.info.services.iter().any(|(name, _)| *name == self.service);
            without_cores += usize::from(offers);
            if server.info.optional_cores > 0 {
                others.extend(server.info.services.into_iter().map(|(name, _)| name));
            }
        }
        let service = &self.service;
        if without_cores > 0 {
            let what = format!("no server that offers `{service}` has cores for explorations");
            let hint = "its operator gives it some with `[optional]` in the server's file (docs/live.md)";
            return Err(ClientError::usage(what).with_hint(hint).into());
        }
        if servers > 0 {
            let mut names: Vec<&str> = others.iter().map(String::as_str).take(SERVICES_NAMED).collect();
            if names.len() < others.len() {
                names.push("...");
            }
            let what = format!("no server offers `{service}` for explorations");
            let hint = match names.is_empty() {
                true => "none offers anything for them: `[optional]` in a server's file gives them cores"
                    .to_owned(),
                false => format!("they offer {}", names.join(", ")),
            };
            return Err(ClientError::usage(what).with_hint(hint).into());
        }
        if !self.may_still_be_found() {
            let what = format!("no server was there within {} s", self.patience.as_secs_f64());
            return Err(ClientError::absent(what).into());
        }
        self.trouble("no server is there yet".to_owned());
        Ok(())
    }
}
