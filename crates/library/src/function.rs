//! The function of a shared library. The only unsafe code of the crate.

use std::path::Path;

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

use crate::{FLOATS_MAX, WORDS_MAX};

/// Any function that the crate calls: the registers of floating-point numbers, and those of others with the words of the stack.
#[rustfmt::skip]
type Any = unsafe extern "C" fn(
    f64, f64, f64, f64, f64, f64, f64, f64,
    usize, usize, usize, usize, usize, usize, usize, usize,
    usize, usize, usize, usize, usize, usize, usize, usize,
    usize, usize, usize, usize, usize, usize, usize, usize,
    usize, usize, usize, usize, usize, usize, usize, usize,
) -> i32;

/// A function of a library that stays loaded.
pub(crate) struct Function {
    function: Any,
    _library: Library,
}

impl Function {
    /// Loads a library, and finds a function in it.
    pub(crate) fn load(library: &Path, function: &str) -> Result<Function, String> {
        if !cfg!(all(
            target_os = "linux",
            target_pointer_width = "64",
            any(target_arch = "x86_64", target_arch = "aarch64")
        )) {
            return Err("functions of libraries are called on Linux for x86-64 and AArch64 only".to_owned());
        }
        // SAFETY: the library runs its initialisers in this process, which does nothing else than call it. Its operator has named
        // it in the server's file, and a library that misbehaves ends this process alone.
        let loaded = unsafe { Library::open(Some(library), RTLD_NOW | RTLD_LOCAL) };
        let loaded = loaded.map_err(|error| format!("{}: {error}", library.display()))?;
        // SAFETY: the symbol is taken for a function that the operator has declared with this signature. It is called as the C
        // conventions of this machine have it (see `call`), and not after the library was unloaded, which is kept with it.
        let found = unsafe { loaded.get::<Any>(function.as_bytes()) };
        let function = *found.map_err(|error| format!("{}: `{function}`: {error}", library.display()))?;
        Ok(Function { function, _library: loaded })
    }

    /// Calls it with these floating-point numbers and these words: whole numbers, and pointers to memory that the caller owns
    /// and that is as long as the signature says.
    #[rustfmt::skip]
    pub(crate) fn call(&self, floats: &[f64; FLOATS_MAX], words: &[usize; WORDS_MAX]) -> i32 {
        let (f, w) = (floats, words);
        // SAFETY: on the machines that `load` admits, the caller puts floating-point numbers into registers of their own (xmm0 to
        // xmm7, d0 to d7), other arguments into rdi, ... or x0, ..., and what is left on the stack in order, a word each, and
        // removes it again. So a function with fewer arguments finds its own where it expects them, and does not look at the
        // rest. The pointers are to buffers of the sizes of the declared signature, which live until after the call.
        unsafe {
            (self.function)(
                f[0], f[1], f[2], f[3], f[4], f[5], f[6], f[7],
                w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7],
                w[8], w[9], w[10], w[11], w[12], w[13], w[14], w[15],
                w[16], w[17], w[18], w[19], w[20], w[21], w[22], w[23],
                w[24], w[25], w[26], w[27], w[28], w[29], w[30], w[31],
            )
        }
    }
}
