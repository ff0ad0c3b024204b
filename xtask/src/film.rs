//! The programs with which `examples/render-encode` makes a film in its tests: found, or installed, or said to be absent.

use crate::{machine, packages};

/// Programs, each with the Debian package that has it.
const PROGRAMS: &[(&str, &str)] = &[("povray", "povray"), ("ffmpeg", "ffmpeg")];

/// Makes sure that they are there if this machine lets us, and says what will be tested.
pub(crate) fn prepare() {
    for (program, package) in PROGRAMS {
        if machine::find_program(&[program]).is_none() {
            packages::install(package);
        }
        match machine::find_program(&[program]) {
            Some(found) => eprintln!("film: {}", found.display()),
            None => eprintln!("skipped: the film of examples/render-encode (no {program})"),
        }
    }
}
