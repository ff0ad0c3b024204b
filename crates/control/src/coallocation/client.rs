//! The client of one launch, from its submission to its end.
//!
//! The client sends the launch to the agent until the agent answers; a known key is the same launch. Then it queries the
//! launch's state until the launch has ended. It cancelled only once the agent knows the launch: a cancellation that
//! overtakes the launch would have no effect.

use pliant_model::{Span, Time};

use super::{LaunchRecord, LaunchState};

/// The longest pause between two attempts.
const LONGEST_PAUSE: Span = Span(8);

/// An event of a launch client.
#[derive(Clone, PartialEq, Debug)]
pub enum LaunchUpdate {
    /// The driver starts the client.
    Begin,
    /// The agent reports the launch's state.
    Launch(Box<LaunchRecord>),
    /// The agent refuses the launch; the reason.
    Refused(String),
    /// The agent does not know the launch.
    NoSuchLaunch,
    /// The agent could not be reached or has not answered; the reason.
    Silent(String),
    /// The user cancelled the launch.
    Cancel,
    /// The time of [`ClientAction::WakeAt`] has come.
    Due,
}

/// An action for the driver of a launch client.
#[derive(Clone, PartialEq, Debug)]
pub enum ClientAction {
    /// Send the launch to the agent.
    Launch,
    /// Query the launch's state.
    Query,
    /// Cancel the launch.
    Cancel,
    /// Send [`LaunchUpdate::Due`] at that time.
    WakeAt(Time),
    /// The client has ended.
    Done(Box<LaunchOutcome>),
}

/// The outcome of a launch, as its client knows it.
#[derive(Clone, PartialEq, Debug)]
pub enum LaunchOutcome {
    /// The launch has ended; its record.
    Over(LaunchRecord),
    /// The agent refused it; the reason.
    Refused(String),
    /// The agent may have accepted it. A later launch with the same key finds out.
    Unknown(String),
}

/// The state machine of a launch's client.
pub struct LaunchClient {
    /// When it stops sending the launch to the agent.
    until: Time,
    pause: Span,
    /// The agent knows the launch.
    accepted: bool,
    /// The user has cancelled the launch.
    cancelled: bool,
    over: bool,
}

impl LaunchClient {
    /// Makes a client that gives up if the agent has not answered by `until`.
    pub fn new(until: Time) -> LaunchClient {
        LaunchClient { until, pause: Span(1), accepted: false, cancelled: false, over: false }
    }

    /// Handles an event and appends the actions that follow.
    pub fn on(&mut self, now: Time, update: LaunchUpdate, actions: &mut Vec<ClientAction>) {
        if self.over {
            return;
        }
        match update {
            LaunchUpdate::Begin | LaunchUpdate::Due => actions.push(self.next()),
            LaunchUpdate::Cancel => self.cancelled = true,
            LaunchUpdate::Launch(record) if record.state == LaunchState::Over => {
                self.done(LaunchOutcome::Over(*record), actions);
            }
            LaunchUpdate::Launch(record) => {
                if !self.accepted {
                    (self.accepted, self.pause) = (true, Span(1));
                }
                // A launch whose end is decided cannot be cancelled.
                self.cancelled &= record.end.is_none();
                self.wait(now, actions);
            }
            LaunchUpdate::Refused(why) => self.done(LaunchOutcome::Refused(why), actions),
            LaunchUpdate::NoSuchLaunch => {
                self.done(LaunchOutcome::Unknown("the agent does not know it".to_owned()), actions)
            }
            LaunchUpdate::Silent(why) if !self.accepted && self.until <= now => {
                self.done(LaunchOutcome::Unknown(why), actions);
            }
            LaunchUpdate::Silent(_) => self.wait(now, actions),
        }
    }

    fn next(&self) -> ClientAction {
        match (self.accepted, self.cancelled) {
            (false, _) => ClientAction::Launch,
            (true, true) => ClientAction::Cancel,
            (true, false) => ClientAction::Query,
        }
    }

    fn wait(&mut self, now: Time, actions: &mut Vec<ClientAction>) {
        actions.push(ClientAction::WakeAt(now + self.pause));
        self.pause = Span((self.pause.0 * 2).min(LONGEST_PAUSE.0));
    }

