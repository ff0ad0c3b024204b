//! Whether a job whose turn has come may begin: asked and told in a folder of its own, its *room*.
//!
//! A batch system that is not Pliant's starts the copy of a job (`pliant_control::handoff`) without asking anybody. So the
//! supervisor that it starts waits in the copy's room until its server has written there that it may go on, and looks at
//! the job's own folder only then. Either that is decided, or, when nobody has said anything for too long, that this
//! submission runs nothing: by the link `decided`, which is made once, whole, and by whoever comes first. A room that is
//! gone decides the second.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use pliant_control::batch::foreign::DECIDED_WITHIN;

use super::terms::StartGate;

/// A link whose target is the word of what is decided. It leads nowhere.
const DECIDED: &str = "decided";
/// There as soon as a supervisor waits.
const WAITS: &str = "waits";
/// How long a supervisor waits: less than what its batch job is given for it.
const PATIENCE: Duration = Duration::from_secs(DECIDED_WITHIN.0 as u64 - 5);
/// Between two looks of a supervisor that waits.
const LOOK: Duration = Duration::from_millis(100);

/// What is decided.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StartPermit {
    /// The job may begin.
    Given,
    /// It may not, by this submission.
    Refused,
}

impl StartPermit {
    const fn word(self) -> &'static str {
        match self {
            Self::Given => "go",
            Self::Refused => "gone",
        }
    }
}

/// Decides, unless that was done before: returns what is decided. It outlives a crash of the machine.
///
/// # Errors
/// The room cannot be written or read. [`ErrorKind::NotFound`] if there is none.
pub fn decide(room: &Path, consent: StartPermit) -> io::Result<StartPermit> {
    match symlink(consent.word(), room.join(DECIDED)) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error),
    }
    File::open(room)?.sync_all()?;
    decided(room)?.ok_or_else(|| ErrorKind::NotFound.into())
}

/// What is decided, if anything is.
fn decided(room: &Path) -> io::Result<Option<StartPermit>> {
    match fs::read_link(room.join(DECIDED)) {
        Ok(word) if word.as_os_str() == StartPermit::Given.word() => Ok(Some(StartPermit::Given)),
        Ok(_) => Ok(Some(StartPermit::Refused)),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Ok((!room.try_exists()?).then_some(StartPermit::Refused))
        }
        Err(error) => Err(error),
    }
}

/// Whether somebody waits in a room, or has waited; none if nobody has come yet and nothing is decided.
pub fn has_come(room: &Path) -> Option<bool> {
    match decided(room) {
        Ok(Some(_)) => Some(false),
        Ok(None) if room.join(WAITS).exists() => Some(true),
        // Whatever is wrong with it is told to those who have to decide there.
        _ => None,
    }
}

/// Waits for what is decided, and decides that nothing is run if that takes too long: longer than the terms of the room say,
/// if it has some.
///
/// # Errors
/// As for [`decide`]; nothing may be run then.
pub fn await_consent(room: &Path) -> io::Result<StartPermit> {
    let Some(terms) = StartGate::of(room)? else { return await_for(room, PATIENCE) };
    let ports = terms.locate(room)?;
    let consent = await_for(room, terms.patience());
    // Its tasks take them next.
    drop(ports);
    consent
}

fn await_for(room: &Path, at_most: Duration) -> io::Result<StartPermit> {
    let begin = Instant::now();
    if let Err(error) = File::create(room.join(WAITS))
        && error.kind() != ErrorKind::NotFound
    {
        return Err(error);
    }
    loop {
        if let Some(consent) = decided(room)? {
            return Ok(consent);
        }
        if begin.elapsed() >= at_most {
            return decide(room, StartPermit::Refused);
        }
        thread::sleep(LOOK);
    }
}

#[cfg(test)]
mod tests {
    use super::super::terms::located;
    use super::*;

    #[test]
    fn what_is_decided_first_holds() {
        for (first, second) in
            [(StartPermit::Given, StartPermit::Refused), (StartPermit::Refused, StartPermit::Given)]
        {
            let room = tempfile::tempdir().unwrap();
            assert_eq!(has_come(room.path()), None);
            assert_eq!(decide(room.path(), first).unwrap(), first);
            assert_eq!(decide(room.path(), second).unwrap(), first);
            assert_eq!(await_for(room.path(), Duration::MAX).unwrap(), first);
            assert_eq!(has_come(room.path()), Some(false), "there is nothing to decide");
        }
    }

    #[test]
    fn who_waits_too_long_or_for_a_room_that_is_gone_runs_nothing() {
        let room = tempfile::tempdir().unwrap();
        assert_eq!(await_for(room.path(), Duration::ZERO).unwrap(), StartPermit::Refused);
        assert_eq!(decide(room.path(), StartPermit::Given).unwrap(), StartPermit::Refused, "too late");
        let gone = room.path().join("gone");
        assert_eq!(await_for(&gone, Duration::MAX).unwrap(), StartPermit::Refused);
        assert_eq!(decide(&gone, StartPermit::Given).unwrap_err().kind(), ErrorKind::NotFound);
    }

    #[test]
    fn who_waits_for_a_part_says_where_its_tasks_will_listen() {
        let room = tempfile::tempdir().unwrap();
        let terms = |toward: &str| StartGate {
            patience_s: 60,
            tasks: vec!["one".to_owned(), "two".to_owned()],
            toward: toward.to_owned(),
        };
        assert_eq!(located(room.path()).unwrap(), None);
        terms("127.0.0.1:9").write(room.path()).unwrap();
        let path = room.path().to_owned();
        let waits = thread::spawn(move || await_consent(&path));
        while has_come(room.path()).is_none() {
            thread::sleep(LOOK);
        }
        let found = located(room.path()).unwrap().unwrap().unwrap();
        assert_eq!(found.keys().collect::<Vec<_>>(), ["one", "two"]);
        let taken = std::net::TcpListener::bind(&found["one"]).unwrap_err();
        assert_eq!(taken.kind(), ErrorKind::AddrInUse);
        decide(room.path(), StartPermit::Given).unwrap();
        assert_eq!(waits.join().unwrap().unwrap(), StartPermit::Given);
        std::net::TcpListener::bind(&found["one"]).unwrap();
        // Why they cannot is told as well; then nothing of it will run.
        terms("no-such-host.invalid:9").write(room.path()).unwrap();
        assert_eq!(await_consent(room.path()).unwrap(), StartPermit::Given, "that was decided");
        let why = located(room.path()).unwrap().unwrap().unwrap_err();
        assert!(why.contains("no-such-host"), "{why}");
    }

    #[test]
    fn consent_that_is_given_while_somebody_waits_is_heard() {
        let room = tempfile::tempdir().unwrap();
        let path = room.path().to_owned();
        let waits = thread::spawn(move || await_for(&path, Duration::from_secs(60)));
        while has_come(room.path()).is_none() {
            thread::sleep(LOOK);
        }
        assert_eq!(has_come(room.path()), Some(true));
        assert_eq!(decide(room.path(), StartPermit::Given).unwrap(), StartPermit::Given);
        assert_eq!(waits.join().unwrap().unwrap(), StartPermit::Given);
    }
}
