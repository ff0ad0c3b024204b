//! `pliant ca`: the authority of a federation, and the certificates of its daemons and people.

use std::path::PathBuf;
use std::time::SystemTime;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use pliant_model::Time;
use pliant_transport::{
    Authority, AuthorityError, CertificateRecord, CertificateRequest, Credentials, DAYS_DEFAULT, Identity,
    Revocation, Role,
};
use serde_json::{Value, json};

use super::{ca_request, ca_rollover};
use crate::failure::Failure;
use crate::numbers::whole;
use crate::output::Output;
use crate::table::{Table, counted};

#[derive(Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Creates the authority of a new federation in a folder.
    Init(Init),
    /// Issues a certificate with its key.
    Issue(Issue),
    /// Makes a key, and a request for its certificate; the key stays on this machine.
    Request(ca_request::Request),
    /// Signs the certificate that a request asks for.
    Sign(ca_request::Sign),
    /// Puts a signed certificate into use, in the folder of its key.
    Install(ca_request::Install),
    /// Revokes certificates; daemons refuse their holders once they have the new list.
    Revoke(Revoke),
    /// Lists all certificates.
    List(List),
    /// Replaces the root of the authority, in steps, while the federation runs.
    Rollover(ca_rollover::Rollover),
}

#[derive(Args)]
struct Init {
    /// The folder of the authority; its key signs every identity in the federation.
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// The name of the federation.
    #[arg(long, value_name = "NAME", default_value = "pliant")]
    name: String,
}

#[derive(Args)]
struct Issue {
    /// The folder of the authority.
    #[arg(long, value_name = "DIR")]
    ca: PathBuf,
    /// The role of the holder.
    #[arg(value_name = "ROLE", value_parser = role())]
    role: Role,
    /// The name of the holder: lower-case letters, digits and -; for people also _ . and @.
    #[arg(value_name = "NAME")]
    name: String,
    /// The folder to write ca.pem, cert.pem, key.pem and crl.pem to.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    #[command(flatten)]
    terms: Terms,
}

/// What a certificate is issued for, beside its holder.
#[derive(Args)]
pub(super) struct Terms {
    /// The validity of the certificate in days.
    #[arg(long, value_name = "N", default_value_t = DAYS_DEFAULT, value_parser = whole(1..=u32::MAX), allow_negative_numbers = true)]
    days: u32,
    /// Further DNS names and addresses of a daemon, for tools other than Pliant.
    #[arg(long = "also", value_name = "HOST")]
    extra_names: Vec<String>,
    /// Issues another certificate to a holder that has one, and replaces its files.
    #[arg(long)]
    pub(super) renew: bool,
}

impl Terms {
    /// The order for the certificate of a holder.
    pub(super) fn order(&self, identity: Identity) -> CertificateRequest {
        let Terms { days, extra_names, renew } = self;
        CertificateRequest { identity, days: *days, extra_names: extra_names.clone(), renew: *renew }
    }
}

#[derive(Args)]
struct Revoke {
    /// The folder of the authority.
    #[arg(long, value_name = "DIR")]
    ca: PathBuf,
    /// The holder (NAME or ROLE/NAME), or the serial of one certificate.
    #[arg(value_name = "NAME|SERIAL")]
    which: String,
}

#[derive(Args)]
struct List {
    /// The folder of the authority.
    #[arg(long, value_name = "DIR")]
    ca: PathBuf,
}

pub(super) fn role() -> impl TypedValueParser<Value = Role> {
    PossibleValuesParser::new(Role::ALL.map(Role::name)).try_map(|word| word.parse::<Role>())
}

pub(crate) fn run(output: Output, arguments: &Arguments) -> Result<(), Failure> {
    let now = now()?;
    match &arguments.verb {
        Verb::Init(init) => run_init(output, init, now),
        Verb::Issue(issue) => run_issue(output, issue, now),
        Verb::Request(request) => ca_request::run_request(output, request),
        Verb::Sign(sign) => ca_request::run_sign(output, sign, now),
        Verb::Install(install) => ca_request::run_install(output, install),
        Verb::Rollover(rollover) => ca_rollover::run(output, rollover, now),
        Verb::Revoke(revoke) => run_revoke(output, revoke, now),
        Verb::List(list) => run_list(output, list, now),
    }
}

fn run_init(output: Output, arguments: &Init, now: Time) -> Result<(), Failure> {
    let authority = Authority::init(&arguments.dir, &arguments.name, now)?;
    let value = json!({
        "federation": arguments.name,
        "ca": authority.ca_path(),
        "crl": authority.crl_path(),
    });
    let text = || {
        format!(
            "created the authority of {} in {}\nkeep its ca.key secret, and keep a copy of the folder elsewhere\n",
            arguments.name,
            arguments.dir.display()
        )
    };
    output.print("ca-init", text, value)
}

