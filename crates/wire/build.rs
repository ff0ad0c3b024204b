//! Compiles the protocol: `protox` instead of `protoc`, so that a C++ tool is not needed to build.

#![allow(clippy::disallowed_macros, reason = "a build script prints for cargo")]

fn main() -> Result<(), Box<dyn std::error::Error>> {
    const FILES: &[&str] = &[
        "pliant/v1/agent.proto",
        "pliant/v1/server.proto",
        "pliant/v1/launch.proto",
        "pliant/v1/link.proto",
    ];
    println!("cargo::rerun-if-changed=../../proto");
    let descriptors = protox::compile(FILES, ["../../proto"])?;
    tonic_prost_build::configure()
        .btree_map(".")
        .codec_path("crate::codec::Codec")
        .compile_fds(descriptors)?;
    Ok(())
}
