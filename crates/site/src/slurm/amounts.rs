//! How Slurm writes amounts of memory and numbers of GPUs.

use pliant_model::Mebibytes;

use super::queue::nothing;

/// An amount of memory: `300M`, `1.50G`, `0`; without a unit in MiB. Rounded up.
pub(super) fn mebibytes(text: &str) -> Option<Mebibytes> {
    if nothing(text) {
        return Some(Mebibytes::ZERO);
    }
    let end = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let scale = match unit {
        "K" => 1.0 / 1024.0,
        "" | "M" => 1.0,
        "G" => 1024.0,
        "T" => 1_048_576.0,
        "P" => 1_073_741_824.0,
        _ => return None,
    };
    let mib = (number.parse::<f64>().ok()? * scale).ceil();
    (0.0..=f64::from(u32::MAX)).contains(&mib).then_some(Mebibytes(mib as u32))
}

/// A number of GPUs, and their kind if all are of one.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Gpus {
    pub(super) count: u32,
    pub(super) kind: Option<String>,
}

impl Gpus {
    /// Both together.
    pub(super) fn and(self, other: Gpus) -> Gpus {
        let kind = match (self.count, other.count) {
            (_, 0) => self.kind,
            (0, _) => other.kind,
            _ => self.kind.filter(|kind| Some(kind) == other.kind.as_ref()),
        };
        Gpus { count: self.count.saturating_add(other.count), kind }
    }
}

/// The GPUs among generic resources: `gres:gpu:a100:2,gres:shard:4`, `gpu:2(S:0-1)`, `gres/gpu=1`. None for what is no list of them.
pub(super) fn gpus(text: &str) -> Option<Gpus> {
    let mut gpus = Gpus::default();
    if nothing(text) {
        return Some(gpus);
    }
    let mut depth = 0_u32;
    let parts = text.split(|letter: char| {
        match letter {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        letter == ',' && depth == 0
    });
    for part in parts {
        let part = part.split('(').next().unwrap_or_default();
        let part = part.strip_prefix("gres:").or_else(|| part.strip_prefix("gres/")).unwrap_or(part);
        let words: Vec<&str> = part.split([':', '=']).collect();
        let (kind, count) = match words.as_slice() {
            ["gpu"] => (None, 1),
            ["gpu", word] => match word.parse() {
                Ok(count) => (None, count),
                Err(_) => (Some((*word).to_owned()), 1),
            },
            ["gpu", kind, count] | ["gpu", kind, "no_consume", count] => {
                (Some((*kind).to_owned()), count.parse().ok()?)
            }
            ["gpu", ..] => return None,
            _ => continue,
        };
        gpus = gpus.and(Gpus { count, kind });
    }
    Some(gpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_in_each_unit_and_rounded_up() {
        for (text, mib) in
            [("300M", 300), ("0", 0), ("1.50G", 1536), ("2T", 2 << 20), ("1025K", 2), ("64", 64), ("N/A", 0)]
        {
            assert_eq!(mebibytes(text), Some(Mebibytes(mib)), "{text}");
        }
        for text in ["M", "1X", "-1M", "9999P", "1.2.3G"] {
            assert_eq!(mebibytes(text), None, "{text}");
        }
    }

    #[test]
    fn gpus_are_counted_among_other_resources() {
        let of = |count, kind: &str| Gpus { count, kind: (!kind.is_empty()).then(|| kind.to_owned()) };
        for (text, expected) in [
            ("N/A", of(0, "")),
            ("gres:gpu:2", of(2, "")),
            ("gres:gpu", of(1, "")),
            ("gres/gpu:a100:1", of(1, "a100")),
            ("gres/gpu=3", of(3, "")),
            ("gpu:a100", of(1, "a100")),
            ("gpu:a100:2(S:0,1),shard:8,fpga", of(2, "a100")),
            ("gpu:a100:no_consume:2", of(2, "a100")),
            ("gpu:a100:2(IDX:0-1),gpu:v100:1(IDX:2)", of(3, "")),
            ("shard:8", of(0, "")),
        ] {
            assert_eq!(gpus(text), Some(expected), "{text}");
        }
        for text in ["gpu:a100:many", "gpu:a:b:c:1"] {
            assert_eq!(gpus(text), None, "{text}");
        }
    }
}
