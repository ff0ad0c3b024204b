//! `pliant web`: serves the pages of a user of the federation, and opens them; or those of a portal.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use clap::Args;
use pliant_client::Client;
use pliant_telemetry::{LogFormat, logging};
use pliant_transport::Role;
use pliant_web::{PortalFile, PortalServer, ReplayCommand, WebConfig, WebError, WebServer};
use serde_json::json;
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};

use crate::daemon::wrong_file;
use crate::failure::Failure;
use crate::federation::{Access, ctrl_c, inform};
use crate::output::Output;
use crate::typed_script;
use crate::verbs::token;
use crate::work_folders;

/// The most memory of a replay.
const REPLAY_MEMORY: &str = "2G";

/// What to do about a portal that cannot be served.
const SITE_HINT: &str = "the page of the portal's file in the book describes its keys";

#[derive(Args)]
pub(crate) struct Arguments {
    /// The loopback address to serve on; port 0 takes any free port.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Prints the link only, and opens no browser.
    #[arg(long)]
    no_open: bool,
    /// Serves a portal for all users of a site, by the portal's file.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["listen", "no_open", "config"])]
    site: Option<PathBuf>,
    #[command(flatten)]
    access: Access,
}

pub(crate) fn run(output: Output, arguments: &Arguments) -> Result<(), Failure> {
    if let Some(path) = &arguments.site {
        return serve_portal(output, path);
    }
    let session = arguments.access.open()?;
    of_a_person(&session.client)?;
    let config = WebConfig {
        address: arguments.listen,
        client: session.client.clone(),
        scripts: typed_script::reader(),
        tokens: token::key(&session)?,
        work: work_folders::registry()?,
        replay: replay_command(arguments.access.words()),
    };
    let server = session.run(WebServer::bind(config)).map_err(failed)?;
    let link = server.link().unwrap_or_default();
    let value = json!({ "link": link, "address": server.address().to_string() });
    output.print("web", || format!("{link}\n"), value)?;
    inform(|| "the link opens one browser, once; Ctrl-C ends the pages".to_owned());
    let opened = if arguments.no_open { None } else { open(&link) };
    // Ctrl-C is how it ends.
    let _ = session.run_until_interrupted(server.serve());
    if let Some(page) = opened {
        // The browser has read it, or never will.
        let _ = std::fs::remove_file(page);
    }
    Ok(())
}

/// Refuses the certificate of a daemon: its pages would act with the rights of the daemon.
fn of_a_person(client: &Client) -> Result<(), Failure> {
    match client.role() {
        Role::User | Role::Operator => Ok(()),
        role @ (Role::Agent | Role::Server) => {
            let found = format!("found that of the {role} `{}`", client.user());
            Err(Failure::input(format!(
                "expected the certificate of a user or an operator in [tls], {found}"
            ))
            .hint("name a client's file with --config; `pliant ca request user NAME` asks for a certificate"))
        }
    }
}

/// Serves a portal until it is stopped.
fn serve_portal(output: Output, path: &Path) -> Result<(), Failure> {
    let file = PortalFile::read(path).map_err(wrong_file)?;
    logging(LogFormat::Text, "info").map_err(Failure::input)?;
    let runtime = Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::system(format!("cannot start: {error}")))?;
    runtime.block_on(async {
        let server = PortalServer::bind(file, typed_script::reader(), replay_command(Vec::new())).await;
        let server = server.map_err(|error| Failure::system(error).hint(SITE_HINT))?;
        let (url, address) = (server.url().to_owned(), server.address().to_string());
        let value = json!({ "link": url, "address": address });
        output.print("web", || format!("{url} on {address}\n"), value)?;
        tokio::select! {
            () = server.serve() => {}
            () = stopped() => {}
        }
        Ok(())
    })
}

/// Waits for Ctrl-C, or for the signal by which systemd stops a service.
async fn stopped() {
    let Ok(mut terminated) = signal(SignalKind::terminate()) else { return ctrl_c().await };
    tokio::select! {
        () = ctrl_c() => {}
        _ = terminated.recv() => {}
    }
}

/// The command of a replay, with the client file of these pages or that of a user of a portal.
fn replay_command(access: Vec<OsString>) -> ReplayCommand {
    Arc::new(move |request| {
        let mut command = Command::new(std::env::current_exe().unwrap_or_else(|_| PathBuf::from("pliant")));
        command.args(["--format", "json", "what-if", "--schedule", "--mem", REPLAY_MEMORY]).args(&access);
        if let Some(file) = &request.client_file {
            command.arg("--config").arg(file);
        }
        command.arg(format!("--since={}h", request.hours));
        // A word that begins with a dash is no option.
        command.args(request.policies.iter().map(|policy| format!("--policy={policy}")));
        command
    })
}

fn failed(error: WebError) -> Failure {
    let failure = match error {
        WebError::NotLoopback { .. } => Failure::input(&error),
        WebError::Listen { .. } | WebError::Random(_) => Failure::system(&error),
    };
    match error.hint() {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

/// Opens the link in the browser of this display; the file that leads there. None without a display or a browser.
fn open(link: &str) -> Option<PathBuf> {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let opener = if cfg!(target_os = "macos") {
        "open"
    } else if is_set("DISPLAY") || is_set("WAYLAND_DISPLAY") {
        "xdg-open"
    } else {
        return None;
    };
    // Other users can read the words of a command, and could spend the link: a file of the user's own has it.
    let page = match leading_page(link) {
        Ok(page) => page,
        Err(error) => {
            inform(|| format!("cannot open a browser: {error}; open the link yourself"));
            return None;
        }
    };
    let mut command = Command::new(opener);
    command.arg(&page).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if let Err(error) = command.spawn() {
        inform(|| format!("cannot open a browser with {opener}: {error}; open the link yourself"));
    }
    Some(page)
}

/// A page that only its owner can read and that leads to the link.
fn leading_page(link: &str) -> std::io::Result<PathBuf> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|dir| dir.is_dir());
    let folder = runtime.unwrap_or_else(std::env::temp_dir);
    let path = folder.join(format!("pliant-web-{}.html", std::process::id()));
    let mut file = new_private_file(&path)?;
    // The link has no character that means something in HTML.
    writeln!(
        file,
        "<!doctype html><meta http-equiv=\"refresh\" content=\"0;url={link}\"><a href=\"{link}\">Pliant</a>"
    )?;
    Ok(path)
}

/// A file that did not exist before and that only its owner can read.
fn new_private_file(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_page_with_the_link_is_for_its_owner_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("page.html");
        let file = new_private_file(&path).unwrap();
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert!(new_private_file(&path).is_err(), "a file that another user has made is not used");
    }
}
