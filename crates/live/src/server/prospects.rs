//! What the instances of a multi-job may expect here.

use pliant_control::access::Caller;
use pliant_control::multi_job::Prospects;
use pliant_control::server::{Instance, Refused, Server};
use tonic::Status;

use super::service::{Service, stopping};
use crate::services::Refusal;
use crate::wire::{Declined, ProspectsQuery, Submitted};

impl Service {
    /// What instances like this one may expect, or why they are not run.
    pub(super) async fn prospects_of(
        &self,
        caller: &Caller,
        query: ProspectsQuery,
    ) -> Result<Result<Prospects, Declined>, Status> {
        let ProspectsQuery { service, arguments, without, elsewhere } = query;
        let learned = self.shop.learned(&service, &self.mailbox).await;
        let what = Submitted::Service { name: service.clone(), arguments };
        let prepared = match self.shop.prepare(&what, &caller.user, learned) {
            Ok(made) => made.prepared,
            Err(refusal) => return Ok(Err(declined(&refusal))),
        };
        let work = prepared.work.narrowest().unwrap_or(prepared.work);
        let instance = Instance { service, scale: prepared.scale, work, spare: self.shop.spare, elsewhere };
        let user = caller.user.clone();
        self.look().await;
        let question = move |server: &mut Server, now| server.prospects(now, &user, &instance, &without);
        let answer = self.mailbox.glance(question).await.map_err(|_| stopping())?;
        Ok(answer.map_err(|refused| Declined::from(&refused)))
    }
}

fn declined(refusal: &Refusal) -> Declined {
    Declined::from(&Refused::Other(refusal.cause().because(refusal.to_string())))
}
