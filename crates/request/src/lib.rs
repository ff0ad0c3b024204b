//! What users ask for: the options of `pliant submit`, `sweep`, `explore` and `launch`, the lines of scripts and the files of
//! applications become orders of the client library.
//!
//! The command, the web pages and the Python package read options here, so that a word means the same to each of them.

pub mod application;
pub mod client_file;
mod error;
pub mod executable_options;
pub mod explore;
pub mod instants;
pub mod job_files;
pub mod launch;
pub mod local_federation;
pub mod numbers;
mod option_places;
pub mod parameter_options;
pub mod registries;
pub mod resource_options;
pub mod runs;
mod sbatch_options;
pub mod schedule_options;
pub mod script_directives;
pub mod sending;
pub mod service_arguments;
pub mod submission_note;
pub mod submit;
pub mod submit_options;
pub mod sweep;
pub mod task_array;
pub mod task_indices;
pub mod usage_error;
pub mod words;
pub mod work_folders;

pub use error::RequestError;
