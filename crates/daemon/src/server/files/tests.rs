use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::time::SystemTime;

use pliant_model::Time;
use pliant_site::accounts::AccountRun;
use pliant_site::processes::RunSpec;
use pliant_transport::{Authority, CertificateRequest, Identity, Peer, Role, Serial, ServerTls};
use tempfile::TempDir;

use super::*;

/// Threads for what blocks; the runtime of a server has 512.
const THREADS: usize = 16;
/// Less than a piece may take, so that a thread that waits for one is noticed.
const HANGS: Duration = Duration::from_secs(40);

/// The records of jobs of accounts.
struct Jobs {
    dir: TempDir,
    tls: Arc<ServerTls>,
}

impl Jobs {
    fn new() -> Jobs {
        let dir = tempfile::tempdir().unwrap();
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        let now = Time(i64::try_from(now.as_secs()).unwrap());
        let authority = Authority::init(&dir.path().join("ca"), "test", now).unwrap();
        let request = CertificateRequest::new(Identity::new(Role::Server, "lyon").unwrap());
        let (_, credentials) = authority.issue_into(&dir.path().join("lyon"), &request, now).unwrap();
        Jobs { tls: Arc::new(ServerTls::load(&credentials).unwrap()), dir }
    }

    /// A job of an account. What reads its files as the account answers that they follow, and does that.
    fn add(&self, account: &str, does: &str) {
        let records = self.dir.path().join(account);
        fs::create_dir(&records).unwrap();
        let launcher = records.join("launcher");
        let script = "case \"$(tr '\\0' ' ')\" in *signal*) exit;; esac\necho '\"content\"'";
        fs::write(&launcher, format!("#!/bin/sh\n{script}\n{does}\n")).unwrap();
        fs::set_permissions(&launcher, fs::Permissions::from_mode(0o755)).unwrap();
        let run = AccountRun {
            name: account.parse().unwrap(),
            folder: records.join("files"),
            launcher,
            pliant: "/pliant".into(),
            processes_max: None,
            has_records: false,
            guard: None,
        };
        fs::create_dir(&run.folder).unwrap();
        let spec = serde_json::json!({
            "program": ["true"], "account": run, "env": {}, "walltime_s": 1, "grace_s": 1, "max_output_bytes": 1,
        });
        serde_json::from_value::<RunSpec>(spec.clone()).unwrap();
        fs::write(records.join("spec.json"), spec.to_string()).unwrap();
    }

    fn download(&self, account: &str) -> DownloadStream {
        let peer = Peer {
            role: Role::User,
            name: account.to_owned(),
            serial: Serial::from_bytes(&[7]),
            not_after: Time(i64::MAX),
        };
        let open = OpenCall { pass: None, tls: self.tls.clone(), peer };
        let name = ResultName::Stdout;
        let wanted = Wanted { of: account.to_owned(), task: None, name, offset: 0, follow: false };
        download(self.dir.path().join(account), wanted, open, || async { Ok(true) })
    }
}

#[test]
fn downloads_that_do_not_go_on_keep_no_threads() {
    let jobs = Jobs::new();
    // Until the test ends.
    let silent = format!("while [ -e '{}' ]; do sleep 0.1; done", jobs.dir.path().display());
    for (account, does) in
        [("alice", silent.as_str()), ("bob", &silent), ("carol", "exec yes"), ("dave", "echo hello")]
    {
        jobs.add(account, does);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(THREADS)
        .enable_all()
        .build()
        .unwrap();
    let of = |account: &'static str| (0..200).map(|_| jobs.download(account)).collect::<Vec<_>>();
    let hello_is_read = async {
        let _unread = ["alice", "bob", "carol"].map(of);
        for _ in 0..20 {
            let mut found = Vec::new();
            let mut pieces = jobs.download("dave");
            while let Some(piece) = pieces.next().await {
                found.extend(piece.unwrap().data);
            }
            assert_eq!(found, b"hello\n");
        }
        tokio::task::spawn_blocking(|| ()).await.unwrap();
    };
    let others = runtime.block_on(async { timeout(HANGS, hello_is_read).await });
    runtime.shutdown_background();
    others.expect("threads for others");
}
