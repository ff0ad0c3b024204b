use super::*;

fn plan(mandatory: u32, most: u32, dispatch: Dispatch) -> Plan {
    Plan { mandatory, most, deadline: TimeMs(1_000), weight: 1, dispatch, reallocation: None, seed: 1 }
}

fn of_two(plan: Plan) -> Dispatcher<char> {
    let mut dispatcher = Dispatcher::new(plan);
    let offer = |server| Offer { server, cores: 2, per_core: None };
    assert_eq!(dispatcher.found(vec![offer('a'), offer('b')]), []);
    dispatcher
}

fn mandatory(dispatcher: &mut Dispatcher<char>) -> Vec<(u32, char)> {
    let mut placed = Vec::new();
    while let NextMandatory::Placed(Placed { number, server }) = dispatcher.place_mandatory() {
        placed.push((number, server));
    }
    placed
}

fn filled(dispatcher: &mut Dispatcher<char>, server: char) -> Vec<u32> {
    std::iter::from_fn(|| dispatcher.fill(&server)).map(|placed| placed.number).collect()
}

#[test]
fn mandatory_requests_go_out_in_turn_and_optional_ones_to_each_core() {
    let mut dispatcher = of_two(plan(3, 9, Dispatch::Window(1)));
    let [first, second] = [0, 1].map(|at| dispatcher.order()[at]);
    assert_eq!(mandatory(&mut dispatcher), [(0, first), (1, second), (2, first)]);
    assert_eq!(dispatcher.place_mandatory(), NextMandatory::None);
    assert_eq!(filled(&mut dispatcher, 'a'), [3, 4]);
    assert_eq!(filled(&mut dispatcher, 'b'), [5, 6]);
    assert!(dispatcher.take_off(5, &'b') && !dispatcher.take_off(5, &'b'));
    assert_eq!(filled(&mut dispatcher, 'b'), [7]);
    assert_eq!(filled(&mut dispatcher, 'c'), []);
}

#[test]
fn requests_of_a_lost_server_go_elsewhere_and_run_once() {
    let mut dispatcher = of_two(plan(2, 4, Dispatch::Window(1)));
    let [first, second] = [0, 1].map(|at| dispatcher.order()[at]);
    mandatory(&mut dispatcher);
    assert_eq!(filled(&mut dispatcher, first), [2, 3]);
    assert_eq!(dispatcher.lost(&first), [0, 2, 3]);
    assert_eq!(mandatory(&mut dispatcher), [(0, second)]);
    assert_eq!((dispatcher.attempt(0), dispatcher.attempt(1)), (1, 0));
    assert_eq!(filled(&mut dispatcher, second), [3, 2]);
    // It has run a request that is assigned elsewhere and an unassigned one; its other requests are obsolete there.
    let unneeded = |number, server, attempt| ObsoleteRequest { number, server, attempt };
    assert_eq!(dispatcher.run_by(0, &first), RunElsewhere::AssignedTo(unneeded(0, second, 1)));
    assert_eq!(dispatcher.run_by(0, &first), RunElsewhere::Over);
    assert!(dispatcher.take_off(2, &second));
    dispatcher.put_back(2);
    assert_eq!(dispatcher.run_by(2, &first), RunElsewhere::Waited);
    let found = dispatcher.found(vec![Offer { server: first, cores: 2, per_core: None }]);
    assert_eq!(found, [unneeded(3, first, 0)]);
}

#[test]
fn a_guess_is_given_out_once_and_waits_for_servers() {
    let mut dispatcher = of_two(plan(1, 9, Dispatch::Guess(4)));
    assert_eq!(mandatory(&mut dispatcher).len(), 1);
    let guessed: Vec<u32> = std::iter::from_fn(|| dispatcher.place_guessed()).map(|one| one.number).collect();
    assert_eq!(guessed, [1, 2, 3]);
    assert!(!dispatcher.has_optional() && !dispatcher.is_idle());
    let mut alone = Dispatcher::<char>::new(plan(1, 1, Dispatch::Guess(1)));
    assert_eq!(alone.place_mandatory(), NextMandatory::NoServer);
    assert!(alone.place_at(0, 'a').is_none() && !alone.is_idle());
}

