//! Finds servers for an exploration, and explains why there are none.

use std::collections::BTreeSet;

use pliant_control::agent::ExplorationServer;
use pliant_control::names::{Key, Name};
use pliant_control::optional::explore::{Event, ServerOffer};
use pliant_control::server_info::OfferedWork;
use pliant_policy::optional::draw_servers;
use pliant_wire::{Federation, ServerStatus, bounds};
use tokio::time::Instant;

use super::ExplorationExecutor;
use crate::{Client, ClientError, WorkError};

/// How many other services an error lists.
const SERVICES_NAMED: usize = 12;

/// The servers that were found.
pub(in super::super) struct Found {
    pub(in super::super) offers: Result<Vec<ExplorationServer>, ClientError>,
    /// All servers, if none lists the service.
    pub(in super::super) federation: Option<Result<Federation, ClientError>>,
}

impl Client {
    /// At most `most` servers that offer the service, or run scripts, for explorations. Services for some users only are not listed: if none
    /// is, these are servers with cores for explorations other than those that are `barred`.
    pub(in super::super) async fn find_servers(
        &self,
        offered: OfferedWork,
        most: u32,
        exploration: Key,
        barred: &BTreeSet<Name>,
    ) -> Found {
        let is_service = matches!(offered, OfferedWork::Service(_));
        let mut offers = self.offers(offered, most, exploration).await;
        let mut federation = None;
        if let Ok(offers) = &mut offers
            && offers.is_empty()
        {
            let servers = self.servers().await;
            if let Ok(federation) = &servers
                && is_service
            {
                *offers = may_offer(federation, most, exploration, barred);
            }
            federation = Some(servers);
        }
        Found { offers, federation }
    }
}

impl ExplorationExecutor {
    pub(super) fn discover(&mut self, most: u32) {
        let (client, exploration, offered) =
            (self.client.clone(), self.header.exploration, self.header.executable.offered());
        let most = most.clamp(1, *bounds::OFFERS.end());
        let barred = self.barred.keys().cloned().collect();
        self.poll.ask(async move { client.find_servers(offered, most, exploration, &barred).await });
    }

    /// Takes in which servers were found.
    pub(super) fn found(&mut self, Found { offers, federation }: Found) -> Result<Event, WorkError> {
        let is_leaving = self.machine.needs_no_servers();
        let offers = match offers {
            Ok(offers) => offers,
            // The connections to its servers are given up after the timeout.
            Err(error) if error.may_pass() && is_leaving => {
                self.poll.soon_again();
                Vec::new()
            }
            Err(error) if error.may_pass() && self.may_still_be_found() => {
                self.warn(error.to_string());
                Vec::new()
            }
            Err(error) => return Err(error.into()),
        };
        let are_barred = offers.iter().all(|offer| self.barred.contains_key(&offer.server));
        let has_refusals = are_barred && !self.barred.is_empty() && self.calls.servers() == 0;
        if !is_leaving
            && are_barred
            && self.calls.open() == 0
            && (!offers.is_empty() || self.found_by.is_some() || has_refusals)
        {
            self.is_refused_everywhere = !offers.is_empty() || has_refusals;
            match federation {
                Some(federation) => self.explain_missing(federation)?,
                None if self.is_refused_everywhere => return Err(self.refused_everywhere(&offers).into()),
                // The agent could not be asked.
                None => {}
            }
        }
        if !are_barred {
            self.found_by = None;
        }
        self.calls.know(&offers);
        let usable = offers.into_iter().filter(|offer| !self.barred.contains_key(&offer.server));
        let offer = |ExplorationServer { server, cores, per_core, .. }| {
            // Without it the window of the plan holds.
            let per_core = (per_core > 0).then_some(per_core);
            ServerOffer { server, cores, per_core }
        };
        Ok(Event::Found(usable.map(offer).collect()))
    }

    /// Servers that were found once are waited for without a limit.
    fn may_still_be_found(&self) -> bool {
        self.found_by.is_none_or(|until| Instant::now() < until)
    }

    /// All servers that the agent knows refuse the exploration for good: nothing would ever run.
    fn refused_everywhere(&self, offers: &[ExplorationServer]) -> ClientError {
        let wanted = match self.header.executable.offered() {
            OfferedWork::Service(name) => format!("service `{name}`"),
            OfferedWork::Scripts => "scripts".to_owned(),
        };
        let line = |offer: &ExplorationServer| {
            let why = self.barred.get(&offer.server).map_or("", String::as_str);
            format!("\n  {}: {why}", offer.server)
        };
        let servers: String = offers.iter().map(line).collect();
        ClientError::usage(format!("no server takes explorations of {wanted} from you{servers}"))
    }

    /// No server offers the service, and none has since this client began: an error at once if servers offer other services,
    /// after the timeout otherwise.
    fn explain_missing(&mut self, federation: Result<Federation, ClientError>) -> Result<(), WorkError> {
        let infos = match federation {
            Ok(federation) => federation.servers.into_iter().filter(|server| server.attached),
            Err(error) if error.may_pass() && self.may_still_be_found() => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let offered = self.header.executable.offered();
        let (mut others, mut servers, mut without_cores) = (BTreeSet::new(), 0, 0);
        for server in infos {
            servers += 1;
            without_cores += usize::from(server.info.offers(&offered));
            if server.info.optional_cores > 0 {
                others.extend(server.info.services.into_iter().map(|(name, _)| name));
            }
        }
        let (offers, wanted) = match &offered {
            OfferedWork::Service(name) => ("offers", format!("`{name}`")),
            OfferedWork::Scripts => ("runs", "scripts".to_owned()),
        };
        if without_cores > 0 {
            let what = format!("no server that {offers} {wanted} has cores for explorations");
            let hint = "its operator gives it some with `[optional]` in the server's file (docs/reference/files/server.md)";
            return Err(ClientError::usage(what).with_hint(hint).into());
        }
        if servers > 0 {
            let mut names: Vec<&str> = others.iter().map(String::as_str).take(SERVICES_NAMED).collect();
            if names.len() < others.len() {
                names.push("...");
            }
            let what = format!("no server {offers} {wanted} for explorations");
            let hint = match names.is_empty() {
                true => "none offers anything for them: `[optional]` in a server's file gives them cores"
                    .to_owned(),
                false => format!("they offer {}", names.join(", ")),
            };
            return Err(ClientError::usage(what).with_hint(hint).into());
        }
        if !self.may_still_be_found() {
            let what = format!("no server was up within {} s", self.timeout.as_secs_f64());
            return Err(ClientError::unavailable(what).into());
        }
        self.warn("no server is up yet".to_owned());
        Ok(())
    }
}

/// The servers that may offer a service which none lists.
fn may_offer(
    federation: &Federation,
    most: u32,
    exploration: Key,
    barred: &BTreeSet<Name>,
) -> Vec<ExplorationServer> {
    let with_cores = |status: &&ServerStatus| {
        status.attached && status.info.optional_cores > 0 && !barred.contains(&status.info.name)
    };
    let servers =
        federation.servers.iter().filter(with_cores).map(|status| ExplorationServer::from(&status.info));
    draw_servers(servers.collect(), most as usize, &exploration.to_string(), |offer| offer.server.as_str())
}
