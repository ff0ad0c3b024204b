//! Where jobs of accounts run and where their folders are: in folders of their users, and on another file system than the journal.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};

use pliant_control::job::{Exit, JobState};
use serde_json::json;

use super::site::{ALICE, BOB, LYON, Mounted, Site, base, spool, uid};
use super::works::files_of;
use crate::harness::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_script_runs_in_its_users_folder_as_the_user() {
    let Some(site) = Site::new() else { return };
    let home = base("home");
    let federation =
        site.federation(&site.cluster(&format!("\n[shared]\n\"{}\" = \"home\"\n", home.display()))).await;
    let user = CommandUser::new(&federation, ALICE);
    user.add_to_file(&format!("\n[shared]\n\"{}\" = \"home\"\n", home.display()));
    let folder = |name: &str, owner: &str| {
        let folder = home.join(owner).join(name);
        fs::create_dir(&folder).unwrap();
        chown(&folder, Some(uid(owner)), Some(uid(owner))).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
        folder
    };
    let (own, other) = (folder("run", ALICE), folder("run", BOB));
    fs::write(user.dir().join("job.sh"), "#!/bin/sh\nid -un > who; pwd -P; echo $HOME; echo $0\n").unwrap();
    let line = |dir: &std::path::Path| format!("submit ./job.sh --time 1m --wait --chdir {}", dir.display());
    let (code, job, error) = user.run(&line(&own));
    assert_eq!((code, &job["server"]), (0, &json!(LYON)), "{error} {job}");
    assert_eq!(fs::read_to_string(own.join("who")).unwrap(), format!("{ALICE}\n"));
    assert_eq!(fs::metadata(own.join("who")).unwrap().uid(), uid(ALICE));
    let id = job["job_id"].as_str().unwrap();
    let (code, _, error) = user.run(&format!("fetch {id} --out results"));
    assert_eq!(code, 0, "{error}");
    let said = fs::read_to_string(user.dir().join("results/stdout")).unwrap();
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines[..2], [own.to_str().unwrap(), home.join(ALICE).to_str().unwrap()], "{said}");
    assert!(lines[2].ends_with("_job_1/script") || lines[2].ends_with("/script"), "{said}");
    // What alice cannot enter is no place for her job.
    let (code, job, error) = user.run(&line(&other));
    assert_eq!((code, &job["exit"]["how"]), (3, &json!("not-started")), "{error}");
    assert!(job["exit"]["why"].as_str().unwrap().contains("denied"), "{job}");
    assert_eq!(fs::read_dir(&other).unwrap().count(), 0);
    let (code, job, _) = user.run(&line(&home.join(ALICE).join("none")));
    assert!(code != 0 && job["exit"]["how"] != json!("exit-code"), "{job}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_folders_of_accounts_are_on_another_file_system_than_the_journal() {
    let Some(site) = Site::new() else { return };
    let Some(_mounted) = Mounted::new(&spool(), site.server().uid, 0o711) else { return };
    let mut federation = site.federation(&site.cluster("")).await;
    let state = federation.folder(LYON).join("state");
    assert_ne!(fs::metadata(&state).unwrap().dev(), fs::metadata(spool()).unwrap().dev());
    let alice = federation.client(ALICE);
    let (data, gate) = (federation.path().join("data"), federation.path().join("gate"));
    fs::write(&data, vec![7_u8; 1 << 20]).unwrap();
    let text = format!("cp data.bin copy.bin; {}; wc -c < copy.bin", waiting_for(&gate));
    let mut asked = order(rigid(&text, 1, 600));
    asked.inputs.push(input("data.bin", &data));
    let job = submit(&alice, &asked).await;
    federation.reaches(&alice, &job.handle, JobState::Active).await;
    federation.kill(LYON);
    federation.revive(LYON);
    fs::write(&gate, "").unwrap();
    let ended = alice.wait(&job.handle, |_| {}).await.unwrap();
    assert_eq!(ended.exit, Some(Exit::Code(0)), "{ended:?}");
    let found = fetched(&alice, &job.handle).await;
    assert_eq!(found["stdout"], b"1048576\n");
    assert_eq!(found["work/copy.bin"].len(), 1 << 20);
    assert!(files_of(&job.handle).join("work/copy.bin").exists());
}