#[test]
fn a_dispatcher_knows_what_is_where() {
    let mut dispatcher = Dispatcher::new(plan(1, 4, Dispatch::Window(1)));
    assert!(!dispatcher.knows_servers() && !dispatcher.is_idle(), "a request waits");
    dispatcher.found(vec![Offer { server: 'a', cores: 1, per_core: None }]);
    assert!(dispatcher.knows_servers() && !dispatcher.has_sent_mandatory());
    assert_eq!(mandatory(&mut dispatcher), [(0, 'a')]);
    assert_eq!(filled(&mut dispatcher, 'a'), [1]);
    assert_eq!((dispatcher.kind(0), dispatcher.kind(1)), (Kind::Mandatory, Kind::Optional));
    assert!(dispatcher.has_sent_mandatory() && !dispatcher.is_idle());
    assert_eq!((dispatcher.server_of(1), dispatcher.server_of(2)), (Some(&'a'), None));
    assert_eq!(dispatcher.sent().collect::<Vec<_>>(), [(0, &'a'), (1, &'a')]);
    assert_eq!(dispatcher.sent_optional().collect::<Vec<_>>(), [1]);
    assert!(dispatcher.take_off(0, &'a') && !dispatcher.has_sent_mandatory() && !dispatcher.is_idle());
    assert!(dispatcher.take_off(1, &'a') && dispatcher.is_idle());
    assert_eq!(dispatcher.sent_optional().count(), 0);
}

#[test]
fn a_server_may_state_its_window_of_optional_requests() {
    let mut dispatcher = Dispatcher::new(plan(0, 20, Dispatch::Window(2)));
    let offer = |server, cores, per_core| Offer { server, cores, per_core };
    dispatcher.found(vec![offer('a', 3, None), offer('b', 3, Some(1))]);
    assert_eq!((filled(&mut dispatcher, 'a').len(), filled(&mut dispatcher, 'b').len()), (6, 3));
    // It has changed when it comes back.
    dispatcher.found(vec![offer('b', 2, Some(4))]);
    assert_eq!(filled(&mut dispatcher, 'b').len(), 5);
    assert!(dispatcher.has_optional());
    dispatcher.found(vec![offer('c', 9, None)]);
    assert_eq!(filled(&mut dispatcher, 'c').len(), 6, "20 in all");
    assert!(!dispatcher.has_optional());
}

#[test]
fn a_server_that_refused_gets_nothing_until_it_is_found_again() {
    let mut dispatcher = of_two(plan(3, 9, Dispatch::Window(1)));
    dispatcher.refused(&'a');
    assert_eq!(dispatcher.up().collect::<Vec<_>>(), [&'b']);
    assert_eq!(mandatory(&mut dispatcher), [(0, 'b'), (1, 'b'), (2, 'b')]);
    assert_eq!((filled(&mut dispatcher, 'a'), dispatcher.place_at(0, 'a')), (vec![], None));
    dispatcher.found(vec![Offer { server: 'a', cores: 2, per_core: None }]);
    assert_eq!(filled(&mut dispatcher, 'a'), [3, 4]);
    assert_eq!(dispatcher.order().len(), 2, "no server twice");
}

#[test]
fn a_server_may_hold_what_it_was_sent_and_what_it_had_when_it_was_lost() {
    let mut dispatcher = of_two(plan(1, 9, Dispatch::Window(1)));
    assert_eq!(dispatcher.possible_holders().count(), 0);
    let first = dispatcher.order()[0];
    mandatory(&mut dispatcher);
    assert_eq!(dispatcher.possible_holders().collect::<Vec<_>>(), [&first]);
    dispatcher.lost(&first);
    assert_eq!(dispatcher.possible_holders().collect::<Vec<_>>(), [&first]);
    mandatory(&mut dispatcher);
    assert_eq!(dispatcher.possible_holders().count(), 2);
    assert_eq!(dispatcher.lost(&dispatcher.order()[1].clone()), [0]);
    let found = dispatcher.found(vec![Offer { server: first, cores: 1, per_core: None }]);
    assert_eq!(found, [ObsoleteRequest { number: 0, server: first, attempt: 1 }], "two attempts were lost");
}

