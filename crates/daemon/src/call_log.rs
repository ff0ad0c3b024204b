//! Log lines about the calls of others, as many as [`LineLimit`] admits of each caller.

use std::fmt::Display;
use std::time::Instant;

use pliant_telemetry::{LeftOut, LineLimit};

/// Lines about one caller at once: a user's many jobs, or different refusals of a server, are seen.
const BURST: u32 = 200;

static CALLS: LineLimit = LineLimit::with_burst(BURST);

/// If a line about a call of this caller is written: how many were left out since its last one.
pub(crate) fn admit(caller: &impl Display) -> Option<LeftOut> {
    CALLS.admit(&caller.to_string(), Instant::now())
}

/// Writes a log line of a level about a call of a caller, with the fields and the text of [`tracing`], unless there are too many.
macro_rules! log_call {
    ($level:ident, $caller:expr, $($line:tt)+) => {
        if let Some(left_out) = $crate::call_log::admit(&$caller) {
            tracing::$level!(left_out, $($line)+);
        }
    };
}

pub(crate) use log_call;
