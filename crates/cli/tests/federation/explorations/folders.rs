//! The folders of requests do not pile up at a server while an exploration goes on.

use std::fs;
use std::path::Path;

use crate::harness::{CommandUser, Federation, until};

use super::server;

/// The bytes of all files below a folder, as far as they can be seen; files and folders that go away meanwhile count as nothing.
fn bytes_below(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let bytes = |entry: fs::DirEntry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => bytes_below(&entry.path()),
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    };
    entries.flatten().map(bytes).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_ended_requests_have_written_besides_their_output_is_gone_at_once() {
    // Each request writes a file of 4 MB, which is not part of its result, and a line of output.
    let service = r#"
[[service]]
name = "fill"
summary = "writes a file"
command = ["/bin/sh", "-c", "head -c 4000000 /dev/zero > left; echo {number}"]
speedup = "rigid:1"
runtime = "1s"

[service.arguments.number]
type = "integer"
min = 1
max = 1000
"#;
    let mut lyon = server("lyon", "cores = 2");
    lyon.tables.push_str(service);
    let federation = Federation::start(&[lyon]).await;
    let alice = CommandUser::new(&federation, "alice");
    let requests = federation.folder("lyon").join("state/requests");
    let mut exploring = alice.begin("explore fill --vary number=1..60 --min 60 --deadline 10m --out kept");
    let mut most = 0;
    let ended = until("the exploration to end", async || {
        most = most.max(bytes_below(&requests));
        exploring.try_wait().unwrap()
    })
    .await;
    assert!(ended.success());
    // 60 of them wrote 240 MB: what is there at once is of the two that run, and of some that are being removed.
    println!("at most {most} bytes at once, of 240000000");
    assert!(most > 0 && most < 40_000_000, "{most} bytes at once");
    let left = until("only outputs to be left", async || {
        Some(bytes_below(&requests)).filter(|bytes| *bytes < 1_000_000)
    });
    left.await;
}
