//! Deadlines: what servers would complete too late is not asked again and again, and waits as long as own batches may end early.

use super::*;

impl Bench {
    /// Has the servers answer all open submissions, newer ones too: `is_in_time` says whether a batch of that many instances is. Accepted
    /// batches stay open. Returns how many were submitted.
    fn settle(
        &mut self,
        accepted: &mut VecDeque<(u32, Name, Vec<u32>)>,
        is_in_time: impl Fn(usize, usize) -> bool,
    ) -> usize {
        let mut count = 0;
        while let Some((batch, server, instances)) = self.open.pop_front() {
            count += 1;
            assert!(count < 10_000, "no end of submissions");
            match is_in_time(accepted.len(), instances.len()) {
                true => {
                    self.handle(Event::Accepted { batch });
                    accepted.push_back((batch, server, instances));
                }
                false => self.handle(Event::Refused { batch, cause: Cause::Deadline }),
            }
        }
        count
    }

    /// Ends an accepted batch well.
    fn end(&mut self, (batch, _, instances): (u32, Name, Vec<u32>)) {
        for instance in instances {
            let took = SpanMs(10);
            self.handle(Event::InstanceEnded { batch, instance, completed: true, took, scale: 1.0 });
        }
        self.handle(Event::BatchEnded { batch, unbegun: false, lost: false });
    }
}

fn known(server: &str, slots: u32) -> (Name, InstanceProspects) {
    (name(server), prospects(slots, 10, RuntimeSource::Statistics { jobs: 9 }))
}

#[test]
fn a_deadline_that_cannot_be_kept_costs_few_submissions() {
    let mut bench = Bench::new(plan(100_000, 2), 1);
    bench.handle(Event::Begin);
    bench.handle(found_all(vec![known("lyon", 4), known("nancy", 4)]));
    let first = bench.open.len();
    let submitted = bench.settle(&mut VecDeque::new(), |_, _| false);
    // Those that were under way, and then halves: 1,000 instances, 500, ..., 1.
    assert!((first..=first + 2 * 10).contains(&submitted), "{submitted} after {first}");
    assert!(bench.too_late && !bench.done && bench.machine.is_too_late());
    // Asked again, the servers have said it already.
    bench.handle(found_all(vec![known("lyon", 4), known("nancy", 4)]));
    assert_eq!(bench.open.len(), 0);
    bench.handle(Event::TooLate);
    let Progress { done, failed, not_started, cancelled, open, .. } = bench.machine.progress();
    assert_eq!((done, failed, not_started, cancelled, open), (0, 0, 100_000, 0, 0));
    assert!(bench.done);
    bench.restart();
    bench.done = false;
    bench.handle(Event::Begin);
    assert!(bench.done && bench.machine.has_given_up_rest(), "it stays so");
}

#[test]
fn instances_wait_while_own_batches_may_end_before_the_deadline() {
    let mut bench = Bench::new(plan(40, 0), 1);
    let mut accepted = VecDeque::new();
    bench.handle(Event::Begin);
    bench.handle(found_all(vec![known("lyon", 2)]));
    // The server has the time for two jobs of one instance each.
    let is_in_time = |open: usize, count: usize| open < 2 && count == 1;
    let mut submitted = bench.settle(&mut accepted, is_in_time);
    assert_eq!(accepted.len(), 2);
    while let Some(batch) = accepted.pop_front() {
        assert!(!bench.too_late, "two or one are open");
        bench.end(batch);
        submitted += bench.settle(&mut accepted, is_in_time);
    }
    let Progress { done, retried, batches, .. } = bench.machine.progress();
    assert!(bench.done && !bench.too_late);
    assert_eq!((done, retried, batches as usize), (40, 0, submitted));
    assert!(submitted <= 2 * 40 + 10, "one for each that ended, and one that is refused: {submitted}");
}

#[test]
fn once_no_own_batch_is_open_late_servers_are_asked_once_more() {
    let mut bench = Bench::new(plan(10, 0), 1);
    let mut accepted = VecDeque::new();
    bench.handle(found_all(vec![known("lyon", 1), known("nancy", 1)]));
    bench.settle(&mut accepted, |open, count| open == 0 && count == 1);
    let (first, server, _) = accepted.pop_front().unwrap();
    assert!(bench.open.is_empty() && !bench.too_late);
    // It waits until its deadline cannot be kept any more, and goes back without a try.
    bench.handle(Event::Refused { batch: first, cause: Cause::Deadline });
    let asked: Vec<&Name> = bench.open.iter().map(|(_, server, _)| server).collect();
    assert_eq!(asked.len(), 1, "{asked:?}");
    assert_ne!(*asked[0], server, "the other one may have the time");
    assert_eq!(bench.open[0].2.len(), 1);
    bench.settle(&mut accepted, |_, _| false);
    assert!(bench.too_late);
    let Progress { done, failed, retried, .. } = bench.machine.progress();
    assert_eq!((done, failed, retried), (0, 0, 0));
}

#[test]
fn servers_that_answer_that_they_are_late_are_asked_again_when_an_own_batch_ends() {
    let mut machine = MultiJob::new(plan(3, 0));
    let found = |servers, late: &[&str]| Event::Found {
        servers,
        waiting: BTreeSet::new(),
        late: late.iter().map(|server| name(server)).collect(),
    };
    let commands = commands_after(&mut machine, found(vec![(name("lyon"), free_at(0, 1, 60_000))], &[]));
    let batches = submitted(&commands);
    // The others are refused, and the servers say why.
    for (batch, ..) in &batches[1..] {
        commands_after(&mut machine, Event::Refused { batch: *batch, cause: Cause::Deadline });
    }
    let commands = commands_after(&mut machine, found(Vec::new(), &["lyon"]));
    assert!(!commands.contains(&Command::TooLate), "one is open: {commands:?}");
    let commands =
        commands_after(&mut machine, Event::BatchEnded { batch: batches[0].0, unbegun: true, lost: false });
    assert!(commands.contains(&Command::QueryServers), "{commands:?}");
    assert!(!commands.contains(&Command::TooLate), "they have not answered: {commands:?}");
    let commands = commands_after(&mut machine, found(Vec::new(), &["lyon"]));
    assert!(commands.contains(&Command::TooLate), "{commands:?}");
    assert_eq!(commands_after(&mut machine, Event::TooLate), [Command::Done]);
    assert_eq!(machine.progress().not_started, 3);
}

#[test]
fn an_instance_that_one_server_refuses_and_another_completes_too_late_has_failed() {
    let mut bench = Bench::new(plan(2, 0), 1);
    bench.handle(found_all(vec![
        (name("lyon"), free_at(0, 1, 60_000)),
        (name("nancy"), free_at(0, 1, 60_000)),
    ]));
    while bench.unplaced.is_empty() && !bench.too_late {
        let Some((batch, server, _)) = bench.open.pop_front() else { break };
        let cause = if server.as_str() == "lyon" { Cause::Invalid } else { Cause::Deadline };
        bench.handle(Event::Refused { batch, cause });
    }
    assert_eq!((bench.unplaced.as_slice(), bench.too_late), (&[0, 1][..], false));
}
