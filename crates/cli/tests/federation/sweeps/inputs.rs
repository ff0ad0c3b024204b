//! Input files of sweeps: sent to each server once, and found by every instance.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::CommandUser;
use crate::harness::{Cluster, Federation, SERVICES};

const LOOK_UP: &str = r#"
[[service]]
name = "look-up"
command = ["/bin/sh", "-c", "echo $(sed -n $1p $2) $(cat in/unit); echo $1 > left.txt", "look-up", "{line}", "{table}"]
speedup = "rigid:1"
runtime = "2s"

[service.arguments.line]
type = "integer"

[service.arguments.table]
type = "file"
"#;

#[tokio::test(flavor = "multi_thread")]
async fn every_instance_finds_the_inputs_that_each_server_got_once() {
    let tables = SERVICES.to_owned() + LOOK_UP;
    let clusters =
        ["lyon", "nancy"].map(|name| Cluster { tables: tables.clone(), ..Cluster::new(name, 2, 1.0) });
    let federation = Federation::start(&clusters).await;
    let alice = CommandUser::new(&federation, "alice");
    let squares: String = (1..=60).map(|number| format!("{}\n", number * number)).collect();
    fs::write(alice.dir().join("squares"), &squares).unwrap();
    fs::write(alice.dir().join("metres"), "m2").unwrap();
    let line = "sweep look-up table=squares --vary line=1..60 --in squares --in in/unit=metres --out kept";
    let (code, said, stderr) = alice.run(line);
    assert_eq!((code, &said["completed"]), (0, &60.into()), "{stderr}");
    let mut batches: BTreeMap<String, String> = BTreeMap::new();
    for row in alice.rows("kept") {
        let number: u32 = row["line"].parse().unwrap();
        assert_eq!(row["output"], format!("\"{} m2", number * number), "{row:?}");
        batches.insert(row["server"].clone(), row["job"].clone());
    }
    assert_eq!(batches.len(), 2, "both have run some");

    let client = federation.client("alice");
    for (server, batch) in batches {
        let state = federation.folder(&server).join("state");
        let inside = |folder: &Path| -> Vec<PathBuf> {
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
        };
        let keys = inside(&state.join("staging/incoming/alice"));
        assert_eq!(keys.len(), 1, "one upload for all batches: {keys:?}");
        let mut files = inside(&keys[0]);
        files.retain(|path| path.extension().is_some_and(|kind| kind == "done"));
        assert_eq!(files.len(), 2);
        // Each batch has a link, and instances have left none.
        let links = inside(&state.join("jobs")).len() as u64 + 1;
        for file in files {
            let file = fs::metadata(file).unwrap();
            assert_eq!((file.nlink(), file.mode() & 0o222), (links, 0));
        }
        let left = client.results(&batch.parse().unwrap()).await.unwrap().files;
        let left: Vec<String> = left.iter().map(|file| file.name.to_string()).collect();
        assert!(left.iter().any(|name| name.ends_with("/left.txt")), "{left:?}");
        assert!(left.iter().all(|name| !name.contains("squares") && !name.contains("unit")), "{left:?}");
    }

    fs::write(alice.dir().join("metres"), "ft2").unwrap();
    for (line, words) in [
        (line, "input files: expected squares ("),
        (
            "sweep look-up table=cubes --vary line=1..3 --in squares --out none",
            "expected the input file cubes",
        ),
        ("sweep look-up table=a --vary line=1,2 --in a=squares --in a=metres --out none", "`a`"),
        ("sweep look-up table=a --vary line=1,2 --in a=. --out none", "expected a file"),
    ] {
        let (code, _, stderr) = alice.run(line);
        assert!(code == 2 && stderr.contains(words), "{line}: {code}: {stderr}");
    }
}
