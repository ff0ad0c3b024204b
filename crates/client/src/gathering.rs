//! Many submissions at a time: requests to a daemon that come while others are under way go together in its next message. Each has an
//! answer of its own, as if it had gone alone.
//!
//! Submissions that are under way together rest on the same estimates, and those that are accepted first make the estimates of the
//! others untrue. Servers refuse them then, and they begin with another discovery. So as few are under way as are accepted: a
//! submission that is refused for that reason takes one place away, one that is accepted adds one.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use pliant_control::agent::DiscoveryResult;
use pliant_control::names::Name;
use pliant_wire::proto::server_client::ServerClient;
use pliant_wire::{DiscoverOutcome, SubmitAnswer, SubmitOutcome, bounds, proto};
use prost::Message;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tonic::transport::Channel;
use tonic::{Code, Response, Status};

use super::error::is_broken;
use super::{Client, ClientError};

/// How many bytes of requests go in one message. A longer one goes alone.
const BYTES_MAX: usize = 512 << 10;
/// How many submissions are under way at most, and at least.
const UNDER_WAY: (usize, usize) = (bounds::MANY_MAX, 8);

/// Submissions to a server.
type ToServer = Gatherer<proto::SubmitRequest, Result<SubmitAnswer, Status>>;

/// The submissions of a client that go several in a message.
pub(super) struct Gathered {
    questions: Gatherer<proto::DiscoverRequest, Result<DiscoveryResult, ClientError>>,
    /// By server.
    submissions: Mutex<HashMap<Name, ToServer>>,
    /// How many were accepted.
    accepted: AtomicU64,
    places: Arc<Semaphore>,
    /// How many places there are, free or not.
    size: Mutex<usize>,
}

impl Default for Gathered {
    fn default() -> Gathered {
        let (most, _) = UNDER_WAY;
        Gathered {
            questions: Gatherer::default(),
            submissions: Mutex::default(),
            accepted: AtomicU64::new(0),
            places: Arc::new(Semaphore::new(most)),
            size: Mutex::new(most),
        }
    }
}

impl Client {
    /// The same client for many submissions at a time, [`bounds::MANY_MAX`] of them: those that are under way together go in one message to
    /// the agent, and to each server. Each is accepted or refused by itself.
    pub fn gathering(&self) -> Client {
        Client { gathered: Some(Arc::default()), ..self.clone() }
    }

    /// Discovers servers for several requests; none if each is to be asked alone.
    async fn discover_many(
        &self,
        questions: &[proto::DiscoverRequest],
    ) -> Option<Vec<Result<DiscoveryResult, ClientError>>> {
        // The same question has the same answer.
        let (mut positions, mut different) = (HashMap::new(), Vec::new());
        let position = |question: &proto::DiscoverRequest| {
            *positions.entry(question.encode_to_vec()).or_insert_with(|| {
                different.push(question.clone());
                different.len() - 1
            })
        };
        let positions: Vec<usize> = questions.iter().map(position).collect();
        let expected = different.len();
        let request = proto::DiscoverManyRequest { questions: different };
        let reply = self.ask_agent(request, |mut agent, request| async move {
            match agent.discover_many(request).await {
                Err(status) if goes_alone(&status) => Ok(Response::new(None)),
                reply => reply.map(|reply| Response::new(Some(reply.into_inner()))),
            }
        });
        let found = match reply.await {
            Ok(None) => return None,
            Ok(Some(reply)) if reply.outcomes.len() == expected => {
                let found = |outcome: proto::DiscoverOutcome| match DiscoverOutcome::try_from(outcome) {
                    Ok(DiscoverOutcome::Found(found)) => Ok(found),
                    Ok(DiscoverOutcome::Failed(failure)) => {
                        Err(ClientError::call("the agent", &Status::from(failure)))
                    }
                    Err(malformed) => Err(ClientError::protocol(malformed)),
                };
                reply.outcomes.into_iter().map(found).collect()
            }
            Ok(Some(reply)) => {
                let found = format!("expected {expected} answers, found {}", reply.outcomes.len());
                vec![Err(ClientError::protocol(found)); expected]
            }
            Err(error) => vec![Err(error); expected],
        };
        Some(positions.into_iter().map(|position| found[position].clone()).collect())
    }

