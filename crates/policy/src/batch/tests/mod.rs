//! Unit tests of the parts that policies share. Policies as a whole are tested in `tests/` of the crate.

mod overdue;
mod queue;
mod returning;
