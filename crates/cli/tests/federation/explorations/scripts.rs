//! Explorations of scripts: the script is sent once, and requests find their parameters.

use std::fs;

use super::server;
use crate::harness::{Cluster, CommandUser, Federation, until};

#[tokio::test(flavor = "multi_thread")]
async fn requests_run_a_script_with_their_parameters() {
    let mut closed = server("nancy", "cores = 2");
    closed.keys = "scripts = false\n";
    let mut federation = Federation::start(&[server("lyon", "cores = 2"), closed]).await;
    let alice = CommandUser::new(&federation, "alice");
    let gate = federation.path().join("gate");
    let script = |word: &str| {
        let gate = gate.display();
        format!(
            "#!/bin/sh\n#SBATCH --time=2 -n1\nuntil [ -e {gate} ]; do sleep 0.05; done\n\
             echo \"{word} $1 $PLIANT_ARG_x $PLIANT_NUMBER $UNIT $(ls)\"\n"
        )
    };
    fs::write(alice.dir().join("look.sh"), script("old")).unwrap();
    fs::write(alice.dir().join("data"), "").unwrap();
    let line = "explore --script look.sh --vary x=5..8 --min 2 --deadline 60s --in data --env UNIT=m --out kept -- -{x}";
    let client = alice.begin(line);
    let running = async || {
        let (_, users, _) = alice.run("users");
        (users["users"][0]["requests"].as_u64()? >= 2).then_some(())
    };
    until("requests at the server", running).await;
    // A server that was killed has the script still.
    federation.kill("lyon");
    federation.revive("lyon");
    fs::write(&gate, "").unwrap();
    let output = client.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for (number, x) in (5..=8).enumerate() {
        let result = fs::read_to_string(alice.dir().join(format!("kept/out/{number}"))).unwrap();
        assert_eq!(result, format!("old -{x} {x} {number} m data\n"));
    }
    let optional = federation.folder("lyon").join("state/optional");
    let mut journaled = 0;
    let mut folders = vec![optional];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            match entry.file_type().unwrap().is_dir() {
                true => folders.push(entry.path()),
                false => {
                    let bytes = fs::read(entry.path()).unwrap();
                    let text = String::from_utf8_lossy(&bytes);
                    journaled += text.matches("until [ -e").count();
                }
            }
        }
    }
    assert_eq!(journaled, 0, "no request has the text of the script");

    // An exploration is one of its script as it was.
    fs::write(alice.dir().join("look.sh"), script("new")).unwrap();
    let (code, _, stderr) = alice.run(line);
    assert!(code == 2 && stderr.contains("script: expected look.sh (SHA-256"), "{code}: {stderr}");
    for (words, expected) in [
        ("--script look.sh --vary x=1,2 -- {y}", "found `{y}`"),
        ("--script look.sh --vary x=1,2 --time 1h --rigid 2", "unexpected argument '--rigid'"),
        ("say text=a --max 2 --env A=1", "expected --env with a script, found it with the service `say`"),
    ] {
        let (words, arguments) = words.split_once(" -- ").unwrap_or((words, ""));
        let (code, _, stderr) =
            alice.run(&format!("explore {words} --min 1 --deadline 10s --out none -- {arguments}"));
        assert!(code == 2 && stderr.contains(expected), "{words}: {code}: {stderr}");
    }
    fs::write(alice.dir().join("wide.sh"), "#!/bin/sh\n#SBATCH --time=2 -n4\n").unwrap();
    let (code, _, stderr) = alice.run("explore ./wide.sh --max 2 --deadline 10s --out none");
    assert!(
        code == 2 && stderr.contains("./wide.sh:2: #SBATCH -n: expected options that `pliant explore` has"),
        "{stderr}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_that_run_no_scripts_get_no_requests_of_them() {
    let mut closed = server("nancy", "cores = 2");
    closed.keys = "scripts = false\n";
    let federation = Federation::start(&[closed, Cluster::new("lyon", 1, 1.0)]).await;
    let alice = CommandUser::new(&federation, "alice");
    fs::write(alice.dir().join("look.sh"), "#!/bin/sh\n#PLIANT --time 1m\n").unwrap();
    let (code, _, stderr) = alice.run("explore ./look.sh --max 2 --deadline 5s --out kept");
    assert!(code == 2 && stderr.contains("no server that runs scripts has cores for"), "{code}: {stderr}");
}
