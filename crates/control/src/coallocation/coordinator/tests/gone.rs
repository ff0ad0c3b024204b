//! Subjobs whose agent is not heard of any more.

use super::*;

impl Federation {
    /// The only subjob at a server.
    fn subjob_at(&self, server: usize) -> SubjobId {
        self.servers[server].subjobs().next().unwrap().0.id.clone()
    }

    /// Ends it, as an operator of the server.
    fn give_up(&mut self, server: usize) {
        let (id, by) = (self.subjob_at(server), "root".parse().unwrap());
        let reply = token(server, &id);
        self.tell_server(server, server::Event::Subjob(SubjobEvent::EndedByOperator { reply, id, by }));
    }

    /// Four tasks at two servers, of which the second one holds its subjob, and nobody hears anybody any more.
    fn with_one_held() -> Federation {
        let mut there = Federation::of(&[2, 2]);
        there.unlocated = vec![0];
        there.launch(wanted(row(&[1.0; 4])));
        there.silent = vec![0, 1];
        there
    }
}

#[test]
fn what_is_held_waits_for_its_agent_and_what_is_not_is_given_up() {
    let mut there = Federation::with_one_held();
    let free = |there: &Federation| [0, 1].map(|server| there.servers[server].usage().free.0);
    there.pass(300);
    assert_eq!(free(&there), [0, 0], "for the launch's timeout");
    there.pass(70);
    assert_eq!(
        free(&there),
        [2, 0],
        "what its server has not said to be held is none of anybody's decisions"
    );
    there.now += Span(30 * 86_400);
    there.deliver(VecDeque::new());
    assert_eq!((free(&there), there.servers[0].unacknowledged_subjobs()), ([2, 0], 0));
    let held: Vec<_> = there.servers[1].list_subjobs().collect();
    assert_eq!((held[0].state.word(), held[0].since, held[0].heard), ("prepared", Time(0), Time(0)));
    there.give_up(1);
    assert_eq!((free(&there), there.servers[1].list_subjobs().count()), ([2, 2], 0));
    there.silent.clear();
    there.pass(70);
    there.is_over(&End::NotReserved("the subjob at s0 was not held within a timeout of 300 s".to_owned()));
    assert!(there.begun.is_empty());
}

#[test]
fn what_an_operator_ends_that_was_to_run_ends_the_launch() {
    let mut there = Federation::with_one_held();
    // The first one is heard again, and with it the launch runs, which the second one is never told.
    there.silent = vec![1];
    let id = there.subjob_at(0);
    let address = |task: &str| (task.to_owned(), format!("s0:{task}"));
    let addresses = Ok(["t0", "t1", "t2", "t3"].map(address).into());
    there.tell_server(0, server::Event::Subjob(SubjobEvent::Located { id, addresses }));
    there.pass(5);
    assert_eq!((there.begun.len(), there.record().state), (1, LaunchState::Running));
    there.give_up(1);
    there.silent.clear();
    there.pass(70);
    let why = "the subjob at s1: could not be started: operator root of its server ended it";
    there.is_over(&End::Failed(why.to_owned()));
    assert_eq!(there.terminated.len(), 1, "the other one was ended");
}
