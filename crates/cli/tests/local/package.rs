//! The Debian package: installed, used and removed. Root on Debian may do that; elsewhere the test says that it did not.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use pliant_testing::{Needed, skip};
use serde_json::Value;

/// Removes the package at the end of the test.
struct Installed;

impl Drop for Installed {
    fn drop(&mut self) {
        run(Command::new("dpkg").args(["--purge", "pliant"]));
    }
}

fn run(command: &mut Command) -> Output {
    command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

/// Standard output of a command that succeeds.
fn done(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = run(command);
    let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{command:?}: {status}\n{stdout}{stderr}");
    stdout.into_owned()
}

fn is_program(name: &str) -> bool {
    Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success())
}

/// The package of the program under test, with the others of its build in a folder.
fn package(out: &Path) -> PathBuf {
    let mut command = Command::new(env!("CARGO"));
    command.args(["xtask", "dist", "--binary", env!("CARGO_BIN_EXE_pliant"), "--out"]).arg(out);
    // What cargo says of this package is none of the other one's business, and would have it built again.
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("CARGO_")) {
        command.env_remove(name);
    }
    if let Some(target) = std::env::var_os("CARGO_TARGET_DIR") {
        command.env("CARGO_TARGET_DIR", target);
    }
    done(&mut command);
    let mut names = fs::read_dir(out).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let name = names.find(|name| name.starts_with("pliant_") && name.ends_with(".deb"));
    out.join(name.expect("the package of the program"))
}

#[test]
fn the_debian_package_is_installed_used_and_removed() {
    if !rustix::process::geteuid().is_root() || !is_program("dpkg") || !is_program("dpkg-deb") {
        return skip(Needed::Program, "the Debian package (needs root and dpkg)");
    }
    if Path::new("/usr/bin/pliant").exists() {
        return skip(Needed::Program, "the Debian package (this machine has /usr/bin/pliant)");
    }
    let dir = tempfile::tempdir().unwrap();
    let package = package(dir.path());
    done(Command::new("sha256sum").args(["--check", "SHA256SUMS"]).current_dir(dir.path()));
    readme_names_the_c_library(dir.path());
    the_packages_of_the_library_have_its_files(dir.path());
    let installed = Installed;
    done(Command::new("dpkg").arg("--install").arg(&package));

    let user = done(Command::new("getent").args(["passwd", "pliant"]));
    assert!(user.trim_end().ends_with(":/var/lib/pliant:/usr/sbin/nologin"), "{user}");
    for file in [
        "man/man1/pliant-launch-spawn.1.gz",
        "bash-completion/completions/pliant",
        "zsh/vendor-completions/_pliant",
        "fish/vendor_completions.d/pliant.fish",
        "doc/pliant/grafana/pliant.json",
        "doc/pliant/prometheus/pliant.rules.yml",
    ] {
        assert!(Path::new("/usr/share").join(file).is_file(), "{file}");
    }
    for daemon in ["agent", "server"] {
        let example = format!("/usr/share/doc/pliant/examples/{daemon}.toml");
        assert_eq!(
            done(Command::new("pliant").args([daemon, "--check", &example])),
            format!("{example} is valid\n")
        );
        if is_program("systemd-analyze") {
            let unit = format!("/usr/lib/systemd/system/pliant-{daemon}@.service");
            done(Command::new("systemd-analyze").args(["verify", &unit]));
        }
    }
    drop_ins_are_valid(&dir.path().join("units"));
    the_launcher_is_installed();
    use_federation(dir.path());

    drop(installed);
    for file in ["/usr/bin/pliant", "/usr/lib/pliant/pliant-launcher", "/etc/pliant/launcher.toml"] {
        assert!(!Path::new(file).exists(), "{file}");
    }
    // Files of its jobs may belong to it.
    done(Command::new("getent").args(["passwd", "pliant"]));
}

