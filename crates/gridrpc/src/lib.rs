//! `libpliant_gridrpc`: the standard C interface of GridRPC (OGF GFD.52) to a federation. The interface is in `include/grpc.h`, the guide in
//! `docs/guides/gridrpc.md`.
//!
//! From the program inwards: `c/variadic.c` makes an array of addresses of variable arguments; `boundary` holds the functions that C
//! calls and is the only unsafe code; `library` does what they mean, with `handles` and `sessions`; `live` asks the
//! federation, behind the trait of `federation`.

mod boundary;
mod code;
mod federation;
mod handles;
mod library;
mod live;
mod sessions;

#[cfg(any(test, feature = "fuzzing"))]
#[cfg_attr(not(test), allow(dead_code, reason = "tests use more of it than the fuzzer"))]
#[allow(clippy::unwrap_used, reason = "what it unwraps was written by a test")]
mod simulated;

#[cfg(any(test, feature = "fuzzing"))]
pub use boundary::any_calls;
pub use boundary::{FunctionHandle, calls, data, diet, errors, explorations, functions, variadic};
pub use code::{Code, Failure};
