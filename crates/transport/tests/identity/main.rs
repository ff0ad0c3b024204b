//! Real connections on loopback: which are accepted, which are refused, the errors of both sides, and the log.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod federation;
mod renewal;

mod certificates;
mod connections;
mod withdrawn;
