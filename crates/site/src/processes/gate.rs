//! Start gates: where a supervisor waits until its job may start.
//!
//! An external batch system starts a sibling job (`pliant_control::handoff`), or a subjob of a launch, without asking Pliant. So
//! the supervisor that it starts waits at a gate, a folder, until its server has written a start permit there, and looks at
//! the job's own folder only then. Either the permit is given, or, when nothing was decided for too long, it is refused and
//! this submission runs nothing: by the link `decided`, which is made once, whole, and by whichever side comes first. A gate
//! that is gone refuses.
//!
//! A subjob has its processors while it waits there, and its tasks must know where they will listen. That is only known on the
//! host where the batch system has started it: the [`Reservation`] asks for it, and the supervisor answers at the gate.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use pliant_control::batch::external::RELEASE_TIMEOUT;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::ports::{Ports, own_address};

/// A link whose target is the word of what is decided. It leads nowhere.
const DECIDED: &str = "decided";
/// There as soon as a supervisor waits.
const WAITS: &str = "waits";
/// The file with the reservation.
const RESERVATION: &str = "reservation.json";
/// The file with the addresses of the tasks.
const ADDRESSES: &str = "addresses.json";
/// The longest file: a subjob has few tasks.
const BYTES_MAX: u64 = 1 << 20;
/// How long a supervisor waits without a reservation: less than what its batch job is given for it.
const TIMEOUT: Duration = Duration::from_secs(RELEASE_TIMEOUT.0 as u64 - 5);
/// Between two looks of a supervisor that waits.
const PERIOD: Duration = Duration::from_millis(100);

/// A start gate, by its folder.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StartGate {
    dir: PathBuf,
}

/// Whether what waits at a gate may start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StartPermit {
    /// It may start.
    Given,
    /// It may not, by this submission.
    Refused,
}

/// What a supervisor reserves for a subjob while it waits at a gate: a port for each of its tasks.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Reservation {
    /// How long it waits, in seconds.
    pub timeout_s: u64,
    /// The tasks, which are to listen there.
    pub tasks: Vec<String>,
    /// An address, `host:port`, that is reached from there: the other tasks are where that is.
    pub toward: String,
}

/// Where the tasks of a subjob will listen, `host:port` by name, or why they cannot.
pub type TaskAddresses = Result<BTreeMap<String, String>, String>;

impl StartPermit {
    const fn word(self) -> &'static str {
        match self {
            Self::Given => "go",
            Self::Refused => "gone",
        }
    }
}

impl StartGate {
    /// The gate of a folder, whether it is there or not.
    pub fn at(dir: impl Into<PathBuf>) -> StartGate {
        StartGate { dir: dir.into() }
    }

