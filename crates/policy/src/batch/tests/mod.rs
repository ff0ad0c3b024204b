//! Unit tests of common parts. The tests of whole policies are in `tests/` of the crate.

mod overdue;
mod queue;
mod returning;
