//! The cgroup of a job (version 2, cgroups(7)), below one that was delegated to the server.
//!
//! A supervisor enters the job's cgroup, starts the job there and leaves it again for the leaf `supervisors`, so that the job
//! has none of the supervisor's processes with it and none of its own processes can leave. `cgroup.kill` ends all of them at once.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use super::limits::JobLimits;

/// The leaf of supervisors: a cgroup with controllers has no processes of its own.
const SUPERVISORS: &str = "supervisors";
/// How often and how many times a cgroup is removed whose processes are about to be gone.
const AGAIN: (Duration, u32) = (Duration::from_millis(20), 100);

/// The cgroup of a job.
#[derive(Debug)]
pub(super) struct Cgroup {
    base: PathBuf,
    folder: PathBuf,
}

impl Cgroup {
    /// Makes the cgroup of a job, which has the limits that the kernel holds it to.
    ///
    /// # Errors
    /// It is there already, or cannot be made.
    pub(super) fn create(base: &Path, name: &str, limits: &JobLimits) -> io::Result<Cgroup> {
        let folder = base.join(name);
        fs::create_dir(&folder)?;
        match fs::create_dir(base.join(SUPERVISORS)) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let cgroup = Cgroup { base: base.to_owned(), folder };
        cgroup.hold_to(limits).inspect_err(|_| cgroup.remove())?;
        Ok(cgroup)
    }

    /// Sets the limits.
    fn hold_to(&self, limits: &JobLimits) -> io::Result<()> {
        let text = |limit: Option<u64>| limit.map_or_else(|| "max".to_owned(), |limit| limit.to_string());
        let files = [
            ("memory.max", text(limits.memory_bytes)),
            ("pids.max", text(limits.processes)),
            // Otherwise a job exceeds its memory by as much as there is swap.
            ("memory.swap.max", limits.memory_bytes.map_or("max", |_| "0").to_owned()),
            // All of a job ends if one of its processes is ended for want of memory.
            ("memory.oom.group", "1".to_owned()),
            ("cpu.max", limits.cpus.map_or("max".to_owned(), cpu_max)),
        ];
        for (file, value) in files {
            let path = self.folder.join(file);
            // A controller that was not delegated has no files; the limit is watched all the same.
            if path.exists() {
                fs::write(path, value)?;
            }
        }
        Ok(())
    }

    /// Its folder.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether the kernel holds the job to its memory, wherever that is.
    pub(super) fn holds_memory(&self) -> bool {
        self.folder.join("memory.max").exists()
    }

    /// The one of a job whose supervisor died.
    pub(super) fn left_behind(folder: &Path) -> Option<Cgroup> {
        Some(Cgroup { base: folder.parent()?.to_owned(), folder: folder.to_owned() })
    }

    /// Moves this process into it, with all that it starts from now on.
    pub(super) fn enter(&self) -> io::Result<()> {
        enter(&self.folder)
    }

    /// Moves this process out of it again. What it has started stays.
    pub(super) fn leave(&self) -> io::Result<()> {
        enter(&self.base.join(SUPERVISORS))
    }

    /// Which limit the kernel had to enforce by ending something or by refusing a process.
    pub(super) fn exceeded(&self) -> Option<String> {
        let count = |file: &str, event: &str| {
            let events = fs::read_to_string(self.folder.join(file)).ok()?;
            let line = events.lines().find_map(|line| line.strip_prefix(event)?.strip_prefix(' '))?;
            line.trim().parse::<u64>().ok().filter(|count| *count > 0)
        };
        let limit =
            |file: &str| fs::read_to_string(self.folder.join(file)).unwrap_or_default().trim().to_owned();
        if count("memory.events", "oom_kill").is_some() {
            return Some(format!("more memory than {} bytes", limit("memory.max")));
        }
        count("pids.events", "max").map(|_| format!("more than {} processes and threads", limit("pids.max")))
    }

    /// Ends everything in it at once; false if the kernel cannot do that (Linux before 5.14).
    pub(super) fn kill(&self) -> bool {
        let kill = self.folder.join("cgroup.kill");
        kill.exists() && fs::write(kill, "1").is_ok()
    }

    /// Removes it once nothing is left in it.
    pub(super) fn remove(&self) {
        let (period, tries) = AGAIN;
        for _ in 0..tries {
            match fs::remove_dir(&self.folder) {
                Err(error) if error.kind() == ErrorKind::ResourceBusy => thread::sleep(period),
                _ => return,
            }
        }
    }
}

/// As much time of processors as that many give, in microseconds of each period.
fn cpu_max(cpus: u32) -> String {
    const PERIOD_US: u64 = 100_000;
    format!("{} {PERIOD_US}", u64::from(cpus) * PERIOD_US)
}

fn enter(folder: &Path) -> io::Result<()> {
    // 0 is the process that writes.
    fs::write(folder.join("cgroup.procs"), "0")
}