    /// Its folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Makes it. Doing it again does no harm.
    ///
    /// # Errors
    /// Its folder cannot be written.
    pub fn create(&self, reservation: Option<&Reservation>) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.dir)?;
        reservation.map_or(Ok(()), |reservation| self.write(RESERVATION, reservation))
    }

    /// Decides, unless that was done before: returns what is decided, which outlives a crash of the machine.
    ///
    /// # Errors
    /// Its folder cannot be written or read.
    pub fn decide(&self, permit: StartPermit) -> io::Result<StartPermit> {
        match symlink(permit.word(), self.dir.join(DECIDED)) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(StartPermit::Refused),
            Err(error) => return Err(error),
        }
        File::open(&self.dir)?.sync_all()?;
        self.decided()?.ok_or_else(|| ErrorKind::NotFound.into())
    }

    /// What is decided, if anything is.
    fn decided(&self) -> io::Result<Option<StartPermit>> {
        match fs::read_link(self.dir.join(DECIDED)) {
            Ok(word) if word.as_os_str() == StartPermit::Given.word() => Ok(Some(StartPermit::Given)),
            Ok(_) => Ok(Some(StartPermit::Refused)),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                Ok((!self.dir.try_exists()?).then_some(StartPermit::Refused))
            }
            Err(error) => Err(error),
        }
    }

    /// Whether a supervisor waits for a decision: none if none has come yet, and false if it is decided.
    pub fn has_arrived(&self) -> Option<bool> {
        match self.decided() {
            Ok(Some(_)) => Some(false),
            Ok(None) if self.dir.join(WAITS).exists() => Some(true),
            // What is wrong with it shows when it is decided.
            _ => None,
        }
    }

    /// Waits for what is decided, and decides that nothing is run if that takes too long: longer than the reservation says, if
    /// there is one. Ports that it asks for are kept meanwhile.
    ///
    /// # Errors
    /// Its folder cannot be written or read; nothing may be run then.
    pub fn wait(&self) -> io::Result<StartPermit> {
        let Some(reservation) = self.read::<Reservation>(RESERVATION)? else { return self.wait_for(TIMEOUT) };
        let ports = self.reserve(&reservation)?;
        let permit = self.wait_for(Duration::from_secs(reservation.timeout_s));
        // Its tasks take them next.
        drop(ports);
        permit
    }

    fn wait_for(&self, timeout: Duration) -> io::Result<StartPermit> {
        let begin = Instant::now();
        if let Err(error) = File::create(self.dir.join(WAITS))
            && error.kind() != ErrorKind::NotFound
        {
            return Err(error);
        }
        loop {
            if let Some(permit) = self.decided()? {
                return Ok(permit);
            }
            if begin.elapsed() >= timeout {
                return self.decide(StartPermit::Refused);
            }
            thread::sleep(PERIOD);
        }
    }

    /// Finds out where the tasks are to listen, and says so. The ports are kept for them as long as what is returned is.
    fn reserve(&self, reservation: &Reservation) -> io::Result<Option<Ports>> {
        let found = own_address(&reservation.toward)
            .and_then(|host| Ports::find(&host, reservation.tasks.iter().map(String::as_str)));
        let addresses: TaskAddresses = match &found {
            Ok(ports) => Ok(ports.addresses().clone()),
            Err(error) => Err(format!("no ports can be kept for its tasks: {error}")),
        };
        self.write(ADDRESSES, &addresses)?;
        Ok(found.ok())
    }

    /// Where the tasks will listen whose supervisor waits here; none if none has come yet.
    ///
    /// # Errors
    /// Its folder cannot be read.
    pub fn addresses(&self) -> io::Result<Option<TaskAddresses>> {
        self.read(ADDRESSES)
    }

    /// Removes it. A supervisor that looks meanwhile finds it decided or gone.
    ///
    /// # Errors
    /// Its folder cannot be removed.
    pub fn remove(&self) -> io::Result<()> {
        if !self.dir.try_exists()? {
            return Ok(());
        }
        // What was decided stands until it is gone.
        let _ = self.decide(StartPermit::Refused);
        // Under another name it is gone at once, and not file by file.
        let aside = self.dir.with_extension("gone");
        if aside.exists() {
            fs::remove_dir_all(&aside)?;
        }
        fs::rename(&self.dir, &aside)?;
        fs::remove_dir_all(aside)
    }

    /// Writes a file that is there whole or not at all.
    fn write(&self, name: &str, content: &impl Serialize) -> io::Result<()> {
        let (path, temporary) = (self.dir.join(name), self.dir.join(format!("{name}.tmp")));
        let mut file = File::create(&temporary)?;
        file.write_all(&serde_json::to_vec(content)?)?;
        file.sync_all()?;
        fs::rename(temporary, path)
    }

    /// What a file says; what waits there may have put another one in its place.
    fn read<T: DeserializeOwned>(&self, name: &str) -> io::Result<Option<T>> {
        let file = match File::open(self.dir.join(name)) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut text = Vec::new();
        file.take(BYTES_MAX + 1).read_to_end(&mut text)?;
        if text.len() as u64 > BYTES_MAX {
            let message = format!("{name}: expected at most {BYTES_MAX} bytes, found more");
            return Err(io::Error::new(ErrorKind::InvalidData, message));
        }
        Ok(Some(serde_json::from_slice(&text)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gate() -> (tempfile::TempDir, StartGate) {
        let dir = tempfile::tempdir().unwrap();
        let gate = StartGate::at(dir.path().join("gate"));
        gate.create(None).unwrap();
        (dir, gate)
    }

    #[test]
    fn the_first_decision_holds() {
        for (first, second) in
            [(StartPermit::Given, StartPermit::Refused), (StartPermit::Refused, StartPermit::Given)]
        {
            let (_dir, gate) = gate();
            assert_eq!(gate.has_arrived(), None);
            assert_eq!(gate.decide(first).unwrap(), first);
            assert_eq!(gate.decide(second).unwrap(), first);
            assert_eq!(gate.wait_for(Duration::MAX).unwrap(), first);
            assert_eq!(gate.has_arrived(), Some(false), "there is nothing to decide");
        }
    }

    #[test]
    fn a_gate_refuses_after_its_timeout_and_when_it_is_gone() {
        let (_dir, gate) = gate();
        assert_eq!(gate.wait_for(Duration::ZERO).unwrap(), StartPermit::Refused);
        assert_eq!(gate.decide(StartPermit::Given).unwrap(), StartPermit::Refused, "too late");
        gate.remove().unwrap();
        gate.remove().unwrap();
        assert!(!gate.dir().exists());
        assert_eq!(gate.wait_for(Duration::MAX).unwrap(), StartPermit::Refused);
        assert_eq!(gate.decide(StartPermit::Given).unwrap(), StartPermit::Refused);
    }

    #[test]
    fn a_supervisor_of_a_subjob_reports_where_its_tasks_will_listen() {
        let (_dir, gate) = gate();
        let reservation = |toward: &str| Reservation {
            timeout_s: 60,
            tasks: vec!["one".to_owned(), "two".to_owned()],
            toward: toward.to_owned(),
        };
        assert_eq!(gate.addresses().unwrap(), None);
        gate.create(Some(&reservation("127.0.0.1:9"))).unwrap();
        let waiting = gate.clone();
        let waits = thread::spawn(move || waiting.wait());
        while gate.has_arrived().is_none() {
            thread::sleep(PERIOD);
        }
        let found = gate.addresses().unwrap().unwrap().unwrap();
        assert_eq!(found.keys().collect::<Vec<_>>(), ["one", "two"]);
        let taken = std::net::TcpListener::bind(&found["one"]).unwrap_err();
        assert_eq!(taken.kind(), ErrorKind::AddrInUse);
        gate.decide(StartPermit::Given).unwrap();
        assert_eq!(waits.join().unwrap().unwrap(), StartPermit::Given);
        std::net::TcpListener::bind(&found["one"]).unwrap();
        // Why they cannot listen is reported as well; then nothing of it will run.
        gate.create(Some(&reservation("no-such-host.invalid:9"))).unwrap();
        assert_eq!(gate.wait().unwrap(), StartPermit::Given, "that was decided");
        let why = gate.addresses().unwrap().unwrap().unwrap_err();
        assert!(why.contains("no-such-host"), "{why}");
    }

    #[test]
    fn a_supervisor_that_waits_gets_its_permit() {
        let (_dir, gate) = gate();
        let waiting = gate.clone();
        let waits = thread::spawn(move || waiting.wait_for(Duration::from_secs(60)));
        while gate.has_arrived().is_none() {
            thread::sleep(PERIOD);
        }
        assert_eq!(gate.has_arrived(), Some(true));
        assert_eq!(gate.decide(StartPermit::Given).unwrap(), StartPermit::Given);
        assert_eq!(waits.join().unwrap().unwrap(), StartPermit::Given);
    }
}
