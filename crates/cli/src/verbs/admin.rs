//! `pliant admin`: the acts of operators, which the journals of servers keep.

use clap::{Args, Subcommand};
use pliant_control::names::Name;
use pliant_control::server::Drain;
use pliant_wire::AdminOrder;
use serde_json::json;

use crate::failure::Failure;
use crate::federation::Access;
use crate::output::Output;
use crate::verbs::{admin_backup, admin_forget, admin_job, admin_limit, admin_log, admin_user};

#[derive(Subcommand)]
pub(crate) enum Verb {
    /// Has a server accept no new jobs; those that it has wait, move away, run and end as before.
    Drain(Arguments),
    /// Has a drained server accept jobs again.
    Resume(Arguments),
    /// Keeps waiting jobs from starting.
    Hold(admin_job::Arguments),
    /// Lets held jobs start again.
    Release(admin_job::Arguments),
    /// Serves a waiting job before or after the others in the queue of its server.
    Priority(admin_job::PriorityArguments),
    /// Has servers accept nothing of a user and start none of the user's waiting jobs, or lists the banned users; running jobs go on.
    Ban(admin_user::BanArguments),
    /// Ends the ban of a user.
    Unban(admin_user::Arguments),
    /// Limits what a user may have running and waiting at servers, or lists the limits of users.
    Limit(admin_limit::Arguments),
    /// Declares lost a server that is down and whose state is gone: its jobs end.
    Forget(admin_forget::Arguments),
    /// Lists the audit trail of servers and agents: who did what, when and why.
    Log(admin_log::Arguments),
    /// Copies the state folder of a server or agent on this host while it runs, to be restored later.
    Backup(admin_backup::Arguments),
}

#[derive(Args)]
pub(crate) struct Arguments {
    /// The server.
    #[arg(value_name = "SERVER")]
    server: Name,
    /// The reason, of one line; the server journals it, and shows that of a drain to users.
    #[arg(long, value_name = "TEXT")]
    why: String,
    #[command(flatten)]
    access: Access,
}

pub(crate) fn run(output: Output, verb: &Verb) -> Result<(), Failure> {
    let (arguments, drains) = match verb {
        Verb::Drain(arguments) => (arguments, true),
        Verb::Resume(arguments) => (arguments, false),
        Verb::Hold(arguments) => return admin_job::run(output, arguments, true),
        Verb::Release(arguments) => return admin_job::run(output, arguments, false),
        Verb::Priority(arguments) => return admin_job::run_priority(output, arguments),
        Verb::Ban(arguments) => return admin_user::run_ban(output, arguments),
        Verb::Unban(arguments) => return admin_user::run_unban(output, arguments),
        Verb::Limit(arguments) => return admin_limit::run(output, arguments),
        Verb::Forget(arguments) => return admin_forget::run(output, arguments),
        Verb::Backup(arguments) => return admin_backup::run(output, arguments),
        Verb::Log(arguments) => return admin_log::run(output, arguments),
    };
    let Arguments { server, why, access } = arguments;
    let session = access.open()?;
    let order = AdminOrder { why: why.clone() };
    let drained = session.run(async {
        match drains {
            true => session.client.drain(server, &order).await,
            false => session.client.resume(server, &order).await,
        }
    })?;
    let value = json!({
        "server": server,
        "drained": drained.as_ref().map(|Drain { at, by, why }| json!({ "at_s": at.0, "by": by, "why": why })),
    });
    output.print("admin", || line(server, drained.as_ref()), value)
}

fn line(server: &Name, drained: Option<&Drain>) -> String {
    match drained {
        Some(_) => format!("{server} accepts no new jobs\n"),
        None => format!("{server} accepts jobs\n"),
    }
}
