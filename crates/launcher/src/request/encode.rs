//! A request as servers write it. None of it is in the launcher itself.

use std::os::unix::ffi::OsStrExt;

use super::{Action, Request};

impl Request {
    /// The request in bytes, with its length.
    pub fn encode(&self) -> Vec<u8> {
        let mut fields = Fields(vec![0; 4]);
        let mut begin =
            |verb: &str| [verb, &self.account].iter().for_each(|field| fields.add(field.as_bytes()));
        match &self.action {
            Action::Check => begin("check"),
            Action::MakeFolder { folder } => {
                begin("make-folder");
                fields.add(folder.as_os_str().as_bytes());
            }
            Action::Run { program, environment, folder, processes_max } => {
                begin("run");
                fields.add(folder.as_os_str().as_bytes());
                fields.list(program.iter().map(|word| word.as_bytes()));
                let pairs = environment.iter().flat_map(|(name, value)| [name.as_bytes(), value.as_bytes()]);
                fields.list(pairs);
                fields.add(processes_max.map_or(String::new(), |most| most.to_string()).as_bytes());
            }
            Action::RunWithSubordinates { program, folder } => {
                begin("run-with-subordinates");
                fields.add(folder.as_os_str().as_bytes());
                fields.list(program.iter().map(|word| word.as_bytes()));
            }
            Action::Signal { signal, processes } => {
                begin("signal");
                fields.add(signal.word().as_bytes());
                let numbers: Vec<String> = processes.iter().map(i32::to_string).collect();
                fields.list(numbers.iter().map(|number| number.as_bytes()));
            }
        }
        let Fields(mut bytes) = fields;
        let length = length(bytes.len() - 4);
        bytes[..4].copy_from_slice(&length);
        bytes
    }
}

/// Fields that are written.
struct Fields(Vec<u8>);

impl Fields {
    fn add(&mut self, field: &[u8]) {
        self.0.extend(length(field.len()));
        self.0.extend(field);
    }

    /// A field of fields.
    fn list<'a>(&mut self, list: impl Iterator<Item = &'a [u8]>) {
        let mut inner = Fields(Vec::new());
        list.for_each(|field| inner.add(field));
        self.add(&inner.0);
    }
}

/// A length in bytes. One that no request can have stays one that no request can have.
fn length(bytes: usize) -> [u8; 4] {
    u32::try_from(bytes).unwrap_or(u32::MAX).to_le_bytes()
}
