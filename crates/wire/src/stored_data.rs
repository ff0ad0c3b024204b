//! Data that calls of typed services have left at a server.

use pliant_control::names::Key;
use pliant_model::Time;

use super::field::*;
use super::table::message;
use super::{bounds, proto};

message! {
    /// A query for the caller's data at a server.
    #[derive(Clone, Default, PartialEq, Eq, Debug)]
    proto::StoredDataRequest <=> pub struct StoredDataQuery {
        /// The keys of data that are deleted first.
        delete: Vec<Key> = list(KEY, bounds::DELETED_DATA_MAX).exact(),
    }

    /// The caller's data at a server.
    #[derive(Clone, Default, PartialEq, Eq, Debug)]
    proto::StoredDataReply <=> pub struct StoredDataList {
        /// Each of them, by its key.
        data: Vec<StoredDatum> = list(nested(), bounds::STORED_DATA_MAX),
        /// The most bytes that the caller may have.
        bytes_max: u64,
        /// The most data that the caller may have.
        count_max: u32,
    }

    /// Data that a call has left at a server.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    proto::StoredDatum <=> pub struct StoredDatum {
        /// Their key.
        key: Key = KEY,
        /// How long they are, encoded.
        bytes: u64,
        /// When they expire, unless a call names them before.
        expires: Time = TIME,
    }
}