fn run_issue(output: Output, arguments: &Issue, now: Time) -> Result<(), Failure> {
    let authority = Authority::open(&arguments.ca)?;
    let identity = Identity::new(arguments.role, &arguments.name).map_err(Failure::input)?;
    warn_of_same_name(&authority, &identity)?;
    let order = arguments.terms.order(identity);
    let (record, files) = authority.issue_into(&arguments.out, &order, now)?;
    let Credentials { ca, cert, key, crl } = &files;
    let mut value = described(&record, now);
    value["files"] = json!({ "ca": ca, "cert": cert, "key": key, "crl": crl });
    let text = || {
        format!(
            "issued {} to {}, until {}\nwrote the files to {}; only the holder may have key.pem\n",
            record.serial,
            record.holder(),
            record.last_day(),
            arguments.out.display()
        )
    };
    output.print("ca-issue", text, value)
}

/// Warns if a certificate makes a user and an operator of the same name.
pub(super) fn warn_of_same_name(authority: &Authority, identity: &Identity) -> Result<(), Failure> {
    if let Some(warning) = same_name(&authority.list()?, identity) {
        stderr_line!("warning: {warning}");
    }
    Ok(())
}

fn same_name(records: &[CertificateRecord], identity: &Identity) -> Option<String> {
    let other = match identity.role() {
        Role::User => Role::Operator,
        Role::Operator => Role::User,
        Role::Agent | Role::Server => return None,
    };
    let is_other = |record: &&CertificateRecord| record.role == other && record.name == identity.name();
    let holder = records.iter().find(is_other)?.holder();
    Some(format!(
        "{holder} has a certificate, too: jobs go by the name, so the holder of {identity} can submit and fetch jobs as {holder}; \
         choose another name if they are not the same person"
    ))
}

fn run_revoke(output: Output, arguments: &Revoke, now: Time) -> Result<(), Failure> {
    let authority = Authority::open(&arguments.ca)?;
    let revocation = authority.revoke(&arguments.which, now)?;
    let value = json!({
        "revoked": revocation.records.iter().map(|record| described(record, now)).collect::<Vec<_>>(),
        "newly": revocation.newly,
        "crl_number": revocation.crl_number,
        "crl": authority.crl_path(),
    });
    output.print("ca-revoke", || revoke_text(&authority, &revocation), value)
}

fn revoke_text(authority: &Authority, revocation: &Revocation) -> String {
    let before = revocation.records.len() - revocation.newly;
    let mut text = format!("revoked {}", counted(revocation.newly as u64, "certificate"));
    if before > 0 {
        text.push_str(&format!(" ({before} had been revoked before)"));
    }
    text.push('\n');
    for record in &revocation.records {
        text.push_str(&format!("  {}  {}\n", record.serial, record.holder()));
    }
    text.push_str(&format!(
        "list {} is in {}: daemons on other hosts need a copy, and read it without a restart\n",
        revocation.crl_number,
        authority.crl_path().display()
    ));
    text
}

fn run_list(output: Output, arguments: &List, now: Time) -> Result<(), Failure> {
    let authority = Authority::open(&arguments.ca)?;
    let (federation, records) = (authority.federation()?, authority.list()?);
    let value = json!({
        "federation": federation,
        "certificates": records.iter().map(|record| described(record, now)).collect::<Vec<_>>(),
    });
    let text = || {
        let mut table = Table::new(5, &["role", "name", "state", "until", "serial"]);
        for record in &records {
            table.row(vec![
                record.role.to_string(),
                record.name.clone(),
                record.state(now).to_owned(),
                record.last_day(),
                record.serial.to_string(),
            ]);
        }
        format!("{federation}: {}\n{}", counted(records.len() as u64, "certificate"), table.render())
    };
    output.print("ca-list", text, value)
}

pub(super) fn described(record: &CertificateRecord, now: Time) -> Value {
    json!({
        "serial": record.serial.as_str(),
        "role": record.role.name(),
        "name": record.name,
        "state": record.state(now),
        "issued_s": record.issued,
        "not_after_s": record.not_after,
        "revoked_s": record.revoked,
    })
}

/// Whole seconds since the Unix epoch.
fn now() -> Result<Time, Failure> {
    let elapsed = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok();
    let seconds = elapsed.and_then(|elapsed| i64::try_from(elapsed.as_secs()).ok());
    let early = || Failure::system("expected a clock after 1970, found one before").hint("set the clock");
    seconds.map(Time).ok_or_else(early)
}

impl From<AuthorityError> for Failure {
    fn from(error: AuthorityError) -> Failure {
        let failure = if error.is_input() { Failure::input(&error) } else { Failure::system(&error) };
        match error.hint() {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_and_an_operator_of_one_name_are_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let authority = Authority::init(dir.path(), "test", Time(0)).unwrap();
        let identity = |role, name: &str| Identity::new(role, name).unwrap();
        let request = CertificateRequest::new(identity(Role::User, "alice"));
        authority.issue(&request, Time(0)).unwrap();
        let check = |role, name: &str| same_name(&authority.list().unwrap(), &identity(role, name));
        let found = check(Role::Operator, "alice").unwrap();
        assert!(
            found.contains("the holder of operator/alice can submit and fetch jobs as user/alice"),
            "{found}"
        );
        for (role, name) in [(Role::Operator, "bob"), (Role::User, "alice"), (Role::Server, "alice")] {
            assert_eq!(check(role, name), None);
        }
    }
}
