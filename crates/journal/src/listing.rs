//! Questions about ended jobs, as both databases understand them.
//!
//! Every question is answered from the end of one index: jobs that equal in some columns, the last to end
//! first. Several states are one question each, merged here, as no index holds them in one order.

use std::cmp::Reverse;

use super::{Filter, JobRow, LocalPlace};

/// The columns of a job, in the order of [`JobRow`].
pub(super) const COLUMNS: &str = "server, number, key, owner, name, state, submitted, started, ended, \
                                  expected_start, expected_completion, record, last_server";

/// A value of a question.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Value {
    Text(String),
    Number(i64),
}

/// A question and its values, numbered from 1.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Question {
    pub text: String,
    pub values: Vec<Value>,
}

/// What to ask for a filter. `mark` stands before the number of a value: `?` or `$`.
pub(super) fn questions(filter: &Filter, mark: char) -> Vec<Question> {
    if filter.limit == 0 {
        return Vec::new();
    }
    let mut states = filter.states.clone();
    states.sort_unstable();
    states.dedup();
    if states.is_empty() {
        return vec![question(filter, None, mark)];
    }
    states.into_iter().map(|state| question(filter, Some(state), mark)).collect()
}

fn question(filter: &Filter, state: Option<String>, mark: char) -> Question {
    let mut conditions = Vec::new();
    let mut values = Vec::new();
    let mut value = |value: Value| {
        values.push(value);
        format!("{mark}{}", values.len())
    };
    if let Some(owner) = &filter.owner {
        conditions.push(format!("owner = {}", value(Value::Text(owner.clone()))));
    }
    if let Some(server) = &filter.server {
        conditions.push(format!("last_server = {}", value(Value::Text(server.clone()))));
    }
    if let Some(state) = state {
        conditions.push(format!("state = {}", value(Value::Text(state))));
    }
    if let Some(after) = filter.ended_after {
        conditions.push(format!("ended > {}", value(Value::Number(after))));
    }
    if let Some((ended, server, number)) = &filter.before {
        let ended = value(Value::Number(*ended));
        let server = value(Value::Text(server.clone()));
        let number = value(Value::Number(i64::from(*number)));
        conditions.push(format!("(ended, server, number) < ({ended}, {server}, {number})"));
    }
    let conditions = if conditions.is_empty() { "TRUE".to_owned() } else { conditions.join(" AND ") };
    let limit = value(Value::Number(i64::from(filter.limit)));
    let text = format!(
        "SELECT {COLUMNS} FROM jobs WHERE {conditions} ORDER BY ended DESC, server DESC, number DESC LIMIT {limit}"
    );
    Question { text, values }
}

/// The place after which runs of local users' jobs are read.
pub(super) fn from(since: i64, after: Option<LocalPlace>) -> (i64, i64) {
    let since = (since, 0);
    after.map_or(since, |(ended, number)| since.max((ended, i64::try_from(number).unwrap_or(i64::MAX))))
}

/// The answers to all questions of a filter as one.
pub(super) fn merged(filter: &Filter, mut rows: Vec<JobRow>) -> Vec<JobRow> {
    rows.sort_by(|a, b| {
        Reverse((a.ended, &a.server, a.number)).cmp(&Reverse((b.ended, &b.server, b.number)))
    });
    rows.truncate(filter.limit as usize);
    rows
}