/// The package has drop-ins for its unit of servers, which systemd accepts.
fn drop_ins_are_valid(units: &Path) {
    for name in ["accounts", "cgroup", "oar", "slurm"] {
        let drop_in = format!("/usr/share/doc/pliant/examples/pliant-server-{name}.conf");
        assert!(Path::new(&drop_in).is_file(), "{drop_in}");
        if !is_program("systemd-analyze") {
            continue;
        }
        let folder = units.join(name);
        let (unit, own) = (folder.join("pliant-server@.service"), folder.join("pliant-server@.service.d"));
        fs::create_dir_all(&own).unwrap();
        fs::copy("/usr/lib/systemd/system/pliant-server@.service", &unit).unwrap();
        fs::copy(&drop_in, own.join("drop-in.conf")).unwrap();
        let mut command = Command::new("systemd-analyze");
        command.arg("verify").arg(unit).env("SYSTEMD_UNIT_PATH", format!("{}:", folder.display()));
        let Output { status, stdout, stderr } = run(&mut command);
        let said = [stdout, stderr].concat();
        let said = String::from_utf8_lossy(&said);
        // A user that is no user here is a warning.
        assert!(status.success() && !said.contains("drop-in.conf"), "{name}: {said}");
    }
}

/// The tarball says which C library its program needs.
fn readme_names_the_c_library(dir: &Path) {
    let mut files = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let tarball = files.find(|path| path.extension().is_some_and(|end| end == "gz")).unwrap();
    let readme = done(Command::new("tar").arg("-xzOf").arg(tarball).args(["--wildcards", "*/README.md"]));
    assert!(readme.contains("with glibc 2."), "{readme}");
}

/// One package has what programs of GridRPC need to run, the other one what they are compiled with.
fn the_packages_of_the_library_have_its_files(dir: &Path) {
    let contents = |name: &str| {
        let mut files = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
        let is_it = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().starts_with(name);
        done(Command::new("dpkg-deb").arg("--contents").arg(files.find(is_it).unwrap()))
    };
    let (library, development) = (contents("libpliant-gridrpc_"), contents("libpliant-gridrpc-dev_"));
    assert!(library.contains("/libpliant_gridrpc.so.0\n"), "{library}");
    for file in [
        "/usr/include/pliant/grpc.h\n",
        "/libpliant_gridrpc.a\n",
        "/libpliant_gridrpc.so -> libpliant_gridrpc.so.0\n",
        "/pkgconfig/pliant-gridrpc.pc\n",
    ] {
        assert!(development.contains(file), "{file}: {development}");
    }
}

/// The launcher is set-user-id for the group of servers, and its file lets it do nothing yet.
fn the_launcher_is_installed() {
    for (file, expected) in [
        ("/usr/bin/pliant", "root:root 711"),
        ("/usr/lib/pliant/pliant-launcher", "root:pliant 4750"),
        ("/etc/pliant/launcher.toml", "root:root 644"),
        ("/var/spool/pliant", "pliant:pliant 711"),
    ] {
        assert_eq!(done(Command::new("stat").args(["-c", "%U:%G %a", file])).trim_end(), expected, "{file}");
    }
    assert!(fs::read_to_string("/etc/pliant/launcher.toml").unwrap().contains("\nallow = []"));
    // It has read the file and knows its caller when it looks for a request.
    let call =
        ["--reuid", "pliant", "--regid", "pliant", "--clear-groups", "/usr/lib/pliant/pliant-launcher"];
    let Output { status, stderr, .. } = run(Command::new("setpriv").args(call).stdin(Stdio::null()));
    let stderr = String::from_utf8_lossy(&stderr);
    assert_eq!(status.code(), Some(125), "{stderr}");
    assert!(stderr.starts_with("pliant-launcher: no request on standard input"), "{stderr}");
}

/// Starts a federation with the installed program, runs a job on it, and stops it.
fn use_federation(dir: &Path) {
    let pliant = |line: &str| {
        let words = line.split_whitespace().chain(["--format", "json"]);
        let text = done(Command::new("pliant").args(words).current_dir(dir));
        serde_json::from_str::<Value>(&text).unwrap()
    };
    let up = pliant("up --dir federation");
    let client = up["client"].as_str().unwrap();
    let job = pliant(&format!("submit pi samples=1000000 --wait --config {client}"));
    assert_eq!(job["state"], "COMPLETED", "{job}");
    pliant("down --dir federation");
}
