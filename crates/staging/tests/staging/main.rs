//! Files go up, are checked, and reach their job; results come back; nothing leads out of its folder.
#![allow(clippy::unwrap_used, reason = "a failed call fails the test that made it")]

mod files;

mod results;
mod space;
mod uploads;
