//! The web page of a user of a federation: `pliant web`.
//!
//! It serves on a loopback address and calls the federation with the user's own certificate, as every other verb does, so it needs
//! no rights and no port of daemons. Pages are frames of HTML; what they show is read from the API (`/api/v1`) by one script.
//! It decides nothing: what it shows comes from the client library.

mod api;
mod assets;
mod connection;
mod extract;
mod follow;
mod guard;
mod listen;
mod open_launches;
mod origin;
mod pages;
mod plans;
mod portal;
mod problem;
mod routes;
mod script;
mod secret;
mod serve;
mod sessions;
mod several;
mod state;
mod tokens;
mod types;
mod what_if;
mod work_rows;
mod works;

pub use api::openapi;
pub use portal::{PortalError, PortalFile, PortalServer};
pub use problem::Problem;
pub use script::{ReadScript, ScriptReader, TypedScript};
pub use serve::{WebConfig, WebError, WebServer};
pub use tokens::{TokenKey, TokenScope};
pub use what_if::{ReplayCommand, ReplayRequest};
