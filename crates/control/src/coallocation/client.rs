//! One launch, from the question to its end: the user's side.
//!
//! The agent is told what to launch until it answers; a key that it knows already is the same launch. Then it is asked how
//! that stands until nothing of it is left. Whoever wants to cancel is sure only when the agent knows the launch: a
//! cancellation of what is still on its way would be followed by the launch.

use pliant_model::{Span, Time};

use super::{LaunchRecord, LaunchState};

/// The longest pause between two tries.
const LONGEST_PAUSE: Span = Span(8);

/// What is told to a client.
#[derive(Clone, PartialEq, Debug)]
pub enum LaunchUpdate {
    /// It is to begin.
    Begin,
    /// The agent says how the launch stands.
    Launch(Box<LaunchRecord>),
    /// It is not accepted, and why.
    Refused(String),
    /// The agent does not know it.
    NoSuchLaunch,
    /// The agent could not be reached, or has not answered.
    Silent(String),
    /// The user wants it to end.
    Cancel,
    /// Time has passed.
    Due,
}

/// What a client is to do.
#[derive(Clone, PartialEq, Debug)]
pub enum ClientAction {
    /// Tell the agent what to launch.
    Launch,
    /// Ask how it stands.
    Look,
    /// Have it ended.
    Cancel,
    /// Say [`LaunchUpdate::Due`] then.
    WakeAt(Time),
    /// Nothing more.
    Done(Box<Outcome>),
}

/// What a client knows at the end.
#[derive(Clone, PartialEq, Debug)]
pub enum Outcome {
    /// The launch is over, as that says.
    Over(LaunchRecord),
    /// It was not accepted, and why.
    Refused(String),
    /// It may have been accepted; the same key tells later.
    Unknown(String),
}

/// A launch as its user follows it.
pub struct Client {
    /// When it is given up to tell the agent.
    until: Time,
    pause: Span,
    /// The agent knows it.
    accepted: bool,
    /// The user wants it to end.
    cancels: bool,
    over: bool,
}

impl Client {
    /// A launch that is given up if the agent has not answered by `until`.
    pub fn new(until: Time) -> Client {
        Client { until, pause: Span(1), accepted: false, cancels: false, over: false }
    }

    /// Takes in what is told and appends what is to be done.
    pub fn on(&mut self, now: Time, told: LaunchUpdate, wants: &mut Vec<ClientAction>) {
        if self.over {
            return;
        }
        match told {
            LaunchUpdate::Begin | LaunchUpdate::Due => wants.push(self.next()),
            LaunchUpdate::Cancel => self.cancels = true,
            LaunchUpdate::Launch(record) if record.state == LaunchState::Over => {
                self.done(Outcome::Over(*record), wants);
            }
            LaunchUpdate::Launch(record) => {
                if !self.accepted {
                    (self.accepted, self.pause) = (true, Span(1));
                }
                // Once its end is decided there is nothing to cancel.
                self.cancels &= record.end.is_none();
                self.wait(now, wants);
            }
            LaunchUpdate::Refused(why) => self.done(Outcome::Refused(why), wants),
            LaunchUpdate::NoSuchLaunch => {
                self.done(Outcome::Unknown("the agent does not know it".to_owned()), wants)
            }
            LaunchUpdate::Silent(why) if !self.accepted && self.until <= now => {
                self.done(Outcome::Unknown(why), wants);
            }
            LaunchUpdate::Silent(_) => self.wait(now, wants),
        }
    }

    fn next(&self) -> ClientAction {
        match (self.accepted, self.cancels) {
            (false, _) => ClientAction::Launch,
            (true, true) => ClientAction::Cancel,
            (true, false) => ClientAction::Look,
        }
    }

    fn wait(&mut self, now: Time, wants: &mut Vec<ClientAction>) {
        wants.push(ClientAction::WakeAt(now + self.pause));
        self.pause = Span((self.pause.0 * 2).min(LONGEST_PAUSE.0));
    }

