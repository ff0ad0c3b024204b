//! The process group of something that runs: its first process leads it.

use std::io;
use std::process::Child;

use pliant_wire::Outcome;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, kill_process_group, waitid};

/// A process group whose leader is a child that was not waited for: until then its id is its own.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProcessGroup {
    leader: Pid,
}

impl ProcessGroup {
    /// The group of a child that was started as its leader.
    pub(super) fn of(child: &Child) -> ProcessGroup {
        ProcessGroup { leader: Pid::from_child(child) }
    }

    /// Its first process.
    pub(super) fn leader(self) -> Pid {
        self.leader
    }

    /// Sends TERM. A stopped process would not notice, so it is continued.
    pub(super) fn ask_to_end(self) {
        self.signal(Signal::TERM);
        self.signal(Signal::CONT);
    }

    /// Sends KILL.
    pub(super) fn kill(self) {
        self.signal(Signal::KILL);
    }

    /// A failure means that nothing of it is left.
    fn signal(self, signal: Signal) {
        let _ = kill_process_group(self.leader, signal);
    }

    /// How its leader ended, once it has. The leader stays a zombie.
    pub(super) fn outcome(self) -> Option<Outcome> {
        self.status().ok().flatten().map(|status| outcome(&status))
    }

    /// Whether its leader has ended.
    pub(super) fn is_over(self) -> bool {
        !matches!(self.status(), Ok(None))
    }

    fn status(self) -> io::Result<Option<WaitIdStatus>> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        Ok(waitid(WaitId::Pid(self.leader), options)?)
    }
}

fn outcome(status: &WaitIdStatus) -> Outcome {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => Outcome::ExitCode(code),
        (None, Some(signal)) => Outcome::Signal(signal),
        // Only these two kinds of change are waited for.
        (None, None) => Outcome::Signal(0),
    }
}
