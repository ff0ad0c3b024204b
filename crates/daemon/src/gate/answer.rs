//! Answers that callers do not take. HTTP/2 lets a caller close its window: then the answer stays in memory, although its call has ended. So the
//! call counts among the open requests of its caller until its answer is sent, and an answer of which nothing is taken for too long is
//! dropped. Such a call stays open, without its answer, until its caller resets it or its connection ends.

use std::pin::Pin;
use std::sync::{Arc, OnceLock, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use parking_lot::Mutex;
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tonic::body::Body;
use tonic::{Extensions, Status};

use super::Pass;
use super::arrival::Call;

/// How many bytes are given to a connection at a time: what it has been given is not dropped.
const PIECE_BYTES: usize = 16 << 10;

/// Where the pass of a call is left for its answer.
#[derive(Clone, Default, Debug)]
pub(super) struct PassSlot(Arc<OnceLock<Pass>>);

impl PassSlot {
    /// Leaves the pass of a call that came through [`super::Arrival`].
    pub(super) fn leave(extensions: &Extensions, pass: &Pass) {
        if let Some(PassSlot(slot)) = extensions.get() {
            // A call has one pass.
            let _ = slot.set(pass.clone());
        }
    }

    fn take(&self) -> Option<Pass> {
        self.0.get().cloned()
    }
}

/// The body of an answer, which keeps the call open until it is sent.
pub(super) struct Answer {
    content: Arc<Mutex<Content>>,
    _pass: Option<Pass>,
    watched: AbortHandle,
}

struct Content {
    /// None once it was dropped.
    body: Option<Body>,
    /// What is left of a piece that was too long.
    rest: Bytes,
    /// Since when the caller can take something; none while the answer is still being made.
    ready: Option<Instant>,
}

impl Content {
    fn of(body: Body) -> Arc<Mutex<Content>> {
        let ready = Some(Instant::now());
        Arc::new(Mutex::new(Content { body: Some(body), rest: Bytes::new(), ready }))
    }
}

impl Answer {
    /// Wraps the body of an answer, of which something must be taken at least once within `limit`.
    pub(super) fn wrap(body: Body, slot: &PassSlot, limit: Duration, call: Call) -> Body {
        if body.is_end_stream() {
            return body;
        }
        let content = Content::of(body);
        let watched = tokio::spawn(watch(Arc::downgrade(&content), limit, call)).abort_handle();
        Body::new(Answer { content, _pass: slot.take(), watched })
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.watched.abort();
    }
}

/// Drops an answer of which nothing is taken for so long.
async fn watch(content: Weak<Mutex<Content>>, limit: Duration, call: Call) {
    let mut wait = Some(limit);
    while let Some(duration) = wait {
        tokio::time::sleep(duration).await;
        let Some(content) = content.upgrade() else { return };
        wait = drop_untaken(&content, limit, Instant::now());
    }
    call.cut_off(&format!("nothing of the answer was taken for {} s", limit.as_secs_f64()));
}

/// Drops the answer if nothing of it was taken for so long; else how long it stays at least.
fn drop_untaken(content: &Mutex<Content>, limit: Duration, now: Instant) -> Option<Duration> {
    let mut content = content.lock();
    let wait = content.ready.map_or(limit, |ready| limit.saturating_sub(now.duration_since(ready)));
    if !wait.is_zero() {
        return Some(wait);
    }
    let dropped = (content.body.take(), std::mem::take(&mut content.rest));
    drop(content);
    // What it ends may take locks of its own.
    drop(dropped);
    None
}

impl HttpBody for Answer {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let mut content = self.content.lock();
        let Content { body, rest, ready } = &mut *content;
        let Some(body) = body else {
            let why = "expected a caller that takes its answer, found one that took nothing for too long";
            return Poll::Ready(Some(Err(Status::deadline_exceeded(why))));
        };
        if !rest.is_empty() {
            *ready = Some(Instant::now());
            return Poll::Ready(Some(Ok(Frame::data(piece(rest)))));
        }
        let polled = Pin::new(body).poll_frame(context);
        *ready = polled.is_ready().then(Instant::now);
        let Poll::Ready(Some(Ok(frame))) = polled else { return polled };
        Poll::Ready(Some(Ok(match frame.into_data() {
            Ok(data) if data.len() > PIECE_BYTES => {
                *rest = data;
                Frame::data(piece(rest))
            }
            Ok(data) => Frame::data(data),
            Err(frame) => frame,
        })))
    }

    fn is_end_stream(&self) -> bool {
        let content = self.content.lock();
        content.rest.is_empty() && content.body.as_ref().is_some_and(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        let content = self.content.lock();
        match &content.body {
            Some(body) if content.rest.is_empty() => body.size_hint(),
            _ => SizeHint::default(),
        }
    }
}

/// The next piece, with memory of its own: it does not keep the rest.
fn piece(rest: &mut Bytes) -> Bytes {
    Bytes::copy_from_slice(&rest.split_to(rest.len().min(PIECE_BYTES)))
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(60);

    /// An answer that no task watches.
    fn unwatched(body: Body) -> Answer {
        let watched = tokio::spawn(async {}).abort_handle();
        Answer { content: Content::of(body), _pass: None, watched }
    }

    /// The next piece; none while there is nothing.
    fn next(answer: &mut Answer) -> Option<Result<Bytes, Status>> {
        let polled = Pin::new(answer).poll_frame(&mut Context::from_waker(Waker::noop()));
        let Poll::Ready(frame) = polled else { return None };
        Some(frame.unwrap().map(|frame| frame.into_data().unwrap()))
    }

    /// Whether an answer is left so long after now.
    fn is_left(answer: &Answer, after: Duration) -> bool {
        drop_untaken(&answer.content, LIMIT, Instant::now() + after).is_some()
    }

    #[tokio::test]
    async fn an_answer_is_dropped_once_nothing_of_it_is_taken_for_long() {
        let memory = Bytes::from(vec![7; 5 * PIECE_BYTES + 1]);
        let mut answer = unwatched(Body::new(axum::body::Body::from(memory.clone())));
        assert!(is_left(&answer, LIMIT / 2) && !answer.is_end_stream());
        let taken: Vec<Bytes> = (0..4).map(|_| next(&mut answer).unwrap().unwrap()).collect();
        assert!(is_left(&answer, LIMIT / 2) && !memory.is_unique());
        assert!(!is_left(&answer, LIMIT * 2));
        assert!(memory.is_unique(), "nothing has it, not even the pieces that were taken");
        assert!(taken.iter().all(|piece| piece.len() == PIECE_BYTES));
        let cut = next(&mut answer).unwrap().unwrap_err();
        assert_eq!(cut.code(), tonic::Code::DeadlineExceeded);
    }

    #[tokio::test]
    async fn a_long_answer_arrives_in_pieces() {
        let sent: Vec<u8> = (0..3 * PIECE_BYTES + 5).map(|at| (at % 251) as u8).collect();
        let mut answer = unwatched(Body::new(axum::body::Body::from(sent.clone())));
        let mut taken = Vec::new();
        while !answer.is_end_stream() {
            taken.extend(next(&mut answer).unwrap().unwrap());
        }
        assert!(taken == sent);
    }

    #[tokio::test]
    async fn an_answer_that_is_being_made_may_take_long() {
        let (sender, pieces) = tokio::sync::mpsc::channel(1);
        let pieces = tokio_stream::wrappers::ReceiverStream::new(pieces);
        let mut answer = unwatched(Body::new(axum::body::Body::from_stream(pieces)));
        assert!(next(&mut answer).is_none() && is_left(&answer, LIMIT * 10));
        sender.send(Ok::<Bytes, Status>(Bytes::from_static(b"x"))).await.unwrap();
        assert_eq!(next(&mut answer).unwrap().unwrap(), "x");
        assert!(!is_left(&answer, LIMIT * 2), "its caller can take the next one");
    }
}
