//! What is written reads back, and errors name their position.

use std::path::Path;

use pliant_tig::generate::{BandwidthRanges, Connected, Machines, Tiers, connected, tiers};
use pliant_tig::{Grid, TaskGraph};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::*;

fn random(seed: u64) -> (TaskGraph, Grid) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let bandwidth_mbps = seed.is_multiple_of(2).then_some(0.25);
    let what =
        Connected { tasks: 12, edges_per_task: 3.0, weights: [1.0, 10.0], mcr_mflops: 50.0, bandwidth_mbps };
    let shape = Tiers {
        wans: 2,
        mans_per_wan: 2,
        lans_per_man: 3,
        wan_routers: 4,
        man_routers: 3,
        lan_hosts: 4,
        wan_redundancy: 2,
        man_redundancy: 1,
        lan_redundancy: 1,
        man_wan_redundancy: 1,
        lan_man_redundancy: 2,
    };
    let bandwidths =
        BandwidthRanges { lan: [1e3, 1e4], man: [100.0, 1e3], wan: [10.0, 100.0], root: [1.0, 10.0] };
    let machines = Machines { count: 37, power_mflops: [600.0, 1300.0], load: [0.0, 0.6] };
    (connected(&what, &mut rng).unwrap(), tiers(&shape, &bandwidths, &machines, &mut rng).unwrap())
}

#[test]
fn what_is_written_reads_back_in_both_forms() {
    let path = Path::new("file");
    for seed in 0..20 {
        let (graph, grid) = random(seed);
        assert_eq!(parse_graph(&graph_to_toml(&graph), TigFormat::Toml, path).unwrap(), graph);
        assert_eq!(parse_graph(&graph_to_dot(&graph), TigFormat::Dot, path).unwrap(), graph);
        let toml = parse_grid(&grid_to_toml(&grid), TigFormat::Toml, path).unwrap();
        let dot = parse_grid(&grid_to_dot(&grid), TigFormat::Dot, path).unwrap();
        // Nodes are numbered in the order of the text: what is written again is the same text.
        assert_eq!(grid_to_toml(&toml), grid_to_toml(&grid));
        assert_eq!(grid_to_toml(&dot), grid_to_toml(&grid));
        assert_eq!(grid_to_dot(&dot), grid_to_dot(&toml));
    }
}

#[test]
fn forms_go_by_the_name() {
    let form = |name: &str| TigFormat::of(Path::new(name)).map_err(|error| error.to_string());
    assert_eq!(form("a.toml"), Ok(TigFormat::Toml));
    assert_eq!(form("a.dot"), Ok(TigFormat::Dot));
    assert_eq!(form("a.gv"), Ok(TigFormat::Dot));
    assert_eq!(form("a.json"), Err("a.json: expected a file NAME.toml, NAME.dot or NAME.gv".to_owned()));
}

fn check<T: std::fmt::Debug>(found: Result<T, TraceError>, expected: &str) {
    assert_eq!(found.expect_err("a mistake").to_string(), expected);
}

fn check_graph(text: &str, expected: &str) {
    check(parse_graph(text, TigFormat::Toml, Path::new("app.toml")), expected);
}

const TASKS: &str = "mcr_mflops = 50\n[[task]]\nname = \"a\"\nrcr = 1\n[[task]]\nname = \"b\"\nrcr = 2\n";

#[test]
fn mistakes_in_applications() {
    let edge = |between: &str, rqoc: &str| format!("{TASKS}[[edge]]\nbetween = {between}\nrqoc = {rqoc}\n");
    check_graph(TASKS, "app.toml:6:8: expected a connected graph, found no path from `a` to `b`");
    check_graph(
        &edge("[\"a\", \"c\"]", "1"),
        "app.toml:9:17: `between`: expected the name of a [[task]], found `c`",
    );
    check_graph(
        &edge("[\"a\", \"b\"]", "0"),
        "app.toml:10:8: `rqoc`: edge between `a` and `b`: expected an RQoC above 0, found 0",
    );
    check_graph(
        &edge("[\"a\", \"a\"]", "1"),
        "app.toml:9:11: `between`: expected an edge between two tasks, found `a` twice",
    );
    check_graph(
        &TASKS.replace("rcr = 2", "rcr = -2"),
        "app.toml:7:7: `rcr`: task `b`: expected an RCR above 0, found -2",
    );
    check_graph(
        &TASKS.replace("= 50", "= 0"),
        "app.toml:1:14: `mcr_mflops`: expected an MCR above 0, found 0",
    );
    check_graph(
        &TASKS.replace("\"b\"", "\"a\""),
        "app.toml:6:8: `name`: expected unique names of tasks, found `a` twice",
    );
    check_graph("mcr_mflops = 1\ntask = []\n", "app.toml:1:1: expected a task, found none");
    check_graph(
        "mcr = 1\n",
        "app.toml:1:1: unknown key `mcr`, expected one of `mcr_mflops`, `bandwidth_mbps`, `task`, `edge`",
    );
}

