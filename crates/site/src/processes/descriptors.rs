//! Descriptors that the starter of this process has left open are not for the programs that it runs.

use std::fs;
use std::io;

use pliant_launcher::keep_from_programs;

/// The usual descriptors: every program has its own.
const USUAL: i32 = 2;

/// Keeps all descriptors that are open now, except the three usual ones, from the programs that this process runs. What Rust opens is kept
/// from them anyway.
///
/// # Errors
///
/// The system does not list them.
pub fn keep_descriptors() -> io::Result<()> {
    let entries = fs::read_dir("/proc/self/fd")?;
    let numbers: Vec<i32> =
        entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
    for number in numbers.into_iter().filter(|number| *number > USUAL) {
        // The list itself was one, and is closed.
        let _ = keep_from_programs(number);
    }
    Ok(())
}
