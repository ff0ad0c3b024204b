//! The users of a portal: by their claims, and with their identities.
//!
//! Each user who has a session has a client with the user's own certificate and one follower of the federation, made when they
//! are first needed and ended when they are not used. So each sees and does what the certificate allows, and daemons' audit
//! trails name the user.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use axum::Router;
use http::StatusCode;
use parking_lot::Mutex;
use pliant_client::{Client, ClientFile};
use pliant_control::names::User;
use pliant_model::Time;
use pliant_transport::{AgentAddress, Credentials, MasterAddress};
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;

use super::file::LoginSection;
use super::id_token::Claims;
use super::tokens::PortalTokens;
use crate::problem::Problem;
use crate::routes::content;
use crate::script::ScriptReader;
use crate::state::Web;
use crate::what_if::{AT_PORTAL_MAX, ReplayCommand, WhatIf};

/// The most event streams of a user.
pub(super) const STREAMS_MAX: usize = 16;
/// How soon the end of a user's certificate is a warning: those of portals are short-lived, and are renewed by a timer.
const CERTIFICATE_WARNING_S: i64 = 43_200;
/// How long a user without requests and open pages is kept, in seconds.
const IDLE_S: i64 = 300;

/// What the pages of every user have.
pub(super) struct ForAll {
    pub(super) agents: Vec<AgentAddress>,
    pub(super) masters: Vec<MasterAddress>,
    pub(super) scripts: ScriptReader,
    pub(super) replay: ReplayCommand,
    pub(super) tokens: Option<Arc<PortalTokens>>,
}

/// The users that are served now.
pub(super) struct OpenUsers {
    identities: PathBuf,
    for_all: ForAll,
    /// The only users, if the portal's file names them.
    named: Option<BTreeSet<User>>,
    /// Permits of replays.
    replays: Arc<Semaphore>,
    most: usize,
    open: Mutex<BTreeMap<User, OpenUser>>,
}

/// The pages and calls of a user.
#[derive(Clone)]
pub(super) struct UserPages {
    pub(super) router: Router,
    pub(super) is_operator: bool,
}

/// A user that is served now.
struct OpenUser {
    web: Arc<Web>,
    pages: UserPages,
    polls: AbortHandle,
    used: Time,
    /// The files of the identity that it was made from.
    version: IdentityVersion,
}

/// When the certificate and the key of an identity were changed, and whether it has a revocation list. Changes of the list are followed by
/// the client.
#[derive(Clone, Copy, PartialEq, Eq)]
struct IdentityVersion {
    changed: [Option<SystemTime>; 2],
    has_list: bool,
}

impl IdentityVersion {
    fn of(files: &Credentials) -> IdentityVersion {
        let changed = |file: &Path| std::fs::metadata(file).ok()?.modified().ok();
        IdentityVersion {
            changed: [changed(&files.cert), changed(&files.key)],
            has_list: files.crl.as_ref().is_some_and(|list| list.exists()),
        }
    }
}

impl Drop for OpenUser {
    fn drop(&mut self) {
        self.polls.abort();
    }
}

impl OpenUsers {
    /// No user yet.
    ///
    /// # Errors
    ///
    /// If the folder of identities cannot be read, or is open to others.
    pub(super) fn new(
        identities: &Path,
        login: &LoginSection,
        for_all: ForAll,
        most: usize,
    ) -> Result<OpenUsers, String> {
        check_private(identities, "identities")?;
        Ok(OpenUsers {
            identities: identities.to_owned(),
            for_all,
            named: login.users.as_ref().map(|users| users.values().cloned().collect()),
            replays: Arc::new(Semaphore::new(AT_PORTAL_MAX)),
            most,
            open: Mutex::default(),
        })
    }

    /// True if the portal knows this user: the user has a folder among the identities, and is named if the portal's file names users. An
    /// error is no answer: the folder of a user who stays may be out of reach for a while.
    pub(super) fn has(&self, user: &User) -> std::io::Result<bool> {
        let is_named = self.named.as_ref().is_none_or(|named| named.contains(user));
        Ok(is_named && self.identities.join(user.as_str()).try_exists()?)
    }

