//! Errors of verbs without a federation, or if no daemon answers: a message, a hint, an exit code.
#![allow(clippy::unwrap_used, reason = "a failed call fails the test that made it")]

mod support;

use std::fs;
use std::net::TcpListener;
use std::path::Path;

use support::{Said, call, pliant, refused, run};

/// One call of every verb.
const VERBS: [&str; 11] = [
    "submit pi samples=10",
    "call succ n=1",
    "status lyon.1",
    "queue",
    "servers",
    "explain lyon.1",
    "wait lyon.1",
    "cancel lyon.1",
    "resubmit lyon.1",
    "fetch lyon.1 --out out",
    "logs lyon.1",
];

/// Runs the command for a user whose home is `dir`; `config` is what PLIANT_CONFIG says.
fn go(dir: &Path, arguments: &str, config: Option<&str>) -> Said {
    let mut command = pliant(&arguments.split_whitespace().collect::<Vec<_>>(), dir);
    command.env("HOME", dir).env_remove("XDG_CONFIG_HOME").env_remove("XDG_STATE_HOME");
    match config {
        Some(config) => command.env("PLIANT_CONFIG", config),
        None => command.env_remove("PLIANT_CONFIG"),
    };
    Said::of(command.output().unwrap())
}

#[test]
fn no_federation_is_known() {
    let dir = tempfile::tempdir().unwrap();
    for verb in VERBS {
        let said = go(dir.path(), verb, None);
        refused(&said, verb, 2, ".config/pliant/client.toml", "`pliant up` starts one");
        assert!(!dir.path().join("out").exists(), "{verb}: nothing is made");
    }
}

#[test]
fn the_client_file_cannot_be_used() {
    let dir = tempfile::tempdir().unwrap();
    let own = dir.path().join(".config/pliant");
    fs::create_dir_all(&own).unwrap();
    fs::write(own.join("client.toml"), "agent = 7\n").unwrap();
    fs::write(dir.path().join("none.toml"), "agent = []\n[tls]\nca = \"a\"\ncert = \"b\"\nkey = \"c\"\n")
        .unwrap();
    let check = |arguments: &str, config: Option<&str>, code: i32, error: &str, hint: &str| {
        refused(&go(dir.path(), arguments, config), arguments, code, error, hint);
    };
    check("queue", None, 2, "client.toml:1:9: `agent`: expected a list", "[[agent]]");
    check("queue", Some("variable.toml"), 1, "cannot read variable.toml", "hint: --config or PLIANT_CONFIG");
    check("queue --config given.toml", Some("variable.toml"), 1, "cannot read given.toml", "hint: --config");
    check("queue --config none.toml", None, 2, "expected at least one [[agent]]", "");
}

/// A user's certificate and a client file of an agent that does not exist.
fn client_without_an_agent(dir: &Path) {
    let done = |arguments: &str| {
        let said = call(dir, arguments);
        assert_eq!(said.code, 0, "{arguments}: {}", said.stderr);
    };
    done("ca init authority");
    done("ca issue --ca authority user alice --out alice");
    // A port without a listener.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let file = format!(
        "[[agent]]\nname = \"master\"\naddress = \"127.0.0.1:{port}\"\n\n\
         [tls]\nca = \"ca.pem\"\ncert = \"cert.pem\"\nkey = \"key.pem\"\n"
    );
    fs::write(dir.join("alice/client.toml"), file).unwrap();
}

#[test]
fn an_unreachable_agent_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    client_without_an_agent(dir.path());
    for verb in VERBS {
        // `wait` waits without a limit, `submit` until its timeout.
        let verb = match verb {
            verb if verb.starts_with("wait") => format!("{verb} --timeout 1s"),
            verb if verb.starts_with("submit") => format!("{verb} --server-timeout 1s"),
            verb => verb.to_owned(),
        };
        let said = go(dir.path(), &format!("{verb} --config alice/client.toml"), None);
        assert_ne!(said.code, 0, "{verb}");
        if verb.starts_with("wait") {
            assert_eq!(said.code, 4, "{}", said.stderr);
            assert!(said.stderr.contains("lyon.1 had not ended when time was up"), "{}", said.stderr);
            assert_eq!(said.stdout, "", "no header above nothing");
            continue;
        }
        let error = "cannot connect to agent/master at 127.0.0.1:";
        refused(&said, &verb, 1, error, "hint: check the address, and that the daemon runs");
    }
}

