//! `pliant ca request`, `pliant ca sign` and `pliant ca install`: the holder makes the key, and the operator never sees it.

use std::io::{self, BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use pliant_model::Time;
use pliant_transport::{
    Authority, Identity, Role, SigningRequest, install, request_certificate, request_renewal,
};
use serde_json::json;

use super::ca::{Terms, described, role, warn_of_same_name};
use crate::failure::Failure;
use crate::output::Output;

#[derive(Args)]
pub(super) struct Request {
    /// The role of the holder.
    #[arg(value_name = "ROLE", value_parser = role(), required_unless_present = "renew")]
    role: Option<Role>,
    /// The name of the holder: lower-case letters, digits and -; for people also _ . and @.
    #[arg(value_name = "NAME", required_unless_present = "renew")]
    name: Option<String>,
    /// The folder of the holder, to write key.pem and request.pem to; with --renew key.new.pem and request.pem.
    #[arg(long, value_name = "DIR", default_value = ".")]
    out: PathBuf,
    /// Asks for the next certificate of the folder's holder, with a new key.
    #[arg(long, conflicts_with_all = ["role", "name"])]
    renew: bool,
    /// With --renew: keeps the present key.
    #[arg(long, requires = "renew")]
    same_key: bool,
}

#[derive(Args)]
pub(super) struct Sign {
    /// The request that `pliant ca request` wrote.
    #[arg(value_name = "REQUEST")]
    request: PathBuf,
    /// The role of the holder, which the request must say; a terminal asks for it.
    #[arg(value_name = "ROLE", value_parser = role(), requires = "name")]
    role: Option<Role>,
    /// The name of the holder, which the request must say; a terminal asks for it.
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// The folder of the authority.
    #[arg(long, value_name = "DIR")]
    ca: PathBuf,
    /// The file to write the certificate to; by default ROLE-NAME.pem beside the request.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    terms: Terms,
}

#[derive(Args)]
pub(super) struct Install {
    /// The certificate that the operator signed.
    #[arg(value_name = "CERTIFICATE")]
    certificate: PathBuf,
    /// The folder of the holder, in which `pliant ca request` made the key.
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// The authority's ca.pem, to copy into the folder; by default the one that is there.
    #[arg(long, value_name = "FILE")]
    authority: Option<PathBuf>,
}

pub(super) fn run_request(output: Output, arguments: &Request) -> Result<(), Failure> {
    let dir = &arguments.out;
    let written = match (arguments.role, &arguments.name) {
        (Some(role), Some(name)) => {
            request_certificate(dir, &Identity::new(role, name).map_err(Failure::input)?)?
        }
        _ => request_renewal(dir, arguments.same_key)?,
    };
    let value = json!({
        "role": written.identity.role().name(),
        "name": written.identity.name(),
        "key_sha256": written.fingerprint,
        "request": written.request,
        "key": written.key,
    });
    let text = || {
        format!(
            "wrote a request for {} to {}\n  key  {}\nsend the request to an operator, and the key's number on another way; {} stays here\n",
            written.identity,
            written.request.display(),
            written.fingerprint,
            written.key.display(),
        )
    };
    output.print("ca-request", text, value)
}

pub(super) fn run_sign(output: Output, arguments: &Sign, now: Time) -> Result<(), Failure> {
    let authority = Authority::open(&arguments.ca)?;
    let request = SigningRequest::read(&arguments.request)?;
    let identity = match (arguments.role, &arguments.name) {
        (Some(role), Some(name)) => Identity::new(role, name).map_err(Failure::input)?,
        _ => confirmed(&request, arguments)?,
    };
    let file = arguments.out.clone().unwrap_or_else(|| {
        arguments.request.with_file_name(format!("{}-{}.pem", identity.role(), identity.name()))
    });
    if file.exists() && !arguments.terms.renew {
        let failure = Failure::input(format!("{}: expected no file, found one", file.display()));
        return Err(failure.hint("choose another file with --out, or renew with --renew"));
    }
    warn_of_same_name(&authority, &identity)?;
    let order = arguments.terms.order(identity);
    let issued = authority.sign(&request, &order, now)?;
    write(&file, &issued.cert_pem)?;
    let record = issued.record;
    let mut value = described(&record, now);
    value["key_sha256"] = json!(request.fingerprint);
    value["files"] = json!({ "cert": file, "ca": authority.ca_path(), "crl": authority.crl_path() });
    let text = || {
        format!(
            "signed {} for {}, until {}\n  key  {}\nsend the holder {}, {} and {}\n",
            record.serial,
            record.holder(),
            record.last_day(),
            request.fingerprint,
            file.display(),
            authority.ca_path().display(),
            authority.crl_path().display(),
        )
    };
    output.print("ca-sign", text, value)
}

/// The holder that the request names, if the operator at the terminal gives the same.
fn confirmed(request: &SigningRequest, arguments: &Sign) -> Result<Identity, Failure> {
    let SigningRequest { identity, fingerprint, .. } = request;
    if !io::stdin().is_terminal() {
        let found =
            format!("expected the role and the name of the holder, found none; the request says {identity}");
        let file = arguments.request.display();
        return Err(Failure::input(found).hint(format!(
            "if that is who sent it: `pliant ca sign {file} {} {} --ca {}`; its key is {fingerprint}",
            identity.role(),
            identity.name(),
            arguments.ca.display(),
        )));
    }
    let question = format!(
        "The request asks for a certificate of {identity}\n  key  {fingerprint}\n\
         Anybody can write such a request. Compare the key with the holder, then type the role and the name (ROLE/NAME): "
    );
    // An unseen question is answered all the same, or not.
    let _ = io::stderr().write_all(question.as_bytes());
    let mut line = String::new();
    io::stdin()
        .lock()
        .read_line(&mut line)
        .map_err(|error| Failure::system(format!("cannot read: {error}")))?;
    if line.trim() == identity.to_string() {
        return Ok(identity.clone());
    }
    Err(Failure::input(format!(
        "expected {identity}, found `{}`; nothing was signed",
        line.trim().escape_debug()
    )))
}

pub(super) fn run_install(output: Output, arguments: &Install) -> Result<(), Failure> {
    let installed = install(&arguments.dir, &arguments.certificate, arguments.authority.as_deref())?;
    let (peer, files) = (&installed.peer, &installed.files);
    let value = json!({
        "serial": peer.serial.as_str(),
        "role": peer.role.name(),
        "name": peer.name,
        "not_after_s": peer.not_after,
        "files": { "ca": files.ca, "cert": files.cert, "key": files.key },
    });
    let text = || {
        format!(
            "put {} of {peer} into use in {}; daemons use it for new connections without a restart\n",
            peer.serial,
            arguments.dir.display()
        )
    };
    output.print("ca-install", text, value)
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text).map_err(|error| Failure::io(path, "write", &error))
}
