//! The header of an SWF log: comments of the form `; Key: value`, in all the spellings that real logs use.

use std::collections::BTreeMap;

use crate::lines::{leading_number, number};

/// Header lines that are kept; further ones are read and dropped.
const KEPT: usize = 512;
/// Partition names that are kept: more clusters than any federation has.
const PARTITIONS_KEPT: usize = 16_384;
/// Bytes that are kept of a value.
const LONGEST_VALUE: usize = 1024;

/// What a log says about itself. Keys that cannot be understood stay among the entries only.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Header {
    /// Every `Key: value`, in order (bounded).
    pub entries: Vec<(String, String)>,
    /// Unix time of second 0.
    pub unix_start_time: Option<i64>,
    /// Number of jobs.
    pub max_jobs: Option<i64>,
    /// Number of lines; in cleaned logs often that of the uncleaned one.
    pub max_records: Option<i64>,
    /// Nodes.
    pub max_nodes: Option<i64>,
    /// Processors.
    pub max_procs: Option<i64>,
    /// Names of the partitions, by number.
    pub partitions: BTreeMap<i64, String>,
    /// Lines that named a partition.
    partition_lines: u64,
}

impl Header {
    /// Takes up the rest of a comment line.
    pub(crate) fn note(&mut self, comment: &[u8]) {
        let Some(colon) = comment.iter().position(|byte| *byte == b':') else { return };
        let text = |bytes: &[u8]| {
            let kept = &bytes[..bytes.len().min(LONGEST_VALUE)];
            String::from_utf8_lossy(kept).trim().to_owned()
        };
        let (key, value) = (text(&comment[..colon]), text(&comment[colon + 1..]));
        if key.is_empty() || key.len() > 64 {
            return;
        }
        let fact = match key.to_ascii_lowercase().as_str() {
            "unixstarttime" => Some(&mut self.unix_start_time),
            "maxjobs" => Some(&mut self.max_jobs),
            "maxrecords" => Some(&mut self.max_records),
            "maxnodes" => Some(&mut self.max_nodes),
            "maxprocs" => Some(&mut self.max_procs),
            _ => None,
        };
        // The first that can be understood holds: notes further down repeat keys with words.
        if let Some(fact) = fact {
            *fact = fact.or_else(|| leading_number(&value));
        } else if key.eq_ignore_ascii_case("partition") {
            self.note_partition(&value);
        }
        if self.entries.len() < KEPT {
            self.entries.push((key, value));
        }
    }

    /// `Partition: 3 name, and what it is`.
    fn note_partition(&mut self, value: &str) {
        let mut words = value.splitn(2, |letter: char| letter.is_whitespace() || letter == '=');
        let (Some(first), Some(rest)) = (words.next(), words.next()) else { return };
        let name = rest.split([',', ';']).next().unwrap_or_default().trim().trim_matches('"').trim();
        if let Some(partition) = number(first.trim_end_matches([':', ',']).as_bytes())
            && self.partitions.len() < PARTITIONS_KEPT
            && !name.is_empty()
        {
            self.partitions.insert(partition, name.to_owned());
            self.partition_lines += 1;
        }
    }

    /// The value of a key, whatever the case of its letters.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.entries.iter().find(|(name, _)| name.eq_ignore_ascii_case(key)).map(|(_, value)| value.as_str())
    }

    /// How many lines named a partition so far: names may still come, or change, between jobs.
    pub(crate) fn partition_lines(&self) -> u64 {
        self.partition_lines
    }

    /// Names of the partitions whose numbers jobs can have.
    pub(crate) fn partition_names(&self) -> BTreeMap<i32, String> {
        let names = self.partitions.iter();
        names.filter_map(|(id, name)| Some((i32::try_from(*id).ok()?, name.clone()))).collect()
    }

    /// Processors of the machine: `MaxProcs`, else `MaxNodes`.
    pub fn processors(&self) -> Option<i64> {
        self.max_procs.filter(|procs| *procs > 0).or(self.max_nodes.filter(|nodes| *nodes > 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_in_all_their_spellings() {
        let mut header = Header::default();
        for line in [
            "Version: 2.2",
            " Version: SWF v2",
            " MaxProcs: 1664 (72, 1368, 224)",
            " MaxNodes: 338 (batch partition; 512 total)",
            "UnixStartTime:833000000",
            " maxjobs : 77222",
            " Note: a: b",
            " Partition: 1 bordeaux, the slow one",
            " Partition: 2=lyon",
            " no colon here",
        ] {
            header.note(line.as_bytes());
        }
        assert_eq!(header.max_procs, Some(1664));
        assert_eq!(header.max_nodes, Some(338));
        assert_eq!(header.unix_start_time, Some(833_000_000));
        assert_eq!(header.max_jobs, Some(77_222));
        assert_eq!(header.get("note"), Some("a: b"));
        assert_eq!(header.processors(), Some(1664));
        assert_eq!(header.partitions[&1], "bordeaux");
        assert_eq!(header.partitions[&2], "lyon");
    }

    #[test]
    fn memory_does_not_grow_with_the_header() {
        let mut header = Header::default();
        let long = format!("Note: {}", "x".repeat(1 << 20));
        for _ in 0..2_000 {
            header.note(long.as_bytes());
        }
        for partition in 0..20_000 {
            header.note(format!("Partition: {partition} site{partition}").as_bytes());
        }
        assert_eq!((header.entries.len(), header.partitions.len()), (KEPT, PARTITIONS_KEPT));
        assert_eq!(header.partitions[&1_000], "site1000", "a large federation keeps its names");
        assert!(header.entries.iter().all(|(_, value)| value.len() <= LONGEST_VALUE));
    }
}
