//! Requests and files that are changed at random, where the fuzzer cannot run: the same bytes for the same seed.

use pliant_launcher::{Action, Request, Signal};

/// A generator of pseudo-random numbers (SplitMix64; Steele, Lea, Flood 2014).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    /// The next number.
    pub(crate) fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.number() % end.max(1) as u64).unwrap_or(0)
    }
}

/// Requests, without their length, and files that are understood.
pub(crate) fn corpus() -> Vec<Vec<u8>> {
    let folder = || "/var/spool/pliant/7".into();
    let actions = [
        Action::Check,
        Action::MakeFolder { folder: folder() },
        Action::Run {
            program: ["/usr/bin/pliant", "run-tasks", "\u{fc}"].map(Into::into).into(),
            environment: vec![("A".into(), "b=c".into()), ("D".into(), "".into())],
            folder: folder(),
            processes_max: Some(1 << 30),
        },
        Action::RunWithSubordinates { program: vec!["/bin/sh".into()], folder: folder() },
        Action::Signal { signal: Signal::Term, processes: vec![5, -5, i32::MIN] },
    ];
    let files = [
        "caller = \"pliant\"\nuid_min = 1000\nuid_max = 60000\nno_new_privs = true\nallow = ['alice', \"bob\"] # both\ndeny = []\nend_only = ['carol']\nfolders = ['/var/spool/pliant']\n",
        "# all\ncaller = 'pliant'\nprograms = [\n  '/usr/bin/pliant',\n  '/usr/bin/sbatch',\n]\n",
    ];
    let request = |action| Request { account: "alice".to_owned(), action };
    let requests = actions.into_iter().map(|action| request(action).encode().split_off(4));
    requests.chain(files.map(|file| file.as_bytes().to_vec())).collect()
}

/// One of the corpus with a few changes.
pub(crate) fn mutated(corpus: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    const BYTES: &[u8] = b"\0\x01\x02\x7f\x80\xff'\"[]=,#\n\r\\ /._-0a";
    let mut bytes = corpus[random.below(corpus.len())].clone();
    for _ in 0..=random.below(6) {
        let at = random.below(bytes.len() + 1);
        let to = (at + random.below(12)).min(bytes.len());
        let byte = BYTES[random.below(BYTES.len())];
        match random.below(7) {
            0 => bytes.insert(at, byte),
            1 => drop(bytes.drain(at..to)),
            2 => bytes.truncate(at),
            3 => {
                let copy = bytes[at..to].to_vec();
                let target = random.below(bytes.len() + 1);
                bytes.splice(target..target, copy);
            }
            4 => {
                let other = &corpus[random.below(corpus.len())];
                let from = random.below(other.len());
                bytes.splice(at..to, other[from..(from + 16).min(other.len())].iter().copied());
            }
            5 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
            _ if at < bytes.len() => bytes[at] = byte,
            _ => {}
        }
    }
    bytes
}