const GRID: &str = "user_lan = \"l\"\n[[wan]]\nname = \"w\"\n[[wan.man]]\nname = \"m\"\nbandwidth_mbps = 100\n\
                    [[wan.man.lan]]\nname = \"l\"\nmachine = [{ name = \"x\", power_mflops = 10, load = 0.5 }]\n\
                    [[wan.man.lan]]\nname = \"k\"\nmachine = [{ name = \"y\", power_mflops = 10 }]\n";

#[test]
fn mistakes_in_grids() {
    let check_grid =
        |text: &str, expected: &str| check(parse_grid(text, TigFormat::Toml, Path::new("g.toml")), expected);
    assert_eq!(parse_grid(GRID, TigFormat::Toml, Path::new("g.toml")).unwrap().machines().len(), 2);
    check_grid(
        &GRID.replacen("\"l\"", "\"q\"", 1),
        "g.toml:1:12: `user_lan`: expected the user's LAN to be one of the grid's (l, k), found `q`",
    );
    check_grid(
        &GRID.replace("0.5", "1.5"),
        "g.toml:9:52: `load`: machine `x`: expected a load of 0 to 1, found 1.5",
    );
    check_grid(
        &GRID.replace("10, load", "0, load"),
        "g.toml:9:41: `power_mflops`: machine `x`: expected a power above 0, found 0",
    );
    check_grid(
        &GRID.replace("bandwidth_mbps = 100\n", ""),
        "g.toml:7:8: expected a bandwidth between `l` and `k`, found none",
    );
    check_grid(
        &GRID.replace("= 100", "= -1"),
        "g.toml:6:18: `bandwidth_mbps`: expected a bandwidth above 0, found -1",
    );
    check_grid(
        &GRID.replace("\"y\"", "\"x\""),
        "g.toml:12:21: `name`: expected unique names, found `x` twice",
    );
    check_grid(
        &format!("{GRID}[[link]]\nbetween = [\"l\", \"w\"]\nbandwidth_mbps = 1\n"),
        "g.toml:14:11: `between`: expected a link between two networks of one parent, found `l` and `w`",
    );
    check_grid(
        &format!("{GRID}[[link]]\nbetween = [\"l\", \"z\"]\nbandwidth_mbps = 1\n"),
        "g.toml:14:17: `between`: expected the name of a WAN, MAN or LAN, found `z`",
    );
    check_grid(
        &GRID.replace("machine = [{ name = \"y\", power_mflops = 10 }]", "machine = []"),
        "g.toml:11:8: LAN `k`: expected a machine, found none",
    );
}

#[test]
fn dot_is_read_as_others_write_it() {
    let text = "/* drawn\n by hand */ strict graph \"my app\" {\n# a line\n  graph [mcr_mflops=50]\n  node [shape=circle];\n\
                a [rcr=1, color=red] // first\n  \"b c\" [rcr=\"2.5\"]; d[rcr=3]\n  a -- \"b c\" -- d [rqoc=4]; }\n";
    let graph = parse_graph(text, TigFormat::Dot, Path::new("a.dot")).unwrap();
    assert_eq!(graph.mcr_mflops(), 50.0);
    let tasks: Vec<(&str, f64)> = graph.tasks().iter().map(|task| (task.name.as_str(), task.rcr)).collect();
    assert_eq!(tasks, [("a", 1.0), ("b c", 2.5), ("d", 3.0)]);
    let edges: Vec<[u32; 2]> = graph.edges().iter().map(|edge| edge.ends.map(|end| end.0)).collect();
    assert_eq!(edges, [[0, 1], [1, 2]]);
}

#[test]
fn mistakes_in_dot() {
    let check =
        |text: &str, expected: &str| check(parse_graph(text, TigFormat::Dot, Path::new("a.dot")), expected);
    check("digraph x {}", "a.dot:1:1: expected an undirected graph (`graph`), found `digraph`");
    check("graph { a -> b }", "a.dot:1:11: expected an undirected edge `--`, found `->`");
    check("graph { subgraph x { } }", "a.dot:1:9: expected nodes and edges, found a subgraph");
    check("graph { a [rcr=1", "a.dot:1:17: expected an attribute, found the end of the file");
    check("graph { \"a", "a.dot:1:9: expected a closing quote, found the end of the file");
    check("graph { /* a", "a.dot:1:9: expected the end of a comment, found the end of the file");
    check("graph { mcr_mflops=1; a }", "a.dot:1:23: missing attribute `rcr`");
    check("graph { mcr_mflops=1; a [rcr=x] }", "a.dot:1:30: `rcr`: expected a number, found `x`");
    check(
        "graph { mcr_mflops=1; a [rcr=1]; a -- b [rqoc=1] }",
        "a.dot:1:34: expected the name of a task, found `b`",
    );
    check("graph { a [rcr=1] }", "a.dot:1:1: missing attribute `mcr_mflops`");
    check(
        "graph { mcr_mflops=1; a [rcr=1]; b [rcr=0]; a--b[rqoc=1] }",
        "a.dot:1:34: task `b`: expected an RCR above 0, found 0",
    );
    let grid = |text: &str, expected: &str| {
        let found = parse_grid(text, TigFormat::Dot, Path::new("g.dot"));
        assert_eq!(found.expect_err("a mistake").to_string(), expected);
    };
    grid("graph { user_lan=l; }", "g.dot:1:1: expected a node of `kind = root`, found none");
    grid(
        "graph { user_lan=l; r [kind=root]; w [kind=man]; r -- w }",
        "g.dot:1:36: `kind`: expected wan at this depth, found `man`",
    );
    grid(
        "graph { user_lan=l; r [kind=root]; w [kind=wan]; x [power_mflops=1]; r -- w -- x }",
        "g.dot:1:50: machine `x`: expected a LAN, found `w` above it",
    );
    grid(
        "graph { user_lan=l; r [kind=root]; a [kind=wan]; b [kind=man]; a -- b }",
        "g.dot:1:64: expected a path from the root to `a`, found none",
    );
}

