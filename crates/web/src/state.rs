//! What all pages and calls share.

use std::sync::Arc;

use pliant_client::Client;
use tokio::sync::Semaphore;

use crate::follow::Follower;
use crate::open_launches::OpenLaunches;
use crate::plans::Plans;
use crate::script::ScriptReader;
use crate::tokens::TokenIssuer;
use crate::types::{CERTIFICATE_WARNING_S, SessionView};
use crate::what_if::WhatIf;
use crate::works::Works;

/// The most event streams that are open at a time.
pub(crate) const STREAMS_MAX: usize = 64;

/// The most requests with a body that are answered at a time: their bodies are in memory.
pub(crate) const BODIES_MAX: usize = 16;

/// The most submissions of one user that send input files of earlier jobs at a time, of those of all users.
pub(crate) const COPIES_MAX: usize = 2;

/// What all pages share.
pub(crate) struct Web {
    pub(crate) follower: Arc<Follower>,
    pub(crate) scripts: ScriptReader,
    /// Permits of event streams.
    pub(crate) streams: Arc<Semaphore>,
    /// Permits of requests with a body.
    pub(crate) bodies: Arc<Semaphore>,
    /// Permits of submissions of this user that send input files of earlier jobs.
    pub(crate) copies: Arc<Semaphore>,
    /// How many streams may be open.
    pub(crate) streams_max: usize,
    /// The present plans of waiting jobs.
    pub(crate) plans: Plans,
    /// The launches that have processors or wait for some.
    pub(crate) launches: OpenLaunches,
    /// The user's folders of sweeps and explorations, if the pages are for one user on the user's machine.
    pub(crate) works: Option<Arc<Works>>,
    /// Replays of the history, if this process may start them.
    pub(crate) what_if: Option<Arc<WhatIf>>,
    /// What creates tokens of this user, if a page does.
    pub(crate) tokens: Option<TokenIssuer>,
}

impl Web {
    /// The pages of the user of that client.
    pub(crate) fn new(client: Client, scripts: ScriptReader) -> Web {
        Web::with_streams(client, scripts, STREAMS_MAX, CERTIFICATE_WARNING_S)
    }

    /// The same with another bound of event streams, and another time before the end of the user's certificate at which there is a warning.
    pub(crate) fn with_streams(
        client: Client,
        scripts: ScriptReader,
        streams_max: usize,
        warning_s: i64,
    ) -> Web {
        Web {
            follower: Follower::new(client, warning_s),
            scripts,
            streams: Arc::new(Semaphore::new(streams_max)),
            bodies: Arc::new(Semaphore::new(BODIES_MAX)),
            copies: Arc::new(Semaphore::new(COPIES_MAX)),
            streams_max,
            plans: Plans::default(),
            launches: OpenLaunches::default(),
            works: None,
            what_if: None,
            tokens: None,
        }
    }

    /// The same with the user's folders of sweeps and explorations.
    pub(crate) fn with_works(self, works: Works) -> Web {
        Web { works: Some(Arc::new(works)), ..self }
    }

    /// The same with replays of the history.
    pub(crate) fn with_what_if(self, what_if: Arc<WhatIf>) -> Web {
        Web { what_if: Some(what_if), ..self }
    }

    /// The same with tokens that a page creates.
    pub(crate) fn with_tokens(self, tokens: Option<TokenIssuer>) -> Web {
        Web { tokens, ..self }
    }

    /// Who uses the pages.
    pub(crate) fn session_view(&self) -> SessionView {
        let client = self.follower.client();
        SessionView {
            user: client.user(),
            operator: client.is_operator(),
            certificate_not_after_s: client.certificate_not_after().0,
            version: env!("CARGO_PKG_VERSION"),
            replays: client.is_operator() && self.what_if.is_some(),
            tokens: self.tokens.is_some(),
        }
    }
}