    /// The pages and calls of a user.
    ///
    /// # Errors
    ///
    /// If the user has no identity at this portal, or too many users are served.
    pub(super) fn pages(&self, user: &User, now: Time) -> Result<UserPages, Problem> {
        let folder = self.identities.join(user.as_str());
        let files = Credentials::in_folder(&folder);
        let version = IdentityVersion::of(&files);
        if let Some(pages) = self.known(user, version, now) {
            return Ok(pages);
        }
        // Without the lock: requests of other users do not wait for these files.
        let client = self.client_file(user, files).and_then(|file| Ok((self.client(user, &file)?, file)));
        let mut open = self.open.lock();
        // Another request may have been faster.
        if let Some(known) = open.get(user).filter(|known| known.version == version) {
            return Ok(known.pages.clone());
        }
        // A renewed certificate, or one that was taken away.
        let before = open.remove(user).and_then(|user| user.web.what_if.clone());
        let (client, file) = client.inspect_err(|_| before.iter().for_each(|what_if| what_if.cancel()))?;
        if open.len() >= self.most && !end_idlest(&mut open) {
            let problem = format!("expected at most {} users at a time, found one more", self.most);
            return Err(
                Problem::new(StatusCode::SERVICE_UNAVAILABLE, problem).hint("try again in some minutes")
            );
        }
        // A replay that runs goes on when a certificate is renewed.
        let what_if = before.unwrap_or_else(|| {
            Arc::new(WhatIf::at_portal(self.for_all.replay.clone(), file, self.replays.clone()))
        });
        let is_operator = client.is_operator();
        let tokens = self.for_all.tokens.as_ref().map(|tokens| tokens.issuer(user, is_operator));
        let scripts = self.for_all.scripts.clone();
        let web = Web::with_streams(client, scripts, STREAMS_MAX, CERTIFICATE_WARNING_S);
        let web = Arc::new(web.with_what_if(what_if).with_tokens(tokens));
        let polls = tokio::spawn(web.follower.clone().run()).abort_handle();
        let pages = UserPages { router: content(web.clone()), is_operator };
        open.insert(user.clone(), OpenUser { web, pages: pages.clone(), polls, used: now, version });
        Ok(pages)
    }

    /// The pages of a user who is served with these files already.
    fn known(&self, user: &User, version: IdentityVersion, now: Time) -> Option<UserPages> {
        let mut open = self.open.lock();
        let known = open.get_mut(user).filter(|known| known.version == version)?;
        known.used = known.used.max(now);
        Some(known.pages.clone())
    }

    /// A client's file with the identity of a user.
    fn client_file(&self, user: &User, mut tls: Credentials) -> Result<ClientFile, Problem> {
        if !tls.cert.exists() {
            let problem =
                format!("expected an identity of the federation user {user} at this portal, found none");
            return Err(Problem::new(StatusCode::FORBIDDEN, problem).hint(identity_hint(user)));
        }
        tls.crl = tls.crl.filter(|crl| crl.exists());
        Ok(ClientFile {
            agent: self.for_all.agents.clone(),
            master: self.for_all.masters.clone(),
            tls,
            shared: Default::default(),
        })
    }

    /// The client of that file, which must be of the user.
    fn client(&self, user: &User, file: &ClientFile) -> Result<Client, Problem> {
        let unusable = |why: String| {
            // Operators find the reason in the log.
            tracing::warn!(%user, why, "an identity cannot be used");
            let problem = format!("the identity of the federation user {user} at this portal cannot be used");
            Problem::new(StatusCode::FORBIDDEN, problem).hint(identity_hint(user))
        };
        let client = Client::new(file).map_err(|error| unusable(error.to_string()))?;
        match client.user() == user.as_str() {
            true => Ok(client),
            false => {
                Err(unusable(format!("expected a certificate of {user}, found one of {}", client.user())))
            }
        }
    }

    /// Ends what is kept of users without requests, open pages and replays.
    pub(super) fn end_idle(&self, now: Time) {
        let is_idle = |user: &OpenUser| now.0 - user.used.0 >= IDLE_S && !user.is_busy();
        self.open.lock().retain(|_, user| !is_idle(user));
    }

    /// Ends what is kept of a user.
    pub(super) fn end(&self, user: &User) {
        let ended = self.open.lock().remove(user);
        ended.and_then(|user| user.web.what_if.clone()).iter().for_each(|what_if| what_if.cancel());
    }
}

impl OpenUser {
    /// True while the user has an open page or a replay that runs.
    fn is_busy(&self) -> bool {
        self.web.follower.changes().is_followed()
            || self.web.what_if.as_ref().is_some_and(|one| one.is_running())
    }
}