    fn done(&mut self, outcome: LaunchOutcome, actions: &mut Vec<ClientAction>) {
        self.over = true;
        actions.push(ClientAction::Done(Box::new(outcome)));
    }
}

#[cfg(test)]
mod tests {
    use super::super::{LaunchEnd, LaunchId};
    use super::*;
    use crate::names::Key;

    fn record(state: LaunchState, end: Option<LaunchEnd>) -> LaunchUpdate {
        LaunchUpdate::Launch(Box::new(LaunchRecord {
            id: LaunchId { agent: "agent".parse().unwrap(), key: Key([1; 16]) },
            owner: "alice".parse().unwrap(),
            name: "row".to_owned(),
            submitted: Time(0),
            state,
            end,
            tasks: Vec::new(),
            unacknowledged: Vec::new(),
            open_subjobs: Vec::new(),
        }))
    }

    fn handle(client: &mut LaunchClient, now: i64, update: LaunchUpdate) -> Vec<ClientAction> {
        let mut actions = Vec::new();
        client.on(Time(now), update, &mut actions);
        actions
    }

    #[test]
    fn a_launch_is_sent_until_the_agent_knows_it_and_followed_to_its_end() {
        let mut client = LaunchClient::new(Time(60));
        let silent = || LaunchUpdate::Silent("no answer".to_owned());
        assert_eq!(handle(&mut client, 0, LaunchUpdate::Begin), [ClientAction::Launch]);
        assert_eq!(handle(&mut client, 0, silent()), [ClientAction::WakeAt(Time(1))]);
        assert_eq!(handle(&mut client, 1, LaunchUpdate::Due), [ClientAction::Launch]);
        handle(&mut client, 1, record(LaunchState::Mapping, None));
        assert_eq!(handle(&mut client, 2, LaunchUpdate::Due), [ClientAction::Query]);
        // A known launch has no time limit.
        assert!(matches!(handle(&mut client, 500, silent())[..], [ClientAction::WakeAt(_)]));
        let LaunchUpdate::Launch(over) = record(LaunchState::Over, Some(LaunchEnd::Completed)) else {
            unreachable!()
        };
        let done = handle(&mut client, 501, LaunchUpdate::Launch(over.clone()));
        assert_eq!(done, [ClientAction::Done(Box::new(LaunchOutcome::Over(*over)))]);
        assert_eq!(handle(&mut client, 502, LaunchUpdate::Due), []);
    }

    #[test]
    fn a_launch_is_sent_before_it_is_cancelled() {
        let mut client = LaunchClient::new(Time(60));
        handle(&mut client, 0, LaunchUpdate::Begin);
        assert_eq!(handle(&mut client, 0, LaunchUpdate::Cancel), []);
        assert_eq!(handle(&mut client, 1, LaunchUpdate::Due), [ClientAction::Launch]);
        handle(&mut client, 1, record(LaunchState::Reserving, None));
        assert_eq!(handle(&mut client, 2, LaunchUpdate::Due), [ClientAction::Cancel]);
        handle(&mut client, 2, record(LaunchState::Ending, Some(LaunchEnd::Cancelled)));
        assert_eq!(handle(&mut client, 3, LaunchUpdate::Due), [ClientAction::Query], "it ends already");
    }

    #[test]
    fn a_launch_without_an_answer_is_unknown_and_a_refusal_ends_it() {
        let mut client = LaunchClient::new(Time(60));
        handle(&mut client, 0, LaunchUpdate::Begin);
        let actions = handle(&mut client, 60, LaunchUpdate::Silent("no route".to_owned()));
        assert_eq!(actions, [ClientAction::Done(Box::new(LaunchOutcome::Unknown("no route".to_owned())))]);
        let mut client = LaunchClient::new(Time(60));
        let actions = handle(&mut client, 1, LaunchUpdate::Refused("no tasks".to_owned()));
        assert_eq!(actions, [ClientAction::Done(Box::new(LaunchOutcome::Refused("no tasks".to_owned())))]);
    }
}
