//! Function handles: which addresses of the program are handles, and what they are bound to.
//!
//! A handle is known by its address alone, and its memory is never read. So a pointer to freed or foreign memory is a wrong handle, not a crash.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::code::{Code, Failure, Outcome};
use crate::federation::Function;

/// The last number of a binding. It outlives the library: a call that began before `grpc_finalize` must not take a later binding for its own.
static LAST: AtomicU64 = AtomicU64::new(0);

/// The address of a handle in the program.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct HandleAddress(pub(crate) usize);

/// A handle that was bound to a function, under a number that is never given again.
#[derive(Clone, Debug)]
pub(crate) struct Binding {
    pub(crate) number: u64,
    pub(crate) function: Arc<Function>,
}

/// The handles of the program.
#[derive(Default)]
pub(crate) struct Handles {
    bound: HashMap<HandleAddress, Binding>,
}

impl Handles {
    /// Binds the handle at that address. One that was bound there before, in memory that is used again, is forgotten.
    pub(crate) fn bind(&mut self, at: HandleAddress, function: Function) {
        let number = LAST.fetch_add(1, Ordering::Relaxed) + 1;
        self.bound.insert(at, Binding { number, function: Arc::new(function) });
    }

    /// What the handle at that address is bound to.
    pub(crate) fn get(&self, at: HandleAddress) -> Outcome<Binding> {
        self.bound.get(&at).cloned().ok_or_else(|| invalid(at))
    }

    /// Forgets a handle.
    pub(crate) fn destruct(&mut self, at: HandleAddress) -> Outcome {
        self.bound.remove(&at).map(drop).ok_or_else(|| invalid(at))
    }

    /// True if the handle at that address is still the one with that number.
    pub(crate) fn is_bound(&self, at: HandleAddress, number: u64) -> bool {
        self.bound.get(&at).is_some_and(|binding| binding.number == number)
    }
}

fn invalid(at: HandleAddress) -> Failure {
    let found = match at.0 {
        0 => "a null pointer".to_owned(),
        address => format!("the address {address:#x}, which was not initialized, or was destructed"),
    };
    Failure::new(
        Code::InvalidFunctionHandle,
        format!(
            "expected a handle that grpc_function_handle_default or grpc_function_handle_init initialized, found {found}; \
             a handle is known by its address, so a copy of one is another one"
        ),
    )
}
