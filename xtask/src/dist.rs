//! Packages: a Debian package and a tarball with the program and its launcher, the manual, completions, systemd units and examples; and
//! the Debian packages of the C library of GridRPC.

mod gridrpc;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::step::{Failure, Step, target_folder, workspace_root};

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The folders of completions in a Debian system, by shell, with the file's name.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "usr/share/bash-completion/completions/pliant"),
    ("zsh", "usr/share/zsh/vendor-completions/_pliant"),
    ("fish", "usr/share/fish/vendor_completions.d/pliant.fish"),
];

/// The set-user-id launcher in a Debian system, and the file that says what it may do.
const LAUNCHER: &str = "usr/lib/pliant/pliant-launcher";
const LAUNCHER_FILE: &str = "etc/pliant/launcher.toml";

/// Where the tool comes from that links for an older glibc.
const ZIG: &str = "`pip install cargo-zigbuild ziglang` installs it";

/// Run after the package was unpacked. The user stays when the package is removed, since files may belong to it. The launcher is set-user-id
/// from here on only, when its group exists, and unless the administrator has decided otherwise.
const POSTINST: &str = "\
#!/bin/sh
set -e
if [ \"$1\" = configure ] && ! getent passwd pliant >/dev/null; then
    useradd --system --user-group --home-dir /var/lib/pliant --no-create-home --shell /usr/sbin/nologin pliant
fi
if [ \"$1\" = configure ]; then
    launcher=/usr/lib/pliant/pliant-launcher
    if ! dpkg-statoverride --list $launcher >/dev/null 2>&1; then
        chown root:pliant $launcher
        chmod 4750 $launcher
    fi
    if [ ! -e /var/spool/pliant ]; then
        install -d -m 0711 -o pliant -g pliant /var/spool/pliant
    fi
fi
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload || true
fi
";

/// Run after the package was removed. Journals in /var/lib/pliant and files in /etc/pliant stay.
const POSTRM: &str = "\
#!/bin/sh
set -e
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload || true
fi
";

/// The programs of a package.
struct Programs {
    pliant: PathBuf,
    launcher: PathBuf,
}

impl Programs {
    /// The optimised programs, which are built first; or `binary`, and the launcher as it is quickly built. They need this version
    /// of glibc or a later one, if one is named, else that of this machine.
    fn build(binary: Option<&Path>, glibc: Option<&str>) -> Result<Programs, Failure> {
        let (profile, folder) = if binary.is_some() { ("dev", "debug") } else { ("dist", "dist") };
        let (build, built) = build_command(profile, folder, glibc)?;
        let build: Vec<&str> = build.iter().map(String::as_str).collect();
        let pliant = match binary {
            Some(binary) => absolute(binary)?,
            None => {
                Step::cargo(&[&build[..], &["pliant", "--all-features"]].concat()).run()?;
                built.join("pliant")
            }
        };
        // Not with the program above: what that needs of rustix must not come into the launcher.
        Step::cargo(&[&build[..], &["pliant-launcher", "--bin", "pliant-launcher"]].concat()).run()?;
        Ok(Programs { pliant, launcher: built.join("pliant-launcher") })
    }
}

/// The command that builds a package of the workspace with a profile, up to its name, and the folder in which the result is.
fn build_command(
    profile: &str,
    folder: &str,
    glibc: Option<&str>,
) -> Result<(Vec<String>, PathBuf), Failure> {
    let (build, built) = match glibc {
        // Links with the symbols of another glibc.
        Some(version) => {
            if Step::cargo(&["zigbuild", "--version"]).output().is_none() {
                return Err(Failure::Missing { what: "cargo-zigbuild", hint: ZIG });
            }
            let linked = format!("{}.{version}", system());
            (vec!["zigbuild".to_owned(), "--target".to_owned(), linked], target_folder().join(system()))
        }
        None => (vec!["build".to_owned()], target_folder()),
    };
    let rest = ["--profile", profile, "--locked", "-p"].map(str::to_owned);
    Ok(([build, rest.to_vec()].concat(), built.join(folder)))
}

/// The system for which programs are built, as cargo names it.
fn system() -> String {
    format!("{}-unknown-linux-gnu", std::env::consts::ARCH)
}

/// Writes the packages into `out`, with the program `given`, or the optimised one, which is built first, for a version of glibc if
/// one is named.
pub(crate) fn run(given: Option<&Path>, glibc: Option<&str>, out: &Path) -> Result<(), Failure> {
    let programs = Programs::build(given, glibc)?;
    let binary = &programs.pliant;
    make_dir(out)?;
    let out = absolute(out)?;
    let tree = out.join("tree");
    remove(&tree)?;
    let root = tree.join("debian");
    fill(&root, &programs)?;
    let package = format!("pliant_{VERSION}_{}.deb", debian_architecture());
    debian_package(&root, binary, &out.join(&package))?;
    let needed = needed(binary)?;
    let tarball = tarball(&tree, &programs, &needed, &out)?;
    let [library, development] = gridrpc::packages(&tree, given, glibc, &out)?;
    remove(&tree)?;
    let sums = Step::new("sha256sum", &[&package, &library, &development, &tarball]).dir(&out);
    let sums = sums
        .output()
        .ok_or(Failure::Missing { what: "sha256sum", hint: "it is in the package coreutils" })?;
    write(&out.join("SHA256SUMS"), &sums, 0o644)?;
    print!("{sums}");
    eprintln!("the program needs {needed}");
    eprintln!("packages in {}", out.display());
    Ok(())
}

/// What a system must have to run the program, in words.
fn needed(binary: &Path) -> Result<String, Failure> {
    let program = fs::read(binary).map_err(|error| unreadable(binary, &error))?;
    let architecture = std::env::consts::ARCH;
    Ok(match libc_version(&program) {
        Some((major, minor)) => format!("Linux on {architecture} with glibc {major}.{minor} or later"),
        None => format!("Linux on {architecture}, and no C library"),
    })
}

/// The files of the Debian package below `root`.
fn fill(root: &Path, programs: &Programs) -> Result<(), Failure> {
    let source = workspace_root();
    let binary = &programs.pliant;
    // Not readable: see the manual's page about security.
    install(binary, &root.join("usr/bin/pliant"), 0o711)?;
    install(&programs.launcher, &root.join(LAUNCHER), 0o750)?;
    copy(&source.join("deploy/launcher.toml"), &root.join(LAUNCHER_FILE), 0o644)?;
    for unit in ["pliant-agent@.service", "pliant-server@.service"] {
        copy(
            &source.join("deploy/systemd").join(unit),
            &root.join("usr/lib/systemd/system").join(unit),
            0o644,
        )?;
    }
    for (shell, path) in COMPLETIONS {
        write(&root.join(path), &completions(binary, shell)?, 0o644)?;
    }
    let manual = root.join("usr/share/man/man1");
    make_dir(&manual)?;
    Step::new(binary, &["manual", text(&manual)]).run()?;
    let doc = root.join("usr/share/doc/pliant");
    documents(&doc)?;
    copy(&source.join("CHANGELOG.md"), &doc.join("changelog"), 0o644)?;
    write(&doc.join("copyright"), &copyright()?, 0o644)?;
    let mut pages = listed(&manual)?;
    pages.push(doc.join("changelog"));
    // Without times and names in them, so that equal files give equal packages.
    let pages = pages.iter().map(|page| text(page));
    Step::new("gzip", &["-9", "-n"].into_iter().chain(pages).collect::<Vec<&str>>()).run()
}

/// Example files, alert rules and dashboard, the schemas of JSON documents, and the book.
fn documents(folder: &Path) -> Result<(), Failure> {
    let source = workspace_root();
    for example in listed(&source.join("deploy/examples"))? {
        let name = example.file_name().unwrap_or_default().to_owned();
        copy(&example, &folder.join("examples").join(name), 0o644)?;
    }
    for monitoring in ["prometheus", "grafana"] {
        copy_tree(&source.join("deploy").join(monitoring), &folder.join(monitoring))?;
    }
    copy_tree(&source.join("schemas"), &folder.join("schemas"))?;
    copy_tree(&source.join("docs"), &folder.join("book"))
}

/// Copies a folder of documents with its folders.
fn copy_tree(from: &Path, to: &Path) -> Result<(), Failure> {
    for path in listed(from)? {
        let target = to.join(path.file_name().unwrap_or_default());
        if path.is_dir() { copy_tree(&path, &target)? } else { copy(&path, &target, 0o644)? }
    }
    Ok(())
}

fn copyright() -> Result<String, Failure> {
    let mut text = "Pliant is licensed under either of the two licences below, at your choice.\n".to_owned();
    for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
        let path = workspace_root().join(licence);
        text.push_str(&format!("\n--- {licence} ---\n\n"));
        text.push_str(&fs::read_to_string(&path).map_err(|error| unreadable(&path, &error))?);
    }
    Ok(text)
}

fn debian_package(root: &Path, binary: &Path, package: &Path) -> Result<(), Failure> {
    let installed_kib = size(root)?.div_ceil(1_024);
    let libc = libc_version(&fs::read(binary).map_err(|error| unreadable(binary, &error))?);
    let depends = libc.map_or_else(String::new, |(major, minor)| format!("libc6 (>= {major}.{minor}), "));
    let control = format!(
        "Package: pliant\n\
         Version: {VERSION}\n\
         Architecture: {architecture}\n\
         Maintainer: The Pliant authors <pliant@localhost>\n\
         Installed-Size: {installed_kib}\n\
         Depends: {depends}passwd\n\
         Section: net\n\
         Priority: optional\n\
         Description: metascheduler for federations of clusters\n \
         Pliant chooses the cluster, the number of processors and the walltime of jobs,\n \
         submits them to the batch systems of the clusters, and improves the choice\n \
         while they wait. It also simulates workload logs under other policies.\n",
        architecture = debian_architecture(),
    );
    write(&root.join("DEBIAN/control"), &control, 0o644)?;
    write(&root.join("DEBIAN/conffiles"), &format!("/{LAUNCHER_FILE}\n"), 0o644)?;
    write(&root.join("DEBIAN/postinst"), POSTINST, 0o755)?;
    write(&root.join("DEBIAN/postrm"), POSTRM, 0o755)?;
    Step::new("dpkg-deb", &["--root-owner-group", "--build", text(root), text(package)]).run()
}

/// The tarball: the program, its manual, completions, units and examples in one folder.
fn tarball(tree: &Path, programs: &Programs, needed: &str, out: &Path) -> Result<String, Failure> {
    let source = workspace_root();
    let binary = &programs.pliant;
    let name = format!("pliant-{VERSION}-linux-{}", std::env::consts::ARCH);
    let root = tree.join(&name);
    install(binary, &root.join("bin/pliant"), 0o755)?;
    install(&programs.launcher, &root.join("lib/pliant-launcher"), 0o755)?;
    copy(&source.join("deploy/launcher.toml"), &root.join("deploy/launcher.toml"), 0o644)?;
    for (shell, _) in COMPLETIONS {
        write(
            &root.join("completions").join(format!("pliant.{shell}")),
            &completions(binary, shell)?,
            0o644,
        )?;
    }
    let manual = root.join("man/man1");
    make_dir(&manual)?;
    Step::new(binary, &["manual", text(&manual)]).run()?;
    documents(&root.join("deploy"))?;
    for unit in listed(&source.join("deploy/systemd"))? {
        let file = unit.file_name().unwrap_or_default().to_owned();
        copy(&unit, &root.join("deploy/systemd").join(file), 0o644)?;
    }
    for file in ["LICENSE-MIT", "LICENSE-APACHE", "CHANGELOG.md"] {
        copy(&source.join(file), &root.join(file), 0o644)?;
    }
    let readme = source.join("README.md");
    let readme = fs::read_to_string(&readme).map_err(|error| unreadable(&readme, &error))?;
    write(&root.join("README.md"), &format!("{readme}{}", this_build(needed)), 0o644)?;
    let file = format!("{name}.tar.gz");
    let to = out.join(&file);
    let owner = ["--sort=name", "--owner=0", "--group=0", "--numeric-owner"];
    Step::new("tar", &[&owner[..], &["-C", text(tree), "-czf", text(&to), &name]].concat()).run()?;
    Ok(file)
}

/// What the README of the tarball says of the program in it.
fn this_build(needed: &str) -> String {
    format!(
        "\n## The program in this tarball\n`bin/pliant` needs {needed}. `ldd --version` shows the version of a system.\n\
         For an older system, build Pliant on that system or in a container of it.\n"
    )
}

fn completions(binary: &Path, shell: &str) -> Result<String, Failure> {
    let printed = Step::new(binary, &["completions", shell]).output();
    printed.ok_or(Failure::Missing {
        what: "completions that the program prints",
        hint: "is --binary this version?",
    })
}

/// Copies a program.
fn install(program: &Path, to: &Path, mode: u32) -> Result<(), Failure> {
    copy(program, to, mode)?;
    strip(to);
    set_mode(to, mode)
}

/// Removes what only debuggers need. Without the tool the program stays as it is.
fn strip(program: &Path) {
    if !Step::new("strip", &[text(program)]).succeeds() {
        eprintln!("xtask: {} keeps its debug information (no strip)", program.display());
    }
}

/// The latest version of the C library that a program asks for; none if it needs none.
fn libc_version(program: &[u8]) -> Option<(u32, u32)> {
    const MARK: &[u8] = b"GLIBC_";
    let starts = program.windows(MARK.len()).enumerate().filter(|(_, window)| *window == MARK);
    let version = |(at, _): (usize, &[u8])| {
        let rest = &program[at + MARK.len()..];
        let end = rest.iter().position(|byte| !byte.is_ascii_digit() && *byte != b'.')?;
        let mut numbers = std::str::from_utf8(&rest[..end]).ok()?.split('.').map(str::parse);
        Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
    };
    starts.filter_map(version).max()
}

fn debian_architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// The size of all files below a folder, in bytes.
fn size(folder: &Path) -> Result<u64, Failure> {
    let mut sum = 0;
    for path in listed(folder)? {
        let metadata = fs::symlink_metadata(&path).map_err(|error| unreadable(&path, &error))?;
        sum += if metadata.is_dir() { size(&path)? } else { metadata.len() };
    }
    Ok(sum)
}

/// The entries of a folder, by name.
fn listed(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let entries = fs::read_dir(folder).map_err(|error| unreadable(folder, &error))?;
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    Ok(paths)
}

fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    fs::canonicalize(path).map_err(|error| unreadable(path, &error))
}

