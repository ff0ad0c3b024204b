//! Descriptions of programs, written and read by the drivers that start them.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

/// A description of a program to run. The machines of this crate store it and never read it; a driver writes and reads it.
/// Clones share one text, which a journal stores inside the entry that has the payload.
#[derive(Clone, Debug)]
pub struct Payload(Arc<RawValue>);

impl Payload {
    /// Serializes a description.
    pub fn of<T: Serialize>(described: &T) -> Payload {
        let text = serde_json::value::to_raw_value(described);
        Payload(text.expect("a description is plain data with text keys").into())
    }

    /// Deserializes the description.
    ///
    /// # Errors
    ///
    /// The description has another type.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.0.get())
    }

    /// The length in bytes.
    pub fn bytes(&self) -> usize {
        self.0.get().len()
    }
}

/// An empty description.
impl Default for Payload {
    fn default() -> Payload {
        Payload::of(&())
    }
}

impl PartialEq for Payload {
    fn eq(&self, other: &Payload) -> bool {
        self.0.get() == other.0.get()
    }
}

impl Eq for Payload {}

impl Serialize for Payload {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Payload {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Payload, D::Error> {
        Box::<RawValue>::deserialize(deserializer).map(|text| Payload(text.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_is_embedded_in_its_container() {
        let script = "#!/bin/sh\necho \"one\"\n".repeat(1_000);
        let payload = Payload::of(&[&script]);
        assert_eq!(payload.read::<Vec<String>>().unwrap(), [script.as_str()]);
        assert!(payload.read::<u32>().is_err());
        let entry = serde_json::to_string(std::slice::from_ref(&payload)).unwrap();
        assert_eq!(entry.len(), payload.bytes() + 2, "nothing is escaped twice");
        assert_eq!(serde_json::from_str::<Vec<Payload>>(&entry).unwrap(), std::slice::from_ref(&payload));
        let value = serde_json::to_value(&payload).unwrap();
        assert_eq!(serde_json::from_value::<Payload>(value).unwrap(), payload, "also by way of a JSON value");
        assert!(Arc::ptr_eq(&payload.0, &payload.clone().0), "copies share one text");
    }
}