/// The cgroup (version 2) of this process, if it may make others below: that of a service to which systemd has delegated it.
///
/// # Errors
/// There is none, or it cannot be written; the message says which.
pub fn delegated() -> io::Result<PathBuf> {
    // Names may hold any bytes, as of what a user has mounted.
    let [own, mounts] = [fs::read("/proc/self/cgroup")?, fs::read("/proc/self/mounts")?];
    let [own, mounts] = [own, mounts].map(|text| String::from_utf8_lossy(&text).into_owned());
    let found = own_folder(&own, &mounts).ok_or_else(|| {
        io::Error::new(ErrorKind::NotFound, "this host has no cgroup file system of version 2")
    })?;
    check(&found)?;
    Ok(found)
}

/// Whether cgroups can be made below that one, with controllers of processor time, memory and processes if the kernel has them there.
///
/// # Errors
/// They cannot.
pub fn check(base: &Path) -> io::Result<()> {
    let supervisors = base.join(SUPERVISORS);
    match fs::create_dir(&supervisors) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            return Err(io::Error::new(error.kind(), format!("{}: {error}", supervisors.display())));
        }
        _ => {}
    }
    // A cgroup with processes of its own gives no controllers to those below it.
    let processes = fs::read_to_string(base.join("cgroup.procs"))?;
    for process in processes.lines() {
        fs::write(supervisors.join("cgroup.procs"), process)?;
    }
    let available = fs::read_to_string(base.join("cgroup.controllers")).unwrap_or_default();
    for controller in ["cpu", "memory", "pids"] {
        if available.split_whitespace().any(|one| one == controller) {
            fs::write(base.join("cgroup.subtree_control"), format!("+{controller}"))?;
        }
    }
    Ok(())
}

/// The folder of a process' cgroup, by its `/proc/PID/cgroup` and the mounts.
fn own_folder(own: &str, mounts: &str) -> Option<PathBuf> {
    let path = own.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let mount = mounts.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        (fields.get(2) == Some(&"cgroup2")).then(|| fields.get(1).copied()).flatten()
    })?;
    Some(Path::new(mount).join(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_cgroup_is_found() {
        let mounts = "proc /proc proc rw 0 0\ncgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0\n";
        let check = |own: &str, mounts: &str, expected: Option<&str>| {
            assert_eq!(own_folder(own, mounts), expected.map(PathBuf::from), "{own}");
        };
        check(
            "0::/system.slice/pliant.service\n",
            mounts,
            Some("/sys/fs/cgroup/system.slice/pliant.service"),
        );
        check("4:memory:/x\n0::/\n", mounts, Some("/sys/fs/cgroup/"));
        check("4:memory:/x\n", mounts, None);
        check("0::/a\n", "cgroup /sys/fs/cgroup/cpu cgroup rw 0 0\n", None);
    }

    /// Files as the kernel makes them; whether it holds to them is not shown here.
    #[test]
    fn limits_are_written_and_events_are_read() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path().join("7");
        fs::create_dir(&folder).unwrap();
        for file in ["memory.max", "pids.max", "memory.oom.group", "cpu.max", "cgroup.kill"] {
            fs::write(folder.join(file), "").unwrap();
        }
        let limits =
            JobLimits { memory_bytes: Some(4096), processes: Some(9), cpus: Some(3), ..JobLimits::default() };
        let cgroup = Cgroup { base: scratch.path().to_owned(), folder: folder.clone() };
        cgroup.hold_to(&limits).unwrap();
        let read = |file: &str| fs::read_to_string(folder.join(file)).unwrap();
        assert_eq!([read("memory.max"), read("pids.max"), read("memory.oom.group")], ["4096", "9", "1"]);
        assert_eq!(read("cpu.max"), "300000 100000");
        assert!(
            Cgroup::create(scratch.path(), "7", &limits).is_err(),
            "another one's processes may be in it"
        );
        assert!(cgroup.holds_memory());
        assert!(!folder.join("memory.swap.max").exists(), "that controller is not there");
        assert_eq!(cgroup.exceeded(), None);
        fs::write(folder.join("memory.events"), "low 0\noom 1\noom_kill 0\n").unwrap();
        fs::write(folder.join("pids.events"), "max 0\n").unwrap();
        assert_eq!(cgroup.exceeded(), None);
        fs::write(folder.join("pids.events"), "max 3\n").unwrap();
        assert_eq!(cgroup.exceeded().as_deref(), Some("more than 9 processes and threads"));
        fs::write(folder.join("memory.events"), "low 0\noom 1\noom_kill 2\n").unwrap();
        assert_eq!(cgroup.exceeded().as_deref(), Some("more memory than 4096 bytes"));
        assert!(cgroup.kill());
        assert_eq!(read("cgroup.kill"), "1");
    }
}
