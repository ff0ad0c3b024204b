//! Folders and links that change places while the launcher works.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::requests::make;
use crate::site::{BASE, Site, job, outcome, shell};

/// A shell that does something over and over as a user, until it is dropped.
struct Attacker(Child);

impl Attacker {
    fn new(user: &str, lines: &str) -> Attacker {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", user, "--regid", user, "--clear-groups", "perl", "-e"]);
        Attacker(
            command
                .arg(format!("while (1) {{ {lines} }}"))
                .current_dir(BASE)
                .stderr(Stdio::null())
                .spawn()
                .unwrap(),
        )
    }
}

impl Drop for Attacker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

const ROUNDS: usize = 150;

pub(crate) fn check(site: &Site) {
    caller_swaps_the_folder(site);
    caller_swaps_a_new_folder(site);
}

/// The caller swaps the folder of alice's job with one of bob's, and with links, while it is closed to others.
fn caller_swaps_the_folder(site: &Site) {
    let attacker = Attacker::new(
        "ptl-caller",
        "rename 'spool/of-alice', 'spool/x'; rename 'spool/of-bob', 'spool/of-alice'; rename 'spool/of-alice', 'spool/of-bob';
         symlink '../home/ptl-alice', 'spool/of-alice'; unlink 'spool/of-alice';
         symlink '../root-only', 'spool/of-alice'; unlink 'spool/of-alice'; rename 'spool/x', 'spool/of-alice';
         select undef, undef, undef, 0.0002;",
    );
    let mut codes = [0, 0];
    // Until both have happened: how often each does is a matter of the machine.
    while codes.iter().sum::<usize>() < ROUNDS || codes.contains(&0) {
        let (code, ..) = outcome(&site.ask(&make("ptl-alice", job("of-alice"))));
        codes[usize::from(code != Some(0))] += 1;
        assert!(codes.iter().sum::<usize>() < 50 * ROUNDS, "the swaps do not meet the launcher: {codes:?}");
    }
    drop(attacker);
    println!("closed {}, refused {}", codes[0], codes[1]);
    untouched();
    assert_eq!(
        shell("find spool -name keep -printf '%u\n' | sort"),
        "ptl-alice\nptl-bob\nptl-caller\nroot\n"
    );
    // The attacker has ended anywhere in its round.
    shell(
        "[ ! -L spool/of-alice ] || rm spool/of-alice; [ -e spool/of-bob ] || mv -T spool/of-alice spool/of-bob
         [ ! -e spool/x ] || mv -T spool/x spool/of-alice",
    );
}

/// The caller swaps a folder as soon as it is there. Nothing of bob's or of root's is alice's in the end.
fn caller_swaps_a_new_folder(site: &Site) {
    let attacker = Attacker::new(
        "ptl-caller",
        "rename 'spool/of-bob', 'spool/new' if rename 'spool/new', 'spool/new.' . $i++;
         rename 'spool/new', 'spool/of-bob' if -e 'spool/new/keep' or !-e 'spool/of-bob';
         symlink '../root-only', 'spool/new'; unlink 'spool/new';",
    );
    let made =
        (0..ROUNDS).filter(|_| outcome(&site.ask(&make("ptl-alice", job("new")))).0 == Some(0)).count();
    drop(attacker);
    println!("made {made} of {ROUNDS}");
    let owners = shell(
        "test -L spool/new && rm spool/new; stat -c '%U %a' spool/new spool/new.* 2>/dev/null | sort -u",
    );
    assert!(["ptl-alice 700\n", "ptl-alice 700\nptl-bob 700\n"].contains(&owners.as_str()), "{owners}");
    let kept =
        shell("find spool -name keep -user ptl-bob | wc -l; find spool -user ptl-alice -name keep | wc -l");
    assert_eq!(kept, "1\n1\n");
    untouched();
}

fn untouched() {
    for file in ["home/ptl-alice/keep", "home/ptl-bob/keep", "root-only/secret", "server/key.pem"] {
        assert!(Path::new(BASE).join(file).exists(), "{file} was deleted");
    }
    assert_eq!(
        shell("stat -c '%U %a' home/ptl-alice root-only server"),
        "ptl-alice 700\nroot 700\nptl-caller 700\n"
    );
}