fn make_dir(folder: &Path) -> Result<(), Failure> {
    fs::create_dir_all(folder).map_err(|error| unreadable(folder, &error))
}

fn remove(folder: &Path) -> Result<(), Failure> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(unreadable(folder, &error)),
        _ => Ok(()),
    }
}

fn copy(from: &Path, to: &Path, mode: u32) -> Result<(), Failure> {
    to.parent().map_or(Ok(()), make_dir)?;
    fs::copy(from, to).map_err(|error| unreadable(from, &error))?;
    set_mode(to, mode)
}

fn write(path: &Path, text: &str, mode: u32) -> Result<(), Failure> {
    path.parent().map_or(Ok(()), make_dir)?;
    fs::write(path, text).map_err(|error| unreadable(path, &error))?;
    set_mode(path, mode)
}

fn set_mode(path: &Path, mode: u32) -> Result<(), Failure> {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(|error| unreadable(path, &error))
}

fn unreadable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::File { path: path.to_owned(), cause: error.to_string() }
}

/// A path as an argument. Paths of a checkout that are not UTF-8 reach the tools with replacements, and they say so.
fn text(path: &Path) -> &str {
    path.to_str().unwrap_or("path-that-is-not-UTF-8")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_libc_version_counts() {
        let check = |program: &[u8], expected| assert_eq!(libc_version(program), expected);
        check(b"", None);
        check(b"\0GLIBC_2.2.5\0GLIBC_2.34\0GLIBC_2.9\0", Some((2, 34)));
        check(b"GLIBC_PRIVATE\0", None);
    }

    #[test]
    fn the_scripts_of_the_package_are_shell() {
        for script in [POSTINST, POSTRM] {
            assert!(Step::new("sh", &["-n", "-c", script]).succeeds(), "{script}");
        }
        // In the tree, in the script and in the server's default it is one path.
        assert!(POSTINST.contains(&format!("launcher=/{LAUNCHER}\n")));
    }

    #[test]
    fn the_size_of_a_folder_is_that_of_all_files_in_it() {
        let folder = std::env::temp_dir().join(format!("xtask-dist-{}", std::process::id()));
        write(&folder.join("a/b"), "12345", 0o644).unwrap();
        write(&folder.join("c"), "1", 0o600).unwrap();
        assert_eq!(size(&folder).unwrap(), 6);
        remove(&folder).unwrap();
        assert!(size(&folder).is_err());
    }
}