    /// Submits to a server; none if each is to be submitted alone.
    async fn submit_many(
        &self,
        mut server: ServerClient<Channel>,
        submissions: Vec<proto::SubmitRequest>,
    ) -> Option<Vec<Result<SubmitAnswer, Status>>> {
        let expected = submissions.len();
        let request = self.request(proto::SubmitManyRequest { submissions });
        let reply = match server.submit_many(request).await {
            Ok(reply) => reply.into_inner(),
            Err(status) if goes_alone(&status) => return None,
            Err(status) => return Some(vec![Err(status); expected]),
        };
        if reply.outcomes.len() != expected {
            let found = format!("expected {expected} answers, found {}", reply.outcomes.len());
            return Some(vec![Err(Status::internal(found)); expected]);
        }
        let answer = |outcome: proto::SubmitOutcome| match SubmitOutcome::try_from(outcome) {
            Ok(SubmitOutcome::Answered(answer)) => Ok(answer),
            Ok(SubmitOutcome::Failed(failure)) => Err(Status::from(failure)),
            Err(malformed) => Err(Status::internal(malformed.to_string())),
        };
        Some(reply.outcomes.into_iter().map(answer).collect())
    }
}

/// True if nothing was done because the daemon has an earlier version, or takes shorter messages only.
fn goes_alone(status: &Status) -> bool {
    !is_broken(status) && matches!(status.code(), Code::Unimplemented | Code::OutOfRange)
}

impl Gathered {
    /// The answer to a question; none if it is to be asked alone.
    pub(super) async fn discover(
        &self,
        client: &Client,
        question: proto::DiscoverRequest,
    ) -> Option<Result<DiscoveryResult, ClientError>> {
        let (bytes, client) = (question.encoded_len(), client.clone());
        let send = move |questions: Vec<proto::DiscoverRequest>| {
            let client = client.clone();
            async move { client.discover_many(&questions).await }
        };
        self.questions.ask(question, bytes, send).await
    }

    /// The answer of a server to a submission; none if it is to be submitted alone.
    pub(super) async fn submit(
        &self,
        client: &Client,
        (to, server): (&Name, &ServerClient<Channel>),
        submission: proto::SubmitRequest,
        limit: Duration,
    ) -> Option<Result<SubmitAnswer, Status>> {
        let gatherer = self.submissions.lock().entry(to.clone()).or_default().clone();
        let (bytes, client, server) = (submission.encoded_len(), client.clone(), server.clone());
        let send = move |submissions: Vec<proto::SubmitRequest>| {
            let (client, server) = (client.clone(), server.clone());
            async move { client.submit_many(server, submissions).await }
        };
        match tokio::time::timeout(limit, gatherer.ask(submission, bytes, send)).await {
            Ok(answer) => answer,
            Err(_) => Some(Err(Status::deadline_exceeded("no answer in time"))),
        }
    }
}

/// Requests of one kind to one daemon.
struct Gatherer<Q, A>(Arc<Mutex<Waiting<Q, A>>>);

struct Waiting<Q, A> {
    requests: VecDeque<WaitingRequest<Q, A>>,
    /// A task sends them.
    is_sent: bool,
}

struct WaitingRequest<Q, A> {
    request: Q,
    bytes: usize,
    answer: oneshot::Sender<Option<A>>,
}

impl<Q, A> Default for Gatherer<Q, A> {
    fn default() -> Gatherer<Q, A> {
        Gatherer(Arc::new(Mutex::new(Waiting { requests: VecDeque::new(), is_sent: false })))
    }
}

impl<Q, A> Clone for Gatherer<Q, A> {
    fn clone(&self) -> Gatherer<Q, A> {
        Gatherer(self.0.clone())
    }
}