fn identity_hint(user: &User) -> String {
    format!("ask the operators for an identity of the federation user {user} at this portal")
}

/// Ends the user without open pages and replays who was served least recently; false if all have some.
fn end_idlest(open: &mut BTreeMap<User, OpenUser>) -> bool {
    let idle = open.iter().filter(|(_, user)| !user.is_busy());
    let idlest = idle.min_by_key(|(_, user)| user.used).map(|(user, _)| user.clone());
    idlest.is_some_and(|user| open.remove(&user).is_some())
}

/// Checks that other users of the machine have no access to a file or a folder.
pub(super) fn check_private(path: &Path, key: &str) -> Result<(), String> {
    let shown = path.display();
    let metadata = std::fs::metadata(path).map_err(|error| format!("{key}: cannot read {shown}: {error}"))?;
    let mode = metadata.permissions().mode() & 0o777;
    match mode & 0o007 {
        0 => Ok(()),
        _ => Err(format!("{key}: expected {shown} to be closed to others, found mode {mode:03o}")),
    }
}

/// The federation user that the claims of an ID token name.
///
/// # Errors
///
/// If they name none.
pub(super) fn user_of(login: &LoginSection, claims: &Claims) -> Result<User, Problem> {
    let LoginSection { claim, suffix, users, .. } = login;
    let refused = |problem: String| {
        let hint = "ask the operators of this portal which users may log in";
        Problem::new(StatusCode::FORBIDDEN, problem).hint(hint)
    };
    let Some(Value::String(value)) = claims.get(claim) else {
        return Err(refused(format!(
            "expected the claim {claim} in the ID token of the provider, found none"
        )));
    };
    // Anyone can say of an address that it is theirs.
    if claim == "email" && claims.get("email_verified") != Some(&Value::Bool(true)) {
        return Err(refused(
            "expected an address that the provider has verified, found another one".to_owned(),
        ));
    }
    let shown = value.escape_debug();
    if let Some(users) = users {
        let found = users.get(value).cloned();
        return found.ok_or_else(|| refused(format!("`{shown}` is no user of this portal")));
    }
    // `a@b@site` is another address than `a@site`, so it names no user.
    let is_plain = |name: &&str| suffix.is_empty() || !name.contains('@');
    let name = value.strip_suffix(suffix.as_str()).filter(is_plain);
    let name =
        name.ok_or_else(|| refused(format!("expected a {claim} that ends with {suffix}, found `{shown}`")))?;
    name.parse().map_err(|error| refused(format!("{claim}: {error}")))
}

#[cfg(test)]
mod tests {
    use pliant_transport::{Authority, CertificateRequest, Identity, Role};
    use serde_json::json;

    use super::*;

    fn login(keys: &str) -> LoginSection {
        let claim = if keys.is_empty() { "claim = \"sub\"\n" } else { keys };
        let text = format!("issuer = \"https://x\"\nclient_id = \"c\"\nclient_secret = \"s\"\n{claim}");
        pliant_config::Source::new(Path::new("x"), text).parse("").unwrap()
    }

    fn found(keys: &str, claims: Value) -> Result<String, String> {
        let claims = claims.as_object().unwrap().clone();
        user_of(&login(keys), &claims)
            .map(|user| user.to_string())
            .map_err(|problem| problem.detail().to_owned())
    }

    #[test]
    fn a_claim_names_a_user() {
        let name = "claim = \"preferred_username\"\n";
        assert_eq!(found(name, json!({ "preferred_username": "alice" })), Ok("alice".to_owned()));
        for wrong in [json!({}), json!({ "preferred_username": 7 }), json!({ "sub": "alice" })] {
            assert!(found(name, wrong).unwrap_err().contains("expected the claim preferred_username"));
        }
        for wrong in ["", "../alice", "a/b", "alice\n", ".."] {
            let error = found(name, json!({ "preferred_username": wrong })).unwrap_err();
            assert!(error.starts_with("preferred_username: expected"), "{wrong:?}: {error}");
        }
        let mail = "claim = \"email\"\nsuffix = \"@site.example\"\n";
        let address =
            |address: &str, verified: Value| json!({ "email": address, "email_verified": verified });
        assert_eq!(found(mail, address("bob@site.example", json!(true))), Ok("bob".to_owned()));
        for (text, verified) in [
            ("bob@site.example", json!(false)),
            ("bob@site.example", json!("true")),
            ("bob@evil.example", json!(true)),
            ("bob@evil.example@site.example", json!(true)),
            ("@site.example", json!(true)),
        ] {
            assert!(found(mail, address(text, verified.clone())).is_err(), "{text} {verified}");
        }
        let table = "claim = \"sub\"\nusers = { \"248-17\" = \"carol\" }\n";
        assert_eq!(found(table, json!({ "sub": "248-17" })), Ok("carol".to_owned()));
        assert!(found(table, json!({ "sub": "carol" })).unwrap_err().contains("no user of this portal"));
    }