const LAUNCHED: &str = "mcr_mflops = 50\n\
     [[task]]\nname = \"a\"\nrcr = 1\nservice = \"render\"\narguments = { frames = 25, scale = 0.5, scene = \"city\", fast = true }\n\
     [[task]]\nname = \"b\"\nrcr = 2\nscript = \"bin/sink.sh\"\narguments = [\"--quick\", 7]\ninput = [\"in/scene.pov\", \"a=b\"]\n\
     [[edge]]\nbetween = [\"a\", \"b\"]\nrqoc = 1\n";

#[test]
fn tasks_say_what_they_run() {
    let path = Path::new("there/app.toml");
    let found = parse_application(LAUNCHED, path).unwrap();
    let arguments = [("fast", "true"), ("frames", "25"), ("scale", "0.5"), ("scene", "city")];
    let arguments = arguments.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    let service = Program::Service { name: "render".to_owned(), arguments };
    let words = ["--quick", "7"].map(str::to_owned).to_vec();
    let script = Program::Script { path: "there/bin/sink.sh".into(), arguments: words };
    assert_eq!(found.programs, [service, script]);
    assert_eq!(found.inputs, [Vec::new(), vec!["in/scene.pov".to_owned(), "a=b".to_owned()]]);
    assert_eq!(
        found.graph,
        parse_graph(LAUNCHED, TigFormat::Toml, path).unwrap(),
        "it is mapped as it is launched"
    );
}

#[test]
fn mistakes_in_what_tasks_run() {
    let check_run = |old: &str, new: &str, expected: &str| {
        check(parse_application(&LAUNCHED.replace(old, new), Path::new("app.toml")), expected);
    };
    check_run(
        "service = \"render\"\narguments = { frames = 25, scale = 0.5, scene = \"city\", fast = true }\n",
        "",
        "app.toml:3:8: task `a`: expected `service` or `script`, found neither",
    );
    check_run(
        "service = \"render\"\n",
        "",
        "app.toml:5:13: `arguments`: expected `service` or `script` with them, found neither",
    );
    check_run(
        "rcr = 2",
        "rcr = 2\nservice = \"render\"",
        "app.toml:11:10: `script`: expected none together with `service`, found one",
    );
    check_run(
        "[\"--quick\", 7]",
        "\"--quick\"",
        "app.toml:11:13: `arguments`: expected a list of a script's words, found another value",
    );
    check_run(
        "frames = 25",
        "frames = [25]",
        "app.toml:6:13: `arguments`: expected a text, a number or a truth value of `frames`, found more",
    );
    check_run("\"a=b\"", "7", "app.toml:12:9: `input`: expected a list of files, found another value");
    let dot = read_application(Path::new("app.dot"));
    check(dot, "app.dot: expected a file NAME.toml, which says what tasks run, found DOT");
}

#[test]
fn tasks_join_those_that_run() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("more.toml");
    let read = |text: &str| {
        std::fs::write(&path, text).unwrap();
        read_joining_tasks(&path)
    };
    let task = |name: &str| format!("[[task]]\nname = \"{name}\"\nrcr = 1.5\nservice = \"say\"\n");
    let edge = |one: &str, other: &str| format!("[[edge]]\nbetween = [\"{one}\", \"{other}\"]\nrqoc = 2\n");
    let edges = [edge("x", "source"), edge("y", "x"), edge("sink", "y")].concat();
    let found = read(&(task("x") + &task("y") + &edges)).unwrap();
    let neighbours =
        |at: usize| -> Vec<&str> { found[at].neighbours.iter().map(|(name, _)| name.as_str()).collect() };
    // An edge between two joining tasks is listed once, at the later one.
    assert_eq!((neighbours(0), neighbours(1)), (vec!["source"], vec!["x", "sink"]));
    assert_eq!((found[0].rcr, found[1].neighbours[0].1), (1.5, 2.0));
    let error = read(&(task("x") + &edge("source", "sink"))).unwrap_err().to_string();
    assert!(
        error.contains("more.toml:6:11: `between`: expected the name of a [[task]], found `source`"),
        "{error}"
    );
    let error = read(&(String::from("mcr_mflops = 5\n") + &task("x"))).unwrap_err().to_string();
    assert!(error.contains("mcr_mflops"), "{error}");
}
