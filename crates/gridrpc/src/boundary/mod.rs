//! The boundary to C, and the only unsafe code: functions that C calls, and the memory that its pointers name.
//!
//! What C passes is not trusted further than C allows: a null pointer, a wrong count, a handle or an ID that is not
//! valid gives a code. A pointer to an argument that is not null must point to what the signature says, as for every C function.

#[cfg(any(test, feature = "fuzzing"))]
pub mod any_calls;
mod arguments;
pub mod calls;
pub mod data;
pub mod diet;
mod entry;
pub mod errors;
pub mod explorations;
pub mod functions;
pub mod variadic;

#[cfg(test)]
mod tests;

pub use entry::FunctionHandle;
