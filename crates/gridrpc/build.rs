//! Compiles the variadic functions, which stable Rust cannot define, and names the shared library.

fn main() {
    println!("cargo:rerun-if-changed=c/variadic.c");
    println!("cargo:rerun-if-changed=include/grpc.h");
    cc::Build::new()
        .file("c/variadic.c")
        .include("include")
        .warnings(true)
        .compile("pliant_gridrpc_variadic");
    // Programs record this name, which changes with the binary interface.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libpliant_gridrpc.so.0");
    // Threads of the library may run until the process ends, also after `dlclose`.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
