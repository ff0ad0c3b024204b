//! The same question about several things.

use pliant_client::{Client, ClientError};
use tokio::task::JoinSet;

/// How many calls of one request are open at a time.
const AT_A_TIME: usize = 32;

/// Asks about each thing; the answers are in the order of the things.
pub(crate) async fn each<I, A, F>(
    client: &Client,
    things: Vec<I>,
    ask: impl Fn(Client, I) -> F,
) -> Vec<(I, Result<A, ClientError>)>
where
    I: Clone + Send + 'static,
    A: Send + 'static,
    F: Future<Output = Result<A, ClientError>> + Send + 'static,
{
    let mut waiting = things.into_iter().enumerate();
    let mut open = JoinSet::new();
    let mut answers = Vec::new();
    loop {
        while open.len() < AT_A_TIME
            && let Some((index, thing)) = waiting.next()
        {
            let asked = ask(client.clone(), thing.clone());
            open.spawn(async move { (index, thing, asked.await) });
        }
        match open.join_next().await {
            Some(Ok(answer)) => answers.push(answer),
            // The call was not cancelled, so it panicked.
            Some(Err(error)) => std::panic::resume_unwind(error.into_panic()),
            None => break,
        }
    }
    answers.sort_by_key(|(index, ..)| *index);
    answers.into_iter().map(|(_, thing, answer)| (thing, answer)).collect()
}
