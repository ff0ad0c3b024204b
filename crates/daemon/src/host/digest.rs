//! The hash of commands that a journal records with their event, and that a replay compares.

use pliant_control::replay::Machine;
use pliant_model::Fnv;

/// A number that stands for commands, but for those of questions: the same for the same commands, on every machine
/// (FNV-1a, 64 bits).
pub fn digest<M: Machine>(commands: &[M::Command]) -> u64 {
    let mut hash = Fnv::default();
    for command in commands.iter().filter(|command| !M::is_of_question(command)) {
        serde_json::to_writer(&mut hash, command).expect("commands are plain data with text keys");
    }
    hash.value()
}
