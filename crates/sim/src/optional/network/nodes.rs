//! Clients and servers as the machines of nodes.

use pliant_control::optional::explore::{self, ExplorationClient, Plan};
use pliant_control::optional::server::{self, Config, Requests};
use pliant_model::TimeMs;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::kernel::NodeMachine;

impl NodeMachine for Requests {
    type Time = TimeMs;
    type Event = server::Event;
    type Command = server::Command;
    type Config = Config;

    fn start(config: &Config) -> Requests {
        Requests::new(config.clone())
    }

    fn on(&mut self, now: TimeMs, event: server::Event, commands: &mut Vec<server::Command>) {
        Requests::on(self, now, event, commands);
    }

    fn state(&mut self, _now: TimeMs) -> String {
        text(self)
    }

    fn restore(_config: &Config, state: &str) -> Result<Requests, String> {
        parse(state)
    }
}

impl NodeMachine for ExplorationClient {
    type Time = TimeMs;
    type Event = explore::Event;
    type Command = explore::Command;
    type Config = Plan;

    fn start(plan: &Plan) -> ExplorationClient {
        ExplorationClient::new(plan.clone())
    }

    fn on(&mut self, now: TimeMs, event: explore::Event, commands: &mut Vec<explore::Command>) {
        ExplorationClient::on(self, now, event, commands);
    }

    fn state(&mut self, _now: TimeMs) -> String {
        text(self)
    }

    fn restore(_plan: &Plan, state: &str) -> Result<ExplorationClient, String> {
        parse(state)
    }
}

fn text(machine: &impl Serialize) -> String {
    serde_json::to_string(machine).expect("states are plain data with text keys")
}

fn parse<M: DeserializeOwned>(state: &str) -> Result<M, String> {
    serde_json::from_str(state).map_err(|error| error.to_string())
}
