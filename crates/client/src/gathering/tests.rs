use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::*;

/// Asks so many at a time, with that many bytes each, and waits for the answers. Each is the request and the number of the message that
/// it went in; none went alone. Messages end when they may.
async fn answers(requests: usize, bytes: usize) -> Vec<Option<(usize, usize)>> {
    let gatherer: Gatherer<usize, (usize, usize)> = Gatherer::default();
    let messages = Arc::new(Mutex::new(0));
    let (begun, may_end) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let mut asked = JoinSet::new();
    let ask = |asked: &mut JoinSet<_>, request: usize| {
        let (gatherer, messages) = (gatherer.clone(), messages.clone());
        let (begun, may_end) = (begun.clone(), may_end.clone());
        let send = move |requests: Vec<usize>| {
            let number = {
                let mut messages = messages.lock();
                *messages += 1;
                *messages
            };
            let (begun, may_end) = (begun.clone(), may_end.clone());
            async move {
                if number == 1 {
                    begun.notify_one();
                    may_end.notified().await;
                }
                Some(requests.into_iter().map(|request| (request, number)).collect())
            }
        };
        asked.spawn(async move { (request, gatherer.ask(request, bytes, send).await) });
    };
    // The first message has two; all others wait for its end.
    for request in 0..2.min(requests) {
        ask(&mut asked, request);
    }
    if requests > 2 {
        begun.notified().await;
        for request in 2..requests {
            ask(&mut asked, request);
        }
        while gatherer.0.lock().requests.len() < requests - 2 {
            tokio::task::yield_now().await;
        }
    }
    may_end.notify_one();
    let mut answers = asked.join_all().await;
    answers.sort();
    answers.into_iter().map(|(_, answer)| answer).collect()
}

/// How many requests each message had.
fn sizes(answers: &[Option<(usize, usize)>]) -> Vec<usize> {
    let mut sizes = Vec::new();
    for (request, answer) in answers.iter().enumerate() {
        let (answered, message) = answer.unwrap();
        assert_eq!(answered, request, "each gets its own answer");
        sizes.resize(sizes.len().max(message), 0);
        sizes[message - 1] += 1;
    }
    sizes
}

#[tokio::test]
async fn what_comes_while_a_message_is_under_way_goes_in_the_next_one() {
    assert_eq!(sizes(&answers(12, 10).await), [2, 10]);
    assert_eq!(sizes(&answers(2 + bounds::MANY_MAX + 3, 10).await), [2, bounds::MANY_MAX, 3]);
    assert_eq!(sizes(&answers(10, BYTES_MAX / 4).await), [2, 4, 4]);
}

#[tokio::test]
async fn one_goes_alone_and_so_does_a_long_one() {
    assert_eq!(answers(1, 10).await, [None]);
    assert_eq!(answers(2, BYTES_MAX + 1).await, [None, None]);
}

#[tokio::test]
async fn those_that_have_gone_are_not_sent() {
    let gatherer: Gatherer<usize, usize> = Gatherer::default();
    gatherer.0.lock().is_sent = true;
    let send = |requests: Vec<usize>| async move { Some(requests) };
    for request in 0..4 {
        let ask = gatherer.ask(request, 10, send);
        assert!(tokio::time::timeout(Duration::ZERO, ask).await.is_err());
    }
    assert!(gatherer.next_message().is_none());
    assert!(!gatherer.0.lock().is_sent);
}

#[tokio::test]
async fn as_many_are_under_way_as_are_accepted() {
    let gathered = Gathered::default();
    let (most, least) = UNDER_WAY;
    let mut turns: Vec<Turn<'_>> = Vec::new();
    for _ in 0..most {
        let mut turn = Turn::default();
        turn.take(Some(&gathered)).await;
        turns.push(turn);
    }
    assert_eq!(gathered.places.available_permits(), 0);
    // None was accepted, so the estimates are untrue because of others.
    assert!(!turns[0].end(true));
    turns[1].accepted(true);
    for turn in &mut turns[2..most - 1] {
        assert!(turn.end(true));
    }
    assert_eq!(*gathered.size.lock(), least);
    let last = turns.last_mut().unwrap();
    assert!(!last.end(false), "a server that is down says nothing about estimates");
    assert_eq!(gathered.places.available_permits(), least);
    for _ in 0..3 {
        let mut turn = Turn::default();
        turn.take(Some(&gathered)).await;
        turn.accepted(true);
    }
    assert_eq!((*gathered.size.lock(), gathered.places.available_permits()), (least + 3, least + 3));
    let mut alone = Turn::default();
    alone.take(None).await;
    assert!(!alone.end(true));
}
