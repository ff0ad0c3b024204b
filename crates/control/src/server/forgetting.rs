//! Lost servers: an operator has declared that another server never comes back with its state. Handoffs to and from it would wait for
//! its answer for ever.

use pliant_model::Time;

use super::source::Phase;
use super::{Answer, Command, Server, audit};
use crate::audit::{Actor, AuditAct};
use crate::handoff::{HandoffId, StayReason};
use crate::names::{Name, User};

impl Server {
    /// Gives up all handoffs and siblings from and to a lost server. A job that was withdrawn here for that server is lost with it;
    /// other waiting jobs of this server stay in the queue, or are queued again once their batch system has withdrawn them.
    pub(super) fn forget_server(
        &mut self,
        now: Time,
        server: &Name,
        by: User,
        why: &str,
        commands: &mut Vec<Command>,
    ) -> Answer {
        if *server == self.config.name {
            return Answer::Unsuited(format!("this is the server {server}"));
        }
        let act = format!("{server}: {why}");
        audit(now, Actor::Operator(by.clone()), AuditAct::Forget, None, act, commands);
        let given_up = self.forget_prepared(now, server, commands)
            + self.forget_siblings(server, commands)
            + self.forget_outgoing(now, server, (&by, why), commands);
        Answer::Forgotten(given_up)
    }

    fn forget_prepared(&mut self, now: Time, server: &Name, commands: &mut Vec<Command>) -> u32 {
        let from_it = self.prepared.values().filter(|prepared| prepared.handoff.from.name == *server);
        let from_it: Vec<HandoffId> = from_it.map(|prepared| prepared.handoff.id.clone()).collect();
        for id in &from_it {
            self.drop_prepared(now, id, commands);
        }
        from_it.len() as u32
    }

    fn forget_siblings(&mut self, server: &Name, commands: &mut Vec<Command>) -> u32 {
        let mut given_up = 0;
        for number in self.siblings.keys().copied().collect::<Vec<_>>() {
            while let Some(sibling) = self.remove_sibling(number, |sibling| sibling.to.name == *server) {
                sibling.report_stay(StayReason::NoAnswer, commands);
                given_up += 1;
            }
        }
        given_up
    }

    fn forget_outgoing(
        &mut self,
        now: Time,
        server: &Name,
        (by, why): (&User, &str),
        commands: &mut Vec<Command>,
    ) -> u32 {
        let to_it = self.outgoing.iter().filter(|(_, outgoing)| outgoing.to.name == *server);
        let to_it: Vec<(u32, Phase)> = to_it.map(|(number, outgoing)| (*number, outgoing.phase)).collect();
        let mut given_up = 0;
        for (number, phase) in to_it {
            match phase {
                Phase::Committing(_) => {
                    let why = format!("{by} has declared that the server {server} is lost: {why}");
                    self.end_withdrawn(now, number, why, commands);
                }
                Phase::Preparing | Phase::Waiting(_) => {
                    if let Some(outgoing) = self.outgoing.remove(&number) {
                        outgoing.report_stay(StayReason::NoAnswer, commands);
                    }
                }
                Phase::Withdrawing(_) => {
                    let Some(outgoing) = self.outgoing.get_mut(&number).filter(|one| !one.is_target_lost)
                    else {
                        continue;
                    };
                    outgoing.is_target_lost = true;
                }
            }
            given_up += 1;
        }
        given_up
    }
}
