//! What is decided about a launch, and who has to hear of it.

use pliant_model::Time;

use super::launch::{Launch, Stage};
use super::{Command, Coordinator, SURVEY, SubjobState};
use crate::coallocation::End;
use crate::names::Key;

impl Coordinator {
    /// Time has passed for a launch.
    pub(super) fn go_on(&mut self, now: Time, key: &Key, commands: &mut Vec<Command>) {
        let Some(launch) = self.launches.get_mut(key).filter(|launch| launch.over.is_none()) else { return };
        let mut surveys = Vec::new();
        for (number, group) in launch.groups.iter_mut().enumerate() {
            match &mut group.stage {
                Stage::Mapping { until, .. } if *until <= now => {
                    group.stage = Stage::GivenUp("no server has said what machines it has".to_owned());
                }
                Stage::Mapping { again, .. } if *again <= now => {
                    *again = now + SURVEY.1;
                    surveys.push(number as u32);
                }
                _ => {}
            }
        }
        for group in surveys {
            self.survey(key, group, commands);
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

    /// Decides what can be decided by how everything stands. Whoever has to hear of it is called when that is due, which is
    /// at once.
    pub(super) fn settle(&mut self, now: Time, key: &Key, commands: &mut Vec<Command>) {
        let id = self.id(key);
        let Some(launch) = self.launches.get_mut(key).filter(|launch| launch.over.is_none()) else { return };
        for group in 0..launch.groups.len() {
            launch.decide_group(now, group);
        }
        if let Some(end) = launch.ends() {
            launch.finish(now, end);
        }
        let is_left = |stage: &Stage| matches!(stage, Stage::Mapping { .. } | Stage::Reserving { .. });
        if launch.end.is_some() {
            for group in launch.groups.iter_mut().filter(|group| is_left(&group.stage)) {
                group.stage = Stage::GivenUp("the launch has ended".to_owned());
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
    /// All subjobs of a group are held: it runs. One is not and never will be, or it is too late: none does.
    fn decide_group(&mut self, now: Time, group: usize) {
        let Stage::Reserving { until } = self.groups[group].stage else { return };
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
        let stage = match (lost, missing) {
            (Some(why), _) => Stage::GivenUp(why),
            (None, None) => {
                self.groups[group].decided = Some(now);
                Stage::Decided
            }
            (None, Some(server)) if until <= now => {
                let timeout = self.timeout.0;
                Stage::GivenUp(format!("the subjob at {server} was not held within a timeout of {timeout} s"))
            }
            (None, Some(_)) => return,
        };
        self.groups[group].stage = stage;
        for subjob in self.subjobs.iter_mut().filter(|subjob| subjob.is_of(group)) {
            subjob.call_at(now);
        }
    }

    /// How the launch ends, if that follows from how its subjobs stand.
    fn ends(&self) -> Option<End> {
        if let Stage::GivenUp(why) = &self.groups[0].stage {
            let why = why.clone();
            return Some(if self.subjobs.is_empty() { End::NotMapped(why) } else { End::NotReserved(why) });
        }
        let runs = || self.subjobs.iter().filter(|subjob| self.groups[subjob.group].stage == Stage::Decided);
        if let Some(what) = runs().find_map(|subjob| subjob.failure()) {
            return Some(End::Failed(what));
        }
        let all_over = self.groups[0].stage == Stage::Decided && runs().all(|subjob| subjob.state.is_over());
        all_over.then_some(End::Completed)
    }
}
