//! The size that a server chooses for a moldable job: the job's record of it, and what a batch system that chooses among
//! sizes itself is offered.

use pliant_policy::alternatives::Alternative;

use super::*;
use crate::batch::external::{self, Queue};
use crate::job::SizeChoice;
use crate::listing::{Changes, Listing, Node};

fn bench(policy: &str, procs: u32, tuner: Tuner) -> Bench {
    let config = ServerConfig { tuner, ..Bench::new(policy, procs).server.config().clone() };
    Bench { server: Server::new(config, Time(100)).unwrap(), ..Bench::new(policy, procs) }
}

/// 400 s on four processors, by Amdahl's law with four fifths parallel on up to 16.
fn moldable(key: u8) -> Submit {
    let speedup = Speedup::Amdahl { parallel: 0.8, limit: Procs(16) };
    Submit { work: Work::new(Procs(4), Span(400), speedup), ..rigid(key, 4, 400) }
}

#[test]
fn a_job_records_the_earliest_size_that_it_did_not_get() {
    let check = |tuner: Tuner, busy: &[(u32, i64)], procs: u32, expected: Option<(u32, i64, u32)>| {
        let mut bench = bench("cbf", 16, tuner);
        for (key, (procs, walltime)) in (2..).zip(busy) {
            bench.accepted(Submit { owner: user("bob"), ..rigid(key, *procs, *walltime) });
        }
        let record = bench.accepted(moldable(1));
        let choice = record.size_choice;
        let found = choice.map(|SizeChoice { earliest, other_jobs }| {
            (earliest.procs.0, earliest.completion().0, other_jobs)
        });
        assert_eq!((record.procs, found), (Procs(procs), expected), "{tuner} beside {busy:?}");
    };
    check(Tuner::default(), &[], 16, None);
    check(Tuner::default(), &[(6, 1000), (2, 1000)], 4, Some((8, 400, 2)));
    check(Tuner::Exact, &[(6, 1000), (2, 1000)], 8, None);
    // Two processors are left, and no size completes the job earlier.
    check(Tuner::default(), &[(14, 500)], 2, None);
}

/// OAR takes the size that completes first, so it is offered several only under a greedy tuner.
#[test]
fn a_batch_system_that_chooses_sizes_is_offered_one_unless_the_tuner_is_greedy() {
    let offered = |tuner: Tuner| {
        let mut bench = bench(external::OAR, 0, tuner);
        let node = Node { name: "n1".to_owned(), cores: 4, ..Node::default() };
        let listing = Listing::new(bench.now + Span(1), vec![node], vec![]);
        let changes: Changes = listing.changes(&Listing::default());
        bench.now += Span(1);
        bench.deliver(Event::Batch(batch::Event::External(external::Event::Listed(changes))));
        bench.accepted(moldable(1));
        let queued = bench.commands.iter().find_map(|command| match command {
            Command::Batch(batch::Command::External(external::Command::Queue(queue))) => Some(queue.clone()),
            _ => None,
        });
        let Queue { procs, alternatives, .. } = queued.unwrap();
        (procs, alternatives)
    };
    assert_eq!(offered(Tuner::default()), (Procs(4), Vec::<Alternative>::new()));
    let (procs, alternatives) = offered(Tuner::Exact);
    assert_eq!((procs, alternatives.len()), (Procs(4), 4));
}