    fn done(&mut self, outcome: Outcome, wants: &mut Vec<ClientAction>) {
        self.over = true;
        wants.push(ClientAction::Done(Box::new(outcome)));
    }
}

#[cfg(test)]
mod tests {
    use super::super::{End, LaunchId};
    use super::*;
    use crate::names::Key;

    fn record(state: LaunchState, end: Option<End>) -> LaunchUpdate {
        LaunchUpdate::Launch(Box::new(LaunchRecord {
            id: LaunchId { agent: "agent".parse().unwrap(), key: Key([1; 16]) },
            owner: "alice".parse().unwrap(),
            name: "row".to_owned(),
            submitted: Time(0),
            state,
            end,
            tasks: Vec::new(),
            unacknowledged: Vec::new(),
        }))
    }

    fn tell(client: &mut Client, now: i64, told: LaunchUpdate) -> Vec<ClientAction> {
        let mut wants = Vec::new();
        client.on(Time(now), told, &mut wants);
        wants
    }

    #[test]
    fn a_launch_is_told_until_the_agent_knows_it_and_followed_until_it_is_over() {
        let mut client = Client::new(Time(60));
        let silent = || LaunchUpdate::Silent("no answer".to_owned());
        assert_eq!(tell(&mut client, 0, LaunchUpdate::Begin), [ClientAction::Launch]);
        assert_eq!(tell(&mut client, 0, silent()), [ClientAction::WakeAt(Time(1))]);
        assert_eq!(tell(&mut client, 1, LaunchUpdate::Due), [ClientAction::Launch]);
        tell(&mut client, 1, record(LaunchState::Mapping, None));
        assert_eq!(tell(&mut client, 2, LaunchUpdate::Due), [ClientAction::Look]);
        // Once it is known there is no limit.
        assert!(matches!(tell(&mut client, 500, silent())[..], [ClientAction::WakeAt(_)]));
        let LaunchUpdate::Launch(over) = record(LaunchState::Over, Some(End::Completed)) else {
            unreachable!()
        };
        let done = tell(&mut client, 501, LaunchUpdate::Launch(over.clone()));
        assert_eq!(done, [ClientAction::Done(Box::new(Outcome::Over(*over)))]);
        assert_eq!(tell(&mut client, 502, LaunchUpdate::Due), []);
    }

    #[test]
    fn what_is_not_known_to_be_accepted_is_not_cancelled_but_launched_first() {
        let mut client = Client::new(Time(60));
        tell(&mut client, 0, LaunchUpdate::Begin);
        assert_eq!(tell(&mut client, 0, LaunchUpdate::Cancel), []);
        assert_eq!(tell(&mut client, 1, LaunchUpdate::Due), [ClientAction::Launch]);
        tell(&mut client, 1, record(LaunchState::Reserving, None));
        assert_eq!(tell(&mut client, 2, LaunchUpdate::Due), [ClientAction::Cancel]);
        tell(&mut client, 2, record(LaunchState::Ending, Some(End::Cancelled)));
        assert_eq!(tell(&mut client, 3, LaunchUpdate::Due), [ClientAction::Look], "it ends already");
    }

    #[test]
    fn what_no_agent_answers_in_time_is_unknown_and_a_refusal_is_the_end() {
        let mut client = Client::new(Time(60));
        tell(&mut client, 0, LaunchUpdate::Begin);
        let told = tell(&mut client, 60, LaunchUpdate::Silent("no route".to_owned()));
        assert_eq!(told, [ClientAction::Done(Box::new(Outcome::Unknown("no route".to_owned())))]);
        let mut client = Client::new(Time(60));
        let told = tell(&mut client, 1, LaunchUpdate::Refused("no tasks".to_owned()));
        assert_eq!(told, [ClientAction::Done(Box::new(Outcome::Refused("no tasks".to_owned())))]);
    }
}
