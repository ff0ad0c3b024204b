//! What the instances of a multi-job may expect here.

use std::collections::BTreeMap;

use pliant_control::access::Caller;
use pliant_control::multi_job::InstanceProspects;
use pliant_control::runtime_sample::script_category;
use pliant_control::server::{AdmissionRefusal, Instance, Server};
use pliant_model::Span;
use pliant_site::services::Refusal;
use pliant_wire::{Executable, ProspectsQuery, SubmissionRefusal};
use tonic::Status;

use super::service::{Service, stopping};

impl Service {
    /// What instances like this one may expect, or why they are not run.
    pub(super) async fn prospects_of(
        &self,
        caller: &Caller,
        query: ProspectsQuery,
    ) -> Result<Result<InstanceProspects, SubmissionRefusal>, Status> {
        let learned = match &query.executable {
            Executable::Service(name) => self.offer.learned(name, &caller.user, &self.mailbox).await,
            Executable::Script(_) => None,
        };
        let place = match self.offer.instance_folder(&query.executable) {
            Ok((place, _)) => place,
            Err(refusal) => return Ok(Err(declined(&refusal))),
        };
        let whose = (place, &caller.user);
        let one = |arguments: &BTreeMap<String, String>| {
            let prepared = self.offer.prepare_run(&query.executable, arguments, whose, learned)?.prepared;
            let work = prepared.work.narrowest().unwrap_or(prepared.work);
            Ok((prepared.scale, work))
        };
        let (first, mut work) = match one(&query.arguments) {
            Ok(first) => first,
            Err(refusal) => return Ok(Err(declined(&refusal))),
        };
        let (mut others, mut refused) = (Vec::new(), Vec::new());
        for (number, arguments) in query.samples() {
            match one(&arguments) {
                Ok((scale, work)) => others.push((scale, work.walltime)),
                // Those go elsewhere.
                Err(refusal) => refused.push((number, refusal.to_string())),
            }
        }
        let scale = mean(others.iter().map(|(scale, _)| *scale)).unwrap_or(first);
        if let Some(walltime) = mean(others.iter().map(|(_, walltime)| walltime.0 as f64)) {
            work.walltime = Span(walltime.ceil() as i64);
        }
        let ProspectsQuery { executable, without, elsewhere, .. } = query;
        let spare = self.offer.margin(&work);
        let service = match executable {
            Executable::Service(name) => name,
            Executable::Script(script) => script_category(&caller.user, &script.name),
        };
        let instance = Instance { service, scale, work, spare, elsewhere };
        let user = caller.user.clone();
        self.refresh_listing().await;
        // The more jobs of the user wait here, the longer this takes.
        let question = move |server: &mut Server, now| server.prospects(now, &user, &instance, &without);
        let answer = self.mailbox.ask_alone(&caller.user, question).await.map_err(|_| stopping())?;
        let answer = answer.map(|prospects| InstanceProspects { refused, ..prospects });
        Ok(answer.map_err(|refused| SubmissionRefusal::from(&refused)))
    }
}

/// None of nothing.
fn mean(of: impl ExactSizeIterator<Item = f64>) -> Option<f64> {
    let count = of.len();
    (count > 0).then(|| of.sum::<f64>() / count as f64)
}

fn declined(refusal: &Refusal) -> SubmissionRefusal {
    SubmissionRefusal::from(&AdmissionRefusal::Other(refusal.cause().because(refusal.to_string())))
}
