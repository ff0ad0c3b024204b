//! Subjobs whose agent cannot be reached.

use super::*;

impl Federation {
    /// The only subjob at a server.
    fn subjob_at(&self, server: usize) -> SubjobId {
        self.servers[server].subjobs().next().unwrap().0.id.clone()
    }

    /// Ends the subjob, as an operator of the server.
    fn give_up(&mut self, server: usize) {
        let (id, by) = (self.subjob_at(server), "root".parse().unwrap());
        let reply = token(server, &id);
        self.handle_at_server(server, server::Event::Subjob(SubjobEvent::EndedByOperator { reply, id, by }));
    }

    /// Four tasks at two servers. The second one has prepared its subjob, and no daemon reaches another one.
    fn with_one_prepared() -> Federation {
        let mut federation = Federation::of(&[2, 2]);
        federation.unlocated = vec![0];
        federation.launch(launch_spec(row(&[1.0; 4])));
        federation.silent = vec![0, 1];
        federation
    }
}

#[test]
fn a_prepared_subjob_waits_for_its_agent_and_others_are_given_up() {
    let mut federation = Federation::with_one_prepared();
    let free = |federation: &Federation| [0, 1].map(|server| federation.servers[server].usage().free.0);
    federation.pass(300);
    assert_eq!(free(&federation), [0, 0], "for the launch's timeout");
    federation.pass(70);
    assert_eq!(free(&federation), [2, 0], "a subjob that is not reported as prepared is part of no decision");
    federation.now += Span(30 * 86_400);
    federation.deliver(VecDeque::new());
    assert_eq!((free(&federation), federation.servers[0].unacknowledged_subjobs()), ([2, 0], 0));
    let held: Vec<_> = federation.servers[1].list_subjobs().collect();
    assert_eq!((held[0].state.word(), held[0].since, held[0].last_contact), ("prepared", Time(0), Time(0)));
    federation.give_up(1);
    assert_eq!((free(&federation), federation.servers[1].list_subjobs().count()), ([2, 2], 0));
    federation.silent.clear();
    federation.pass(70);
    federation.is_over(&LaunchEnd::NotReserved(
        "the subjob at s0 was not prepared within a timeout of 300 s".to_owned(),
    ));
    assert!(federation.started.is_empty());
}

#[test]
fn an_operator_who_ends_a_committed_subjob_ends_the_launch() {
    let mut federation = Federation::with_one_prepared();
    // The first server is connected again, and the launch runs; the second one does not learn that.
    federation.silent = vec![1];
    let id = federation.subjob_at(0);
    let (subjob, ..) = federation.servers[0].subjobs().find(|(subjob, ..)| subjob.id == id).unwrap();
    let address = |task: &PlacedTask| (task.name.clone(), format!("s0:{}", task.name));
    let addresses = Ok(subjob.tasks.iter().map(address).collect());
    federation.handle_at_server(0, server::Event::Subjob(SubjobEvent::Located { id, addresses }));
    federation.pass(5);
    assert_eq!((federation.started.len(), federation.record().state), (1, LaunchState::Running));
    federation.give_up(1);
    federation.silent.clear();
    federation.pass(70);
    let why = "the subjob at s1: could not be started: operator root of its server ended it";
    federation.is_over(&LaunchEnd::Failed(why.to_owned()));
    assert_eq!(federation.terminated.len(), 1, "the other one was ended");
}
