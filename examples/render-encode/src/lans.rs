//! Three LANs on the loopback interface of a network namespace: addresses of their own, and links between them that are
//! as slow as the kernel's traffic control makes them.

use std::fmt;
use std::process::Command;

use crate::Failure;

/// The address of the agent, which is in no LAN.
pub(crate) const AGENT_HOST: &str = "127.0.0.1";
/// The LANs by their servers, with these servers' addresses. A LAN is all addresses that differ in the last number only.
pub(crate) const LANS: [(&str, &str); 3] =
    [("north", "127.0.1.1"), ("south", "127.0.2.1"), ("remote", "127.0.3.1")];

/// Links between them, each way.
pub(crate) struct Links {
    /// Between the first two, in Mb/s.
    near: u32,
}

impl Links {
    /// Links of so many Mb/s between the first two LANs, and of a quarter of that to the third.
    pub(crate) fn new(near: u32) -> Links {
        Links { near: near.max(1) }
    }

    fn kbps(&self, one: usize, other: usize) -> u32 {
        let near = self.near.saturating_mul(1000);
        if one.max(other) == 2 { near / 4 } else { near }
    }

    /// What goes from one to the other, in Mb/s; none if these are no two of them.
    pub(crate) fn mbps(&self, one: &str, other: &str) -> Option<f64> {
        let at = |name: &str| LANS.iter().position(|(lan, _)| *lan == name);
        let (one, other) = (at(one)?, at(other)?);
        (one != other).then(|| f64::from(self.kbps(one, other)) / 1000.0)
    }

    /// Makes the interface of this network namespace so.
    pub(crate) fn limit(&self) -> Result<(), Failure> {
        run("ip", "link set dev lo mtu 1500 up")?;
        run("tc", "qdisc add dev lo root handle 1: htb default 1")?;
        run("tc", "class add dev lo parent 1: classid 1:1 htb rate 10gbit quantum 60000")?;
        for (from, (_, source)) in LANS.iter().enumerate() {
            for (to, (_, target)) in LANS.iter().enumerate().filter(|(to, _)| *to != from) {
                let (class, kbps) = (10 + 3 * from + to, self.kbps(from, to));
                run(
                    "tc",
                    &format!("class add dev lo parent 1: classid 1:{class} htb rate {kbps}kbit quantum 1500"),
                )?;
                let filter = format!("match ip src {source}/24 match ip dst {target}/24 flowid 1:{class}");
                run("tc", &format!("filter add dev lo parent 1: protocol ip u32 {filter}"))?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Links {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [(one, _), (other, _), (far, _)] = LANS;
        let mbps = |one, other| f64::from(self.kbps(one, other)) / 1000.0;
        write!(
            f,
            "{one} - {other} {} Mb/s, {one} - {far} and {other} - {far} {} Mb/s",
            mbps(0, 1),
            mbps(0, 2)
        )
    }
}

fn run(program: &str, words: &str) -> Result<(), Failure> {
    let done = Command::new(program).args(words.split_whitespace()).output();
    let done =
        done.map_err(|error| format!("expected `{program}` on this machine ({error}): install iproute2"))?;
    if done.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&done.stderr);
    Err(format!("{program} {words}: {}", said.trim()).into())
}
