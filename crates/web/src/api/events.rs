//! Changes as server-sent events.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, StatusCode};
use serde_json::json;
use tokio::sync::OwnedSemaphorePermit;
use tokio_stream::Stream;

use crate::follow::{Change, Subscription};
use crate::guard::TokenCheck;
use crate::problem::Problem;
use crate::sessions::{Session, SessionEnd};
use crate::state::Web;

/// How often a stream without changes shows that it is alive.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// How often the token of a stream is checked again.
const TOKEN_CHECK: Duration = Duration::from_secs(5);

/// Changes as they happen: events `job`, `removed`, `clusters` and `health` with JSON, and `refresh` when too much has changed to
/// say what. A stream that is opened again with `Last-Event-ID` gets what it missed.
#[utoipa::path(get, path = "/events", tag = "federation",
    params(("Last-Event-ID" = Option<u64>, Header, description = "The ID of the last event that was seen.")),
    responses(
        (status = 200, content_type = "text/event-stream", description = "The stream."),
        (status = 503, body = Problem, description = "Too many streams are open."),
    ))]
pub(super) async fn events(
    State(web): State<Arc<Web>>,
    session: Option<Extension<Session>>,
    token: Option<Extension<TokenCheck>>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let permit = web.streams.clone().try_acquire_owned().map_err(|_| {
        let problem = format!("expected at most {} open event streams, found one more", web.streams_max);
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, problem).hint("close other pages of `pliant web`")
    })?;
    let last = headers.get("last-event-id").and_then(|id| id.to_str().ok()?.parse().ok());
    let subscription = web.follower.changes().subscribe(last);
    web.follower.wake();
    let alive = KeepAlive::new().interval(KEEP_ALIVE);
    let session = session.and_then(|Extension(session)| session.end);
    let token = token.map(|Extension(check)| check);
    let end = async move {
        tokio::select! {
            () = ended(session) => {}
            () = not_good(token) => {}
        }
    };
    let stream = Until { stream: Box::pin(stream(subscription, permit)), end: Box::pin(end) };
    Ok(Sse::new(stream).keep_alive(alive).into_response())
}

/// Waits for the end of a session; for ever where sessions do not end.
async fn ended(end: Option<SessionEnd>) {
    let Some(mut end) = end else { return std::future::pending().await };
    // Nothing is ever sent: it fails when the session is gone.
    while end.changed().await.is_ok() {}
}

/// Waits until a token is not good any more; for ever without one.
async fn not_good(token: Option<TokenCheck>) {
    let Some(check) = token else { return std::future::pending().await };
    while check.is_good() {
        tokio::time::sleep(TOKEN_CHECK).await;
    }
}

/// A stream that ends with its session or its token.
struct Until<S> {
    stream: Pin<Box<S>>,
    end: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl<S: Stream> Stream for Until<S> {
    type Item = S::Item;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<S::Item>> {
        match self.end.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(None),
            Poll::Pending => self.stream.as_mut().poll_next(context),
        }
    }
}

/// The events of a subscription; the permit is given back when the stream is dropped.
fn stream(
    subscription: Subscription,
    permit: OwnedSemaphorePermit,
) -> impl Stream<Item = Result<Event, Infallible>> {
    let Subscription { last, missed, coming } = subscription;
    let open = Event::default().event("begin").id(last.to_string()).data("{}");
    let missed = missed.into_iter().map(|(number, change)| event(number, &change));
    let begin = std::iter::once(open).chain(missed).map(Ok).collect::<Vec<_>>();
    let next =
        tokio_stream::StreamExt::map(tokio_stream::wrappers::BroadcastStream::new(coming), move |received| {
            let _held = &permit;
            Ok(match received {
                Ok((number, change)) => event(number, &change),
                // The reader was too slow.
                Err(_) => Event::default().event("refresh").data("{}"),
            })
        });
    tokio_stream::StreamExt::chain(tokio_stream::iter(begin), next)
}

fn event(number: u64, change: &Change) -> Event {
    let (name, data) = match change {
        Change::Job(job) => ("job", json!(job)),
        Change::Removed(job) => ("removed", json!({ "job_id": job })),
        Change::Clusters(clusters) => ("clusters", json!(clusters)),
        Change::Health(health) => ("health", json!(health)),
        Change::Refresh => ("refresh", json!({})),
    };
    Event::default().event(name).id(number.to_string()).data(data.to_string())
}