#[test]
fn what_a_lost_server_ran_is_not_run_again() {
    let mut dispatcher = of_two(plan(2, 4, Dispatch::Window(2)));
    let [first, second] = [0, 1].map(|at| dispatcher.order()[at]);
    mandatory(&mut dispatcher);
    assert_eq!(filled(&mut dispatcher, first), [2, 3]);
    assert_eq!(dispatcher.lost(&first), [0, 2, 3]);
    // Request 0 waits, and of the optional ones only 2: the last returned is the first to be sent again.
    assert_eq!(dispatcher.fill(&second).map(|placed| placed.number), Some(3));
    assert!(dispatcher.take_off(3, &second));
    assert_eq!(dispatcher.run_by(3, &first), RunElsewhere::Over, "it has ended elsewhere");
    assert_eq!(dispatcher.run_by(2, &first), RunElsewhere::Waited);
    assert_eq!(dispatcher.run_by(0, &first), RunElsewhere::Waited);
    assert_eq!(dispatcher.run_by(1, &first), RunElsewhere::Over, "it never was there");
    assert_eq!(mandatory(&mut dispatcher), []);
    assert_eq!(filled(&mut dispatcher, second), []);
}

#[test]
fn a_guess_is_at_most_all_requests() {
    let mut dispatcher = of_two(plan(0, 3, Dispatch::Guess(9)));
    let placed: Vec<u32> = std::iter::from_fn(|| dispatcher.place_guessed()).map(|one| one.number).collect();
    assert_eq!(placed, [0, 1, 2]);
    let mut dispatcher = Dispatcher::<char>::new(plan(0, 3, Dispatch::Guess(2)));
    assert!(dispatcher.place_guessed().is_none() && dispatcher.has_optional(), "there is no server yet");
    // More mandatory requests than requests: all are mandatory.
    let mut dispatcher = of_two(plan(5, 3, Dispatch::Window(1)));
    assert_eq!(mandatory(&mut dispatcher).len(), 3);
}

#[test]
fn waiting_mandatory_requests_move_to_servers_that_complete_them_earlier() {
    let reallocation = Some(Reallocation { every: SpanMs(1_000), least_gain: SpanMs(100) });
    let mut dispatcher = of_two(Plan { reallocation, ..plan(2, 9, Dispatch::Window(1)) });
    let [first, second] = [0, 1].map(|at| dispatcher.order()[at]);
    mandatory(&mut dispatcher);
    filled(&mut dispatcher, first);
    let run = Some(SpanMs(1_000));
    let busy = Prospects {
        more: Prospect { wait: Some(SpanMs(9_000)), run },
        // Request 1 is at the other server, and request 2 is optional.
        waiting: vec![(2, Some(SpanMs(8_000))), (1, Some(SpanMs(8_000))), (0, Some(SpanMs(8_000)))],
    };
    let free = Prospects { more: Prospect { wait: Some(SpanMs(0)), run }, waiting: Vec::new() };
    let forecasts: BTreeMap<char, Prospects> = [(first, busy), (second, free)].into();
    let expected = Move { number: 0, from: first, to: second, gain: Some(SpanMs(8_000)) };
    assert_eq!(dispatcher.moves(&forecasts), [expected]);
    dispatcher.refused(&second);
    assert_eq!(dispatcher.moves(&forecasts), []);
    let still = of_two(plan(2, 9, Dispatch::Window(1)));
    assert_eq!(still.moves(&forecasts), [], "not asked for");
}

#[test]
fn explorations_draw_servers_of_their_own() {
    let servers: Vec<String> = (0..20).map(|at| format!("s{at}")).collect();
    let drawn = |exploration: &str, servers: Vec<String>| draw_servers(servers, 5, exploration, |name| name);
    let one = drawn("one", servers.clone());
    assert_eq!(one.len(), 5);
    assert_eq!(
        drawn("one", servers.iter().rev().cloned().collect()),
        one,
        "whatever the order of the answers"
    );
    assert_ne!(drawn("another", servers.clone()), one);
    assert_eq!(drawn("one", servers[..3].to_vec()).len(), 3);
}
