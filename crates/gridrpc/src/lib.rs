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

#[cfg(test)]
mod simulated;

pub use boundary::{FunctionHandle, calls, diet, errors, explorations, functions, variadic};
pub use code::{Code, Failure};