impl<Q: Send + 'static, A: Send + 'static> Gatherer<Q, A> {
    /// Has a request sent in the next message, by `send` if no task sends any yet. None if it is to go alone.
    async fn ask<F>(
        &self,
        request: Q,
        bytes: usize,
        send: impl Fn(Vec<Q>) -> F + Send + Sync + 'static,
    ) -> Option<A>
    where
        F: Future<Output = Option<Vec<A>>> + Send + 'static,
    {
        if bytes > BYTES_MAX {
            return None;
        }
        let (answer, answered) = oneshot::channel();
        let is_first = {
            let mut waiting = self.0.lock();
            waiting.requests.push_back(WaitingRequest { request, bytes, answer });
            !std::mem::replace(&mut waiting.is_sent, true)
        };
        if is_first {
            // A task of its own: the first who waits may go before the others.
            tokio::spawn(self.clone().send_all(send));
        }
        answered.await.ok().flatten()
    }

    async fn send_all<F>(self, send: impl Fn(Vec<Q>) -> F + Send + Sync)
    where
        F: Future<Output = Option<Vec<A>>> + Send,
    {
        while let Some((requests, waiting)) = self.next_message() {
            // One alone goes the usual way.
            let answers = if waiting.len() == 1 { None } else { send(requests).await };
            let mut answers = answers.into_iter().flatten();
            for waits in waiting {
                // It may have gone.
                let _ = waits.send(answers.next());
            }
        }
    }

    /// Takes the requests of the next message, with those who wait for the answers; none if there are none.
    #[expect(clippy::type_complexity, reason = "two lists")]
    fn next_message(&self) -> Option<(Vec<Q>, Vec<oneshot::Sender<Option<A>>>)> {
        let mut waiting = self.0.lock();
        let (mut requests, mut senders, mut length) = (Vec::new(), Vec::new(), 0);
        while let Some(next) = waiting.requests.front()
            && requests.len() < bounds::MANY_MAX
            && (requests.is_empty() || length + next.bytes <= BYTES_MAX)
            && let Some(next) = waiting.requests.pop_front()
        {
            // No one waits for the answer any more.
            if next.answer.is_closed() {
                continue;
            }
            length += next.bytes;
            requests.push(next.request);
            senders.push(next.answer);
        }
        waiting.is_sent = !requests.is_empty();
        waiting.is_sent.then_some((requests, senders))
    }
}

/// The place of a submission among those that are under way; none without others.
#[derive(Default)]
pub(super) struct Turn<'a>(Option<Place<'a>>);

struct Place<'a> {
    gathered: &'a Gathered,
    permit: OwnedSemaphorePermit,
    /// How many others were accepted before.
    accepted: u64,
}

impl<'a> Turn<'a> {
    /// Waits for a place.
    pub(super) async fn take(&mut self, gathered: Option<&'a Gathered>) {
        let Some(gathered) = gathered.filter(|_| self.0.is_none()) else { return };
        // The semaphore is never closed.
        if let Ok(permit) = gathered.places.clone().acquire_owned().await {
            let accepted = gathered.accepted.load(Ordering::Relaxed);
            self.0 = Some(Place { gathered, permit, accepted });
        }
    }

    /// Gives the place back before the next discovery. True if the estimates were untrue and others were accepted meanwhile.
    pub(super) fn end(&mut self, is_outdated: bool) -> bool {
        let Some(Place { gathered, permit, accepted }) = self.0.take() else { return false };
        if !is_outdated {
            return false;
        }
        let (_, least) = UNDER_WAY;
        let mut size = gathered.size.lock();
        if *size > least {
            *size -= 1;
            permit.forget();
        }
        gathered.accepted.load(Ordering::Relaxed) > accepted
    }

    /// Gives the place back for good.
    pub(super) fn accepted(&mut self, is_accepted: bool) {
        let Some(Place { gathered, .. }) = self.0.take().filter(|_| is_accepted) else { return };
        gathered.accepted.fetch_add(1, Ordering::Relaxed);
        let (most, _) = UNDER_WAY;
        let mut size = gathered.size.lock();
        if *size < most {
            *size += 1;
            gathered.places.add_permits(1);
        }
    }
}

#[cfg(test)]
mod tests;
