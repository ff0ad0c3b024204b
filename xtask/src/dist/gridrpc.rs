//! The Debian packages of the C library of GridRPC: one for programs that use it, one to compile them.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::{
    VERSION, build_command, copy, copyright, debian_architecture, libc_version, listed, make_dir, size,
    strip, text, unreadable, write,
};
use crate::step::{Failure, Step, workspace_root};

/// The name of the shared library in programs (build.rs of the crate).
const SHARED: &str = "libpliant_gridrpc.so.0";

/// Writes the packages of the library into `out`; their names. The library is the one that a build of tests left with the program
/// `binary`, or else an optimised one, which is built first.
pub(super) fn packages(
    tree: &Path,
    binary: Option<&Path>,
    glibc: Option<&str>,
    out: &Path,
) -> Result<[String; 2], Failure> {
    let of_tests = binary.and_then(Path::parent).map(|folder| folder.join("deps"));
    let built = match of_tests.filter(|folder| folder.join("libpliant_gridrpc.so").exists()) {
        Some(folder) => folder,
        None => build(glibc)?,
    };
    let library = built.join("libpliant_gridrpc.so");
    let libc = libc_version(&fs::read(&library).map_err(|error| unreadable(&library, &error))?);
    let libc = libc.map_or_else(String::new, |(major, minor)| format!("libc6 (>= {major}.{minor})"));

    let root = tree.join("libpliant-gridrpc");
    let folder = format!("usr/lib/{}-linux-gnu", std::env::consts::ARCH);
    let to = root.join(&folder).join(SHARED);
    copy(&library, &to, 0o644)?;
    strip(&to);
    let summary = "GridRPC (OGF GFD.52) for federations of clusters: shared library\n \
                   Programs call functions of a federation through the standard C interface.\n";
    let program = package(
        &root,
        out,
        &Package { name: "libpliant-gridrpc", section: "libs", depends: &libc, summary },
    )?;

    let root = tree.join("libpliant-gridrpc-dev");
    development_files(&root, &built, &folder)?;
    let depends = format!("libpliant-gridrpc (= {VERSION})");
    let summary = "GridRPC (OGF GFD.52) for federations of clusters: development files\n \
                   The header grpc.h, the library for static linking, the file for pkg-config and examples.\n";
    let development = package(
        &root,
        out,
        &Package { name: "libpliant-gridrpc-dev", section: "libdevel", depends: &depends, summary },
    )?;
    Ok([program, development])
}

/// Builds the library; the folder with it.
fn build(glibc: Option<&str>) -> Result<PathBuf, Failure> {
    // It unwinds: a panic must become a code.
    let (command, built) = build_command("gridrpc", "gridrpc", glibc)?;
    let command: Vec<&str> = command.iter().map(String::as_str).collect();
    Step::cargo(&[&command[..], &["pliant-gridrpc"]].concat()).run()?;
    Ok(built)
}

/// What programs are compiled with.
fn development_files(root: &Path, built: &Path, folder: &str) -> Result<(), Failure> {
    let source = workspace_root().join("crates/gridrpc");
    for header in ["grpc.h", "diet/DIET_client.h", "diet/DIET_grpc.h"] {
        copy(&source.join("include").join(header), &root.join("usr/include/pliant").join(header), 0o644)?;
    }
    let libraries = root.join(folder);
    copy(&built.join("libpliant_gridrpc.a"), &libraries.join("libpliant_gridrpc.a"), 0o644)?;
    let archive = libraries.join("libpliant_gridrpc.a");
    if !Step::new("strip", &["--strip-debug", text(&archive)]).succeeds() {
        eprintln!("xtask: {} keeps its debug information (no strip)", archive.display());
    }
    let link = libraries.join("libpliant_gridrpc.so");
    symlink(SHARED, &link).map_err(|error| unreadable(&link, &error))?;
    let template = source.join("pliant-gridrpc.pc.in");
    let template = fs::read_to_string(&template).map_err(|error| unreadable(&template, &error))?;
    write(
        &libraries.join("pkgconfig/pliant-gridrpc.pc"),
        &pkg_config(&template, "/usr", &format!("/{folder}")),
        0o644,
    )?;
    for example in listed(&workspace_root().join("examples/gridrpc"))? {
        let name = example.file_name().unwrap_or_default().to_owned();
        copy(&example, &root.join("usr/share/doc/libpliant-gridrpc-dev/examples").join(name), 0o644)?;
    }
    Ok(())
}

/// The file for pkg-config.
fn pkg_config(template: &str, prefix: &str, libraries: &str) -> String {
    template.replace("@prefix@", prefix).replace("@libdir@", libraries).replace("@version@", VERSION)
}

/// What the control file of a package says.
struct Package<'a> {
    name: &'a str,
    section: &'a str,
    depends: &'a str,
    summary: &'a str,
}

/// Writes a package of the files below `root`; its name.
fn package(root: &Path, out: &Path, package: &Package<'_>) -> Result<String, Failure> {
    let Package { name, section, depends, summary } = package;
    write(&root.join("usr/share/doc").join(name).join("copyright"), &copyright()?, 0o644)?;
    let installed_kib = size(root)?.div_ceil(1_024);
    let architecture = debian_architecture();
    let depends = if depends.is_empty() { String::new() } else { format!("Depends: {depends}\n") };
    let control = format!(
        "Package: {name}\nVersion: {VERSION}\nArchitecture: {architecture}\nMulti-Arch: same\n\
         Maintainer: The Pliant authors <pliant@localhost>\nInstalled-Size: {installed_kib}\n{depends}\
         Section: {section}\nPriority: optional\nDescription: {summary}"
    );
    write(&root.join("DEBIAN/control"), &control, 0o644)?;
    if *section == "libs" {
        // Without it the dynamic linker does not find a new library.
        write(&root.join("DEBIAN/triggers"), "activate-noawait ldconfig\n", 0o644)?;
    }
    make_dir(out)?;
    let file = format!("{name}_{VERSION}_{architecture}.deb");
    Step::new("dpkg-deb", &["--root-owner-group", "--build", text(root), text(&out.join(&file))]).run()?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_for_pkg_config_names_the_folders_of_the_package() {
        let template =
            fs::read_to_string(workspace_root().join("crates/gridrpc/pliant-gridrpc.pc.in")).unwrap();
        let text = pkg_config(&template, "/usr", "/usr/lib/x86_64-linux-gnu");
        assert!(!text.contains('@'), "{text}");
        for line in ["prefix=/usr", "libdir=/usr/lib/x86_64-linux-gnu", &format!("Version: {VERSION}")] {
            assert!(text.lines().any(|found| found == line), "{line}: {text}");
        }
    }

    #[test]
    fn the_shared_library_has_the_name_that_its_build_gives_it() {
        let build = fs::read_to_string(workspace_root().join("crates/gridrpc/build.rs")).unwrap();
        assert!(build.contains(&format!("-soname,{SHARED}\"")), "{build}");
    }
}
