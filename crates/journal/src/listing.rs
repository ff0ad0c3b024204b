//! Queries for lists of ended jobs.
//!
//! Each query reads one index from its end: jobs with equal values in some columns, the last to be submitted first. No index holds
//! several states in this order, so each state is a query of its own, and the results are merged.

use std::cmp::Reverse;

use crate::database::Value;
use crate::{Filter, JobRow};

/// The columns of a job, in the order of [`JobRow`].
pub(crate) const JOB_COLUMNS: &str = "server, number, key, owner, name, state, submitted, started, ended, \
                                      expected_start, expected_completion, record, last_server";

/// A query and its parameters.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Query {
    pub text: String,
    pub values: Vec<Value>,
}

/// The queries for a filter.
pub(crate) fn queries(filter: &Filter) -> Vec<Query> {
    if filter.limit == 0 {
        return Vec::new();
    }
    let mut states = filter.states.clone();
    states.sort_unstable();
    states.dedup();
    if states.is_empty() {
        return vec![query(filter, None)];
    }
    states.into_iter().map(|state| query(filter, Some(state))).collect()
}

fn query(filter: &Filter, state: Option<String>) -> Query {
    let mut conditions = Vec::new();
    let mut values = Vec::new();
    let mut parameter = |value: Value| {
        values.push(value);
        format!("${}", values.len())
    };
    if let Some(owner) = &filter.owner {
        conditions.push(format!("owner = {}", parameter(Value::Text(owner.clone()))));
    }
    if let Some(server) = &filter.server {
        conditions.push(format!("last_server = {}", parameter(Value::Text(server.clone()))));
    }
    if let Some(state) = state {
        conditions.push(format!("state = {}", parameter(Value::Text(state))));
    }
    if let Some((submitted, server, number)) = &filter.before {
        let submitted = parameter((*submitted).into());
        let server = parameter(Value::Text(server.clone()));
        let number = parameter((*number).into());
        conditions.push(format!("(submitted, server, number) < ({submitted}, {server}, {number})"));
    }
    let conditions = if conditions.is_empty() { "TRUE".to_owned() } else { conditions.join(" AND ") };
    let limit = parameter(filter.limit.into());
    let text = format!(
        "SELECT {JOB_COLUMNS} FROM jobs WHERE {conditions} ORDER BY submitted DESC, server DESC, number DESC LIMIT {limit}"
    );
    Query { text, values }
}

/// The rows of all queries of a filter, in order and cut to its limit.
pub(crate) fn merged(filter: &Filter, mut rows: Vec<JobRow>) -> Vec<JobRow> {
    rows.sort_by(|a, b| {
        Reverse((a.submitted, &a.server, a.number)).cmp(&Reverse((b.submitted, &b.server, b.number)))
    });
    rows.truncate(filter.limit as usize);
    rows
}
