//! Questions that are asked at the same time are asked as one: after a crash a server has a doubt for every job whose
//! submission was not answered, and a listing that says what is there of one says it of all.

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::Mutex;
use pliant_control::listing::ListedJob;
use tokio::sync::oneshot;

/// How long others may join before the question is asked.
const GATHERS: Duration = Duration::from_millis(50);

type Waiting = Vec<(u32, oneshot::Sender<Vec<ListedJob>>)>;

/// Searches for jobs by their numbers that are made together.
#[derive(Default, Debug)]
pub(crate) struct JointSearch(Mutex<Waiting>);

impl JointSearch {
    /// What is there of a job of ours. The first one to ask searches for all that have asked by then; `failed` is what
    /// the others get if that fails.
    pub(crate) async fn find<E>(
        &self,
        number: u32,
        search: impl AsyncFnOnce(&[u32]) -> Result<Vec<ListedJob>, E>,
        failed: impl FnOnce(String) -> E,
    ) -> Result<Vec<ListedJob>, E> {
        let (sender, receiver) = oneshot::channel();
        let is_first = {
            let mut waiting = self.0.lock();
            waiting.push((number, sender));
            waiting.len() == 1
        };
        if is_first {
            tokio::time::sleep(GATHERS).await;
            let waiting = std::mem::take(&mut *self.0.lock());
            let numbers: Vec<u32> = waiting.iter().map(|(number, _)| *number).collect();
            let mut found: BTreeMap<u32, Vec<ListedJob>> = BTreeMap::new();
            for job in search(&numbers).await? {
                found.entry(job.job_number.unwrap_or_default()).or_default().push(job);
            }
            for (number, sender) in waiting {
                // The one that asked may have gone.
                let _ = sender.send(found.get(&number).cloned().unwrap_or_default());
            }
        }
        receiver.await.map_err(|_| failed("it was looked for with others, in vain".to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    fn job(number: u32) -> ListedJob {
        ListedJob { id: format!("id-{number}"), job_number: Some(number), ..ListedJob::default() }
    }

    #[tokio::test]
    async fn many_doubts_are_one_question() {
        let (searches, asked) = (JointSearch::default(), AtomicU32::new(0));
        let find = async |number: u32| {
            let search = async |numbers: &[u32]| {
                asked.fetch_add(1, Ordering::Relaxed);
                Ok::<_, String>(numbers.iter().filter(|number| *number % 2 == 0).copied().map(job).collect())
            };
            searches.find(number, search, |why| why).await
        };
        let all: Vec<u32> = (1..=200).collect();
        let found = futures_of(all.iter().map(|number| find(*number))).await;
        for (number, found) in all.iter().zip(found) {
            let expected = if number % 2 == 0 { vec![job(*number)] } else { Vec::new() };
            assert_eq!(found, Ok(expected));
        }
        assert_eq!(asked.load(Ordering::Relaxed), 1);
        assert_eq!(find(2).await, Ok(vec![job(2)]), "later ones are another question");
        assert_eq!(asked.load(Ordering::Relaxed), 2);
    }

    #[tokio::test]
    async fn a_search_that_fails_fails_for_all_and_can_be_made_again() {
        let searches = JointSearch::default();
        let find = async |number: u32, answer: Result<Vec<ListedJob>, String>| {
            searches.find(number, async |_: &[u32]| answer, |why| why).await
        };
        let silent = || Err("silent".to_owned());
        let failed = futures_of([find(1, silent()), find(2, silent())]).await;
        assert_eq!(failed, [silent(), Err("it was looked for with others, in vain".to_owned())]);
        assert_eq!(find(1, Ok(vec![job(1)])).await, Ok(vec![job(1)]));
    }

    /// All of them at once, in this order.
    async fn futures_of<F: Future>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
        let mut futures: Vec<_> = futures.into_iter().map(|future| (Box::pin(future), None)).collect();
        std::future::poll_fn(|context| {
            for (future, output) in futures.iter_mut().filter(|(_, output)| output.is_none()) {
                if let std::task::Poll::Ready(ready) = future.as_mut().poll(context) {
                    *output = Some(ready);
                }
            }
            match futures.iter().all(|(_, output)| output.is_some()) {
                true => std::task::Poll::Ready(()),
                false => std::task::Poll::Pending,
            }
        })
        .await;
        futures.into_iter().filter_map(|(_, output)| output).collect()
    }
}
