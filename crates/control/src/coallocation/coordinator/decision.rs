//! The decisions about a launch, and the calls that deliver them.

use pliant_model::Time;

use super::launch::{GroupState, Launch};
use super::{Command, Coordinator, LIST_MACHINES, SubjobState};
use crate::coallocation::LaunchEnd;
use crate::names::Key;

impl Coordinator {
    /// Handles the passing of time for a launch.
    pub(super) fn handle_due(&mut self, now: Time, key: &Key, commands: &mut Vec<Command>) {
        let Some(launch) = self.launches.get_mut(key).filter(|launch| launch.over.is_none()) else { return };
        let mut listings = Vec::new();
        for (number, group) in launch.groups.iter_mut().enumerate() {
            match &mut group.state {
                GroupState::Mapping { until, .. } if *until <= now => {
                    group.state = GroupState::GivenUp("no server has reported its machines".to_owned());
                }
                GroupState::Mapping { again, .. } if *again <= now => {
                    *again = now + LIST_MACHINES.1;
                    listings.push(number as u32);
                }
                _ => {}
            }
        }
        for group in listings {
            self.list_machines(key, group, commands);
        }
        self.settle(now, key, commands);
        let Some(launch) = self.launches.get_mut(key) else { return };
        let due: Vec<usize> =
            (0..launch.subjobs.len()).filter(|number| launch.subjobs[*number].is_due(now)).collect();
        for number in due {
            let subjob = &launch.subjobs[number];
            if let Some(call) = launch.call(subjob) {
                let (to, id) = (subjob.server.clone(), subjob.subjob.id.clone());
                commands.push(Command::Call { to, id, call });
            }
        }
    }

    /// Decides what follows from the states of groups and subjobs. Servers that have to be notified are called when that is
    /// due, which is at once.
    pub(super) fn settle(&mut self, now: Time, key: &Key, commands: &mut Vec<Command>) {
        let id = self.id(key);
        let Some(launch) = self.launches.get_mut(key).filter(|launch| launch.over.is_none()) else { return };
        for group in 0..launch.groups.len() {
            launch.decide_group(now, group);
        }
        if let Some(end) = launch.ends() {
            launch.finish(now, end);
        }
        let is_left =
            |state: &GroupState| matches!(state, GroupState::Mapping { .. } | GroupState::Reserving { .. });
        if launch.end.is_some() {
            for group in launch.groups.iter_mut().filter(|group| is_left(&group.state)) {
                group.state = GroupState::GivenUp("the launch has ended".to_owned());
            }
            if launch.subjobs.iter().all(|subjob| subjob.state.is_over()) {
                launch.over = Some(now);
                commands.push(Command::Archive(Box::new(launch.record(id))));
                self.over.push_back((now, *key));
            }
        }
    }
}

impl Launch {
    /// Commits a group when all of its subjobs are prepared. Gives it up when one has ended, or at the deadline.
    fn decide_group(&mut self, now: Time, group: usize) {
        let GroupState::Reserving { until } = self.groups[group].state else { return };
        if self.end.is_some() {
            return;
        }
        let subjobs = || self.subjobs.iter().filter(|subjob| subjob.is_of(group));
        let lost = subjobs().find_map(|subjob| match &subjob.state {
            SubjobState::Over { exit, .. } => Some(format!("the subjob at {}: {exit}", subjob.server.name)),
            _ => None,
        });
        let is_held = |state: &SubjobState| matches!(state, SubjobState::Prepared { .. });
        let missing = subjobs().find(|subjob| !is_held(&subjob.state)).map(|subjob| &subjob.server.name);
        let state = match (lost, missing) {
            (Some(why), _) => GroupState::GivenUp(why),
            (None, None) => {
                self.groups[group].decided = Some(now);
                GroupState::Decided
            }
            (None, Some(server)) if until <= now => {
                let timeout = self.timeout.0;
                GroupState::GivenUp(format!(
                    "the subjob at {server} was not prepared within a timeout of {timeout} s"
                ))
            }
            (None, Some(_)) => return,
        };
        self.groups[group].state = state;
        for subjob in self.subjobs.iter_mut().filter(|subjob| subjob.is_of(group)) {
            subjob.call_at(now);
        }
    }

    /// The end of the launch, if it follows from the states of its subjobs.
    fn ends(&self) -> Option<LaunchEnd> {
        if let GroupState::GivenUp(why) = &self.groups[0].state {
            let why = why.clone();
            return Some(if self.subjobs.is_empty() {
                LaunchEnd::NotMapped(why)
            } else {
                LaunchEnd::NotReserved(why)
            });
        }
        let runs =
            || self.subjobs.iter().filter(|subjob| self.groups[subjob.group].state == GroupState::Decided);
        if let Some(what) = runs().find_map(|subjob| subjob.failure()) {
            return Some(LaunchEnd::Failed(what));
        }
        let all_over =
            self.groups[0].state == GroupState::Decided && runs().all(|subjob| subjob.state.is_over());
        all_over.then_some(LaunchEnd::Completed)
    }
}
