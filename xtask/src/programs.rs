//! Programs that some tests need: found, or installed, or said to be absent.

use crate::{machine, packages};

/// Programs, each with the Debian package that has it and the tests that need it.
const PROGRAMS: &[(&str, &str, &str)] = &[
    ("povray", "povray", "the film of examples/render-encode"),
    ("ffmpeg", "ffmpeg", "the film of examples/render-encode"),
    ("protoc", "protobuf-compiler", "the protocol by another compiler"),
    ("promtool", "prometheus", "the alert rules and the dashboard by Prometheus"),
    ("valgrind", "valgrind", "the C library of GridRPC under valgrind"),
    ("c++", "g++", "the GridRPC program in C++"),
    ("gfortran", "gfortran", "the GridRPC program in Fortran"),
    ("newuidmap", "uidmap", "files of subordinate users in the folders of jobs"),
];

/// Makes sure that they are there if this machine lets us, and says what will be tested.
pub(crate) fn prepare() {
    for (program, package, tests) in PROGRAMS {
        if machine::find_program(&[program]).is_none() {
            packages::install(package);
        }
        match machine::find_program(&[program]) {
            Some(found) => eprintln!("{program}: {}", found.display()),
            None => eprintln!("skipped: {tests} (no {program})"),
        }
    }
}
