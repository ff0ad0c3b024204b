//! Compiles the variadic functions, which stable Rust cannot define, and names the shared library.

fn main() {
    println!("cargo:rerun-if-changed=c/variadic.c");
    println!("cargo:rerun-if-changed=include/grpc.h");
    cc::Build::new()
        .file("c/variadic.c")
        .include("include")
        .warnings(true)
        .compile("pliant_gridrpc_variadic");
    // A later version with another interface can be installed next to this one.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libpliant_gridrpc.so.0");
}
