//! `pliant call-library LIBRARY FUNCTION SIGNATURE` (hidden): a resident process that calls a function of a shared library. The
//! supervisor of the service starts it; users need not.

use std::path::PathBuf;

use crate::failure::Failure;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The shared library.
    library: PathBuf,
    /// The name of the function.
    function: String,
    /// The signature of the service.
    signature: String,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let Arguments { library, function, signature } = arguments;
    pliant_library::serve(library, function, signature).map_err(Failure::system)
}