#[test]
fn names_with_invisible_characters_are_refused_before_a_call() {
    let dir = tempfile::tempdir().unwrap();
    client_without_an_agent(dir.path());
    let config = dir.path().join("alice/client.toml");
    for (words, error) in [
        (&["submit", "pi\nsamples"][..], "expected the name of a service, found `pi\\nsamples`"),
        (&["submit", "--script", "a\nb", "--time", "1m"], "--script: "),
        (&["submit", "--script", "a\u{1b}[2J", "--time", "1m"], "--script: "),
    ] {
        let said = run(&[words, &["--config", config.to_str().unwrap()]].concat(), dir.path());
        refused(&said, &words.join(" "), 2, error, "hint: ");
        assert!(!said.stderr.contains('\u{1b}'), "nothing of it reaches the terminal");
    }
}

#[test]
fn an_error_of_a_damaged_register_names_the_line() {
    let dir = tempfile::tempdir().unwrap();
    client_without_an_agent(dir.path());
    fs::write(dir.path().join("authority/register.toml"), "federation = 1\n").unwrap();
    let said = go(dir.path(), "ca list --ca authority", None);
    refused(&said, "ca list", 2, "authority/register.toml:1:14: expected the register", "from a backup");
    assert_eq!(said.stderr.lines().count(), 2, "{}", said.stderr);
}

#[test]
fn wrong_words_are_refused_before_anybody_is_asked() {
    let dir = tempfile::tempdir().unwrap();
    client_without_an_agent(dir.path());
    for name in ["a", "a.sh", "b;c"] {
        fs::write(dir.path().join(name), "").unwrap();
    }
    let check = |arguments: &str, code: i32, error: &str, hint: &str| {
        let said = go(dir.path(), &format!("{arguments} --config alice/client.toml"), None);
        refused(&said, arguments, code, error, hint);
    };
    check("status lyon", 2, "expected a job ID like `lyon.17`, found `lyon`", "");
    check("submit pi samples", 2, "expected KEY=VALUE", "");
    check("submit job.sh", 2, "expected the name of a service, found `job.sh`", "pliant servers --services");
    check(
        "submit a.sh",
        2,
        "found `a.sh`",
        "it is a file: `pliant submit --script a.sh --time TIME` runs it",
    );
    check("submit --script b;c --time 1m", 2, "b;c:1: expected a first line", "#!/bin/sh");
    check("submit pi a=1 a=2", 2, "a: expected one value, found `1` and `2`", "");
    check("submit pi --in a --in a", 2, "found `a` twice", "give each input a name of its own");
    check("submit pi --in none", 1, "none: cannot read", "");
    check("submit pi --in .", 2, "expected a file", "");
    check("submit pi --in b=.", 2, "expected a file, found something else", "archive");
    check("submit pi --out a", 2, "expected a folder, found the file a", "");
    check("submit --script a --time 1m --speedup rigid:0", 2, "at least 1 processor, found `rigid:0`", "");
    check("submit --script a --time 1m --speedup table:2=9,1=9", 2, "found `table:2=9,1=9`", "");
    check("submit --script a --time 1m", 2, "a:1: expected a first line", "#!/bin/sh");
    check("fetch lyon.1 --out a", 2, "expected a folder, found the file a", "");
    check("logs lyon.1 -f --format json", 2, "expected --follow or --format json, found both", "");
    check("wait lyon.1 --timeout 90", 2, "with its unit, such as 90s, 15m or 2h, found `90`", "");
    check("queue --state done", 2, "COMPLETED", "");
}