    #[test]
    fn others_have_no_access_to_secrets() {
        let dir = tempfile::tempdir().unwrap();
        let mode = |mode| {
            std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(mode)).unwrap();
            check_private(dir.path(), "identities")
        };
        assert_eq!((mode(0o700), mode(0o750)), (Ok(()), Ok(())));
        assert!(mode(0o755).unwrap_err().contains("mode 755") && mode(0o701).is_err());
        assert!(check_private(&dir.path().join("none"), "identities").is_err());
    }

    /// Users with identities of alice and bob, and the authority.
    fn two_users() -> (OpenUsers, Authority, tempfile::TempDir) {
        let dir = tempfile::tempdir().unwrap();
        let now = crate::types::now();
        let authority = Authority::init(&dir.path().join("ca"), "test", now).unwrap();
        let identities = dir.path().join("identities");
        std::fs::create_dir(&identities).unwrap();
        std::fs::set_permissions(&identities, std::fs::Permissions::from_mode(0o700)).unwrap();
        for name in ["alice", "bob"] {
            let request = CertificateRequest::new(Identity::new(Role::User, name).unwrap());
            authority.issue_into(&identities.join(name), &request, now).unwrap();
        }
        let agent = AgentAddress { name: "master".parse().unwrap(), address: "127.0.0.1:9".to_owned() };
        let none = || Problem::unprocessable("no scripts");
        let scripts = ScriptReader::new(move |_| Err(none()), move |_, _| Err(none()));
        let replay: ReplayCommand = Arc::new(|_| std::process::Command::new("false"));
        let for_all = ForAll { agents: vec![agent], masters: Vec::new(), scripts, replay, tokens: None };
        (OpenUsers::new(&identities, &login(""), for_all, 10).unwrap(), authority, dir)
    }

    #[tokio::test]
    async fn a_revocation_list_that_comes_later_is_followed() {
        let (users, authority, dir) = two_users();
        let alice: User = "alice".parse().unwrap();
        let list = dir.path().join("identities/alice/crl.pem");
        // `issue_into` may have put one there.
        let _ = std::fs::remove_file(&list);
        let web = |at| {
            drop(users.pages(&alice, Time(at)).unwrap());
            users.open.lock()[&alice].web.clone()
        };
        let first = web(1);
        assert!(Arc::ptr_eq(&first, &web(2)));
        std::fs::copy(authority.crl_path(), &list).unwrap();
        let second = web(3);
        assert!(!Arc::ptr_eq(&first, &second), "a client that knows the list");
        assert!(Arc::ptr_eq(&second, &web(4)));
    }

    /// A certificate on a file system that hangs.
    #[tokio::test(flavor = "multi_thread")]
    async fn files_of_a_user_that_cannot_be_read_keep_no_other_user_waiting() {
        let (users, _, dir) = two_users();
        let cert = dir.path().join("identities/bob/cert.pem");
        std::fs::remove_file(&cert).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&cert).status().unwrap().success());
        let users = Arc::new(users);
        let (of_bob, began) = (users.clone(), Arc::new(std::sync::Barrier::new(2)));
        let begin = began.clone();
        let waiting = tokio::task::spawn_blocking(move || {
            begin.wait();
            of_bob.pages(&"bob".parse().unwrap(), Time(1)).map(drop)
        });
        began.wait();
        // Opened once the file is being read, so that the other task is in the middle of it.
        let open =
            tokio::task::spawn_blocking(move || std::fs::OpenOptions::new().write(true).open(cert).unwrap());
        let pipe = open.await.unwrap();
        drop(users.pages(&"alice".parse().unwrap(), Time(1)).unwrap());
        drop(pipe);
        assert!(waiting.await.unwrap().is_err(), "an empty file is no certificate");
    }
}
