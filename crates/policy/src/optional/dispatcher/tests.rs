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
