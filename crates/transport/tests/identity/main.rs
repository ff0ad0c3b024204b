//! Real connections on loopback: who is let in, who is not, what each side is told and what the daemon logs.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod federation;

mod certificates;
mod connections;
mod withdrawn;
