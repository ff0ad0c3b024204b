//! `pliant token`: tokens for programs that use the API of `pliant web`.

use clap::{Args, Subcommand};
use pliant_model::Span;
use pliant_site::services::{DurationError, parse_duration};
use pliant_web::{TokenKey, TokenScope};
use serde_json::json;

use crate::failure::Failure;
use crate::federation::{Access, Session};
use crate::local::state_folder;
use crate::output::Output;
use crate::time_text::now;

#[derive(Subcommand)]
pub(crate) enum Verb {
    /// Prints a token for the API of `pliant web`: for programs of yours, limited in time.
    Create(Create),
    /// Revokes all tokens that you have created on this machine.
    Revoke(Revoke),
}

#[derive(Args)]
pub(crate) struct Create {
    /// Permits to read only.
    #[arg(long, required_unless_present = "write", conflicts_with = "write")]
    read: bool,
    /// Permits to read and to change: to submit and to cancel jobs, and what else you may do.
    #[arg(long)]
    write: bool,
    /// How long it is good, such as 8h or 7d.
    #[arg(long = "for", value_name = "TIME", value_parser = parse_duration as fn(&str) -> Result<Span, DurationError>)]
    span: Span,
    #[command(flatten)]
    access: Access,
}

#[derive(Args)]
pub(crate) struct Revoke {
    #[command(flatten)]
    access: Access,
}

pub(crate) fn run(output: Output, verb: &Verb) -> Result<(), Failure> {
    match verb {
        Verb::Create(arguments) => create(output, arguments),
        Verb::Revoke(arguments) => revoke(output, arguments),
    }
}

/// The key of the tokens of the user of a session.
pub(super) fn key(session: &Session) -> Result<TokenKey, Failure> {
    let path = state_folder()?.join("web-tokens.key");
    Ok(TokenKey::new(&path, &session.client.user(), session.client.is_operator()))
}

fn create(output: Output, arguments: &Create) -> Result<(), Failure> {
    let session = arguments.access.open()?;
    let scope = if arguments.read { TokenScope::Read } else { TokenScope::Write };
    let until = now() + arguments.span;
    let token = key(&session)?.create(scope, until).map_err(failed)?;
    let value = json!({ "token": token, "scope": scope.word(), "not_after_s": until });
    output.print("token-create", || format!("{token}\n"), value)
}

fn revoke(output: Output, arguments: &Revoke) -> Result<(), Failure> {
    let session = arguments.access.open()?;
    let had = key(&session)?.revoke_all().map_err(failed)?;
    let text = || if had { "all tokens are revoked\n" } else { "there was no token\n" }.to_owned();
    output.print("token-revoke", text, json!({ "revoked": had }))
}

fn failed(error: std::io::Error) -> Failure {
    Failure::system(format!("the key of tokens: {error}"))
}
