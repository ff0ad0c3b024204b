//! Programs in C, C++ and Fortran, compiled against the library and run.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use pliant_testing::{Needed, skip};
use tempfile::TempDir;

/// The folder of the workspace.
pub(super) fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Programs in a folder, and the shared library under its name in a system.
pub(super) struct Programs {
    dir: TempDir,
}

/// How a program gets the library.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Linked {
    Shared,
    Statically,
}

/// A program that this machine does not have.
fn lacks(program: &str) -> bool {
    let is_there = Command::new(program).arg("--version").stdout(Stdio::null()).status().is_ok();
    if !is_there {
        skip(Needed::Program, &format!("{program}, with what is tested by it"));
    }
    !is_there
}

impl Programs {
    pub(super) fn new() -> Programs {
        let dir = tempfile::tempdir().unwrap();
        symlink(library("so"), dir.path().join("libpliant_gridrpc.so.0")).unwrap();
        symlink("libpliant_gridrpc.so.0", dir.path().join("libpliant_gridrpc.so")).unwrap();
        Programs { dir }
    }

    pub(super) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Compiles a program with warnings as errors; none if there is no such compiler.
    pub(super) fn compile(&self, compiler: &str, source: &Path, linked: Linked) -> Option<PathBuf> {
        if lacks(compiler) {
            return None;
        }
        let name = source.file_name().unwrap().to_str().unwrap().replace('.', "_");
        let program =
            self.path().join(format!("{name}{}", if linked == Linked::Shared { "" } else { "_static" }));
        let mut command = Command::new(compiler);
        // Fortran has its module files, too.
        command.current_dir(self.path()).args([
            "-O1",
            "-g",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-D_DEFAULT_SOURCE",
        ]);
        command.args((compiler == "cc").then_some("-std=c99"));
        // What is tested on purpose.
        command.args((name == "hostile_c").then_some("-Wno-use-after-free"));
        for folder in ["include", "include/diet"] {
            command.arg("-I").arg(workspace().join("crates/gridrpc").join(folder));
        }
        command.arg("-o").arg(&program).arg(source);
        match linked {
            Linked::Shared => {
                command.arg("-L").arg(self.path()).arg("-lpliant_gridrpc");
                command.arg(format!("-Wl,-rpath,{}", self.path().display()));
            }
            Linked::Statically => drop(command.arg(library("a")).arg("-ldl")),
        }
        let output = command.args(["-lm", "-lpthread"]).output().unwrap();
        assert!(output.status.success(), "{}: {}", source.display(), String::from_utf8_lossy(&output.stderr));
        Some(program)
    }

    /// Compiles a shared library for a service.
    pub(super) fn shared(&self, source: &Path) -> PathBuf {
        let library = self.path().join("libservice.so");
        let mut command = Command::new("cc");
        command
            .args(["-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-o"])
            .arg(&library)
            .arg(source);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}: {}", source.display(), String::from_utf8_lossy(&output.stderr));
        library
    }

    /// The names of the symbols that the shared library exports, sorted.
    pub(super) fn exported(&self) -> Vec<String> {
        let output =
            Command::new("nm").args(["-D", "--defined-only", "-j"]).arg(library("so")).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let mut names: Vec<String> =
            String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect();
        names.sort();
        names
    }

    /// Compiles one of the test programs in C.
    pub(super) fn test_program(&self, name: &str) -> PathBuf {
        let source = workspace().join("crates/gridrpc/tests/c").join(name);
        self.compile("cc", &source, Linked::Shared).expect("a C compiler is needed to build Pliant")
    }
}

/// The library, next to this test.
fn library(extension: &str) -> PathBuf {
    let exe = std::env::current_exe().unwrap();
    let library = exe.parent().unwrap().join(format!("libpliant_gridrpc.{extension}"));
    assert!(library.exists(), "{} was not built", library.display());
    library
}

/// Runs a program with these arguments: what it prints, if it ends well.
pub(super) fn run<A: AsRef<OsStr>>(program: &Path, arguments: &[A]) -> String {
    let mut command = Command::new(program);
    printed(program, in_its_folder(program, &mut command).args(arguments).output().unwrap())
}

/// The same under valgrind, which must find no error and no lost memory; none if there is no valgrind.
pub(super) fn run_checked<A: AsRef<OsStr>>(program: &Path, arguments: &[A]) -> Option<String> {
    if lacks("valgrind") {
        return None;
    }
    let mut command = Command::new("valgrind");
    command.args(["--quiet", "--error-exitcode=99", "--leak-check=full", "--errors-for-leak-kinds=definite"]);
    // What is initialised it cannot know of ring's assembly and of optimised Rust: it finds fault with every encrypted byte.
    command.arg("--undef-value-errors=no");
    // Threads have their turns, or a thread that looks all the time would hold up the others.
    command.arg("--fair-sched=yes").arg(program).args(arguments);
    Some(printed(program, in_its_folder(program, &mut command).output().unwrap()))
}

/// What a program writes stays with the program.
fn in_its_folder<'a>(program: &Path, command: &'a mut Command) -> &'a mut Command {
    command.current_dir(program.parent().unwrap()).stdin(Stdio::null())
}

fn printed(program: &Path, output: Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{}: {}\n{stdout}\n{stderr}", program.display(), output.status);
    stdout
}

/// Reads a file of the workspace.
pub(super) fn file(path: &str) -> String {
    fs::read_to_string(workspace().join(path)).unwrap()
}
