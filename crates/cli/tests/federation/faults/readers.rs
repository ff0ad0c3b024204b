//! Readers of results: one who stops reading, and one who asks while they are being summed up.

use std::fs;

use pliant_control::job::JobState;
use pliant_staging::{self as staging, FileSpec, ResultName};
use pliant_transport::Role;
use pliant_wire::proto::DownloadRequest;
use pliant_wire::{Download, RESULTS_PENDING, job_request};
use tonic::Code;

use crate::harness::*;

/// More than fits into what is on the way to a reader.
const LARGE: usize = 24 << 20;

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_stops_reading_is_disconnected_and_resumes_later() {
    let limits = format!("[limits]\nopen_requests = 2\n{SERVICES}");
    let federation = Federation::start(&[Cluster { tables: limits, ..Cluster::new("lyon", 1, 1.0) }]).await;
    let alice = federation.client("alice");
    let text = "i=0; while [ $i -lt 24 ]; do head -c 1048576 /dev/zero | tr '\\0' $((i % 7)); i=$((i+1)); done > large";
    let ended = run(&alice, &order(rigid(text, 1, 600))).await;
    assert_eq!(ended.state, JobState::Completed);
    let large = ResultName::File("large".parse().unwrap());
    let files = alice.results(&ended.handle).await.unwrap().files;
    let file = files.into_iter().find(|file| file.name == large).unwrap();
    assert_eq!(file.size, LARGE as u64);

    // Two readers take a piece each and then no more: as many as may be open.
    let wanted = Download { handle: ended.handle.clone(), name: large, offset: 0, follow: false, run: None };
    let mut readers = Vec::new();
    for _ in 0..2 {
        let mut server = federation.server_client(Role::User, "alice", "lyon");
        let mut pieces = server.download(DownloadRequest::from(&wanted)).await.unwrap().into_inner();
        let first = pieces.message().await.unwrap().unwrap().data;
        readers.push((server, pieces, first));
    }
    let full = federation.server_client(Role::User, "alice", "lyon").job(job_request(&ended.handle)).await;
    assert_eq!(full.unwrap_err().code(), Code::ResourceExhausted);
    // Other clients do not wait.
    let bob = federation.client("bob");
    let other = run(&bob, &order(rigid("head -c 3000000 /dev/zero > zeros", 1, 60))).await;
    assert_eq!(fetched(&bob, &other.handle).await["work/zeros"], vec![0; 3_000_000]);

    // The server takes a minute until it gives them up.
    tokio::time::sleep(TIMEOUT).await;
    let cut = || federation.log("lyon").matches("download cut off: nothing was read for a minute").count();
    until("both readers to be given up", async || (cut() == 2).then_some(())).await;
    alice.job(&ended.handle).await.unwrap();
    let folder = federation.path().join("fetched");
    let name = "work/large".parse().unwrap();
    let spec = FileSpec { name, size: file.size, sha256: file.sha256 };
    let mut download = staging::Download::begin(&folder, spec.clone()).unwrap();
    let mut offset = 0;
    let (_server, mut pieces, first) = readers.swap_remove(0);
    let mut next = Ok(Some(first));
    // What was on the way comes, and then why there is no more.
    let status = loop {
        match next {
            Ok(Some(data)) => offset = download.append(offset, &data).unwrap(),
            Ok(None) => panic!("the end of {offset} bytes looks like that of the file"),
            Err(status) => break status,
        }
        next = pieces.message().await.map(|piece| piece.map(|piece| piece.data));
    };
    assert_eq!(status.code(), Code::DeadlineExceeded, "{status:?}");
    assert!(status.message().contains("nothing was read for a minute"), "{status:?}");
    assert!(0 < offset && offset < file.size, "{offset}");
    drop(download);
    alice.fetch(&ended.handle, &file, &folder).await.unwrap();
    let got = fs::read(folder.join("work/large")).unwrap();
    assert!(
        got.chunks(1 << 20)
            .enumerate()
            .all(|(at, part)| part.iter().all(|byte| *byte == b'0' + (at % 7) as u8))
    );
    assert_eq!(got.len(), LARGE);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_gets_results_that_are_being_listed_later() {
    let mut federation = Federation::start(&[Cluster::new("lyon", 1, 1.0)]).await;
    let alice = federation.client("alice");
    // A hole takes no space on the disk, and takes longer to read than a call waits.
    let text = "echo small > small; truncate -s 60G huge; echo said";
    let ended = run(&alice, &order(rigid(text, 1, 600))).await;
    assert_eq!(ended.state, JobState::Completed, "{ended:?}");
    let folder = federation.job_folder(&ended.handle);
    let mut server = federation.server_client(Role::User, "alice", "lyon");
    let mut beside = federation.server_client(Role::User, "alice", "lyon");
    let (first, second) =
        tokio::join!(server.results(job_request(&ended.handle)), beside.results(job_request(&ended.handle)));
    for result in [first, second] {
        let status = result.unwrap_err();
        assert_eq!(status.code(), Code::Unavailable, "{status:?}");
        assert!(status.message().contains("being summed up; ask again"), "{status:?}");
        assert!(status.metadata().contains_key(RESULTS_PENDING), "{status:?}");
    }
    // Meanwhile others get theirs.
    let bob = federation.client("bob");
    let other = run(&bob, &order(rigid("echo mine", 1, 60))).await;
    assert_eq!(fetched(&bob, &other.handle).await["stdout"], b"mine\n");
    assert!(!folder.join("results.json").exists(), "it has not ended");

    // Who asks goes on asking over a crash in the middle of it; the rest is not worth the time of a test.
    federation.kill("lyon");
    fs::File::options().write(true).open(folder.join("work/huge")).unwrap().set_len(3).unwrap();
    federation.revive("lyon");
    federation.attached(1).await;
    let found = fetched(&alice, &ended.handle).await;
    assert_eq!(found["stdout"], b"said\n");
    assert_eq!((&found["work/small"][..], &found["work/huge"][..]), (&b"small\n"[..], &[0; 3][..]));
}
