//! The functions with variable arguments, which are defined in C (`c/variadic.c`).
//!
//! A shared library of Rust exports only functions of Rust. Each of these jumps to its definition, before which no register and
//! no part of the stack changes; so the arguments reach it as they were passed.

#![allow(unsafe_code)]

use std::arch::naked_asm;

unsafe extern "C" {
    fn pliant_gridrpc_variadic_call();
    fn pliant_gridrpc_variadic_call_async();
}

macro_rules! jumps {
    ($(#[doc = $doc:literal] $name:ident => $definition:ident,)+) => { $(
        #[doc = $doc]
        ///
        /// # Safety
        ///
        /// The arguments are those of the function in `grpc.h`.
        // Naked, since a function of Rust would have to know how many arguments it passes on. The only instruction is a jump.
        #[unsafe(naked)]
        // The name is that of the standard, which no other part of a program may define.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name() {
            #[cfg(target_arch = "x86_64")]
            naked_asm!("jmp {}", sym $definition);
            #[cfg(target_arch = "aarch64")]
            naked_asm!("b {}", sym $definition);
            #[cfg(target_arch = "riscv64")]
            naked_asm!("tail {}", sym $definition);
        }
    )+ };
}

jumps! {
    /// Calls a function and waits for its outputs.
    grpc_call => pliant_gridrpc_variadic_call,
    /// Starts a call.
    grpc_call_async => pliant_gridrpc_variadic_call_async,
}
