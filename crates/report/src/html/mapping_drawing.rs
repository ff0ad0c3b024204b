//! The picture of a mapping as SVG: the dendrogram above, the machines that have tasks below their LANs, the tasks
//! in the colours of their clusters, and the edges between them.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use pliant_tig::{Grid, Level, MachineId, NodeId, TaskId};

use super::lines::colour;
use super::mapping::MappedApplication;
use super::page::escape;

/// Width of a LAN's column.
const COLUMN: f64 = 168.0;
/// Between the levels of the dendrogram.
const LEVEL: f64 = 46.0;
const TOP: f64 = 20.0;
/// Between two tasks of a machine.
const TASK: f64 = 26.0;
const RADIUS: f64 = 10.0;
/// How far aside the bend of an edge is, for the height that it crosses.
const BEND: f64 = 0.35;
/// Tasks in a row of a machine.
const TASKS_IN_ROW: usize = 5;
/// Above the tasks of a machine: its name.
const NAME: f64 = 20.0;

/// Where things are.
struct Layout {
    width: f64,
    height: f64,
    /// The middle of each network that is drawn.
    nodes: BTreeMap<NodeId, f64>,
    /// Left, top and height of each machine that is drawn.
    machines: BTreeMap<MachineId, [f64; 3]>,
    tasks: BTreeMap<TaskId, [f64; 2]>,
    /// The lower end of each column.
    columns: BTreeMap<NodeId, f64>,
}

/// The picture.
pub(super) fn picture(mapped: &MappedApplication<'_>) -> String {
    let layout = layout(mapped);
    let (width, height) = (layout.width, layout.height);
    let mut svg = format!(
        "<svg width=\"{width:.0}\" height=\"{height:.0}\" viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\" \
         aria-label=\"the mapping\" style=\"font-size:12px\">"
    );
    networks(&mut svg, mapped.grid, &layout);
    machines(&mut svg, mapped, &layout);
    edges(&mut svg, mapped, &layout);
    tasks(&mut svg, mapped, &layout);
    svg.push_str("</svg>");
    svg
}

fn depth(level: Level) -> f64 {
    TOP + LEVEL * (3 - level.hops()) as f64
}

fn layout(mapped: &MappedApplication<'_>) -> Layout {
    let grid = mapped.grid;
    let mut on: BTreeMap<MachineId, Vec<TaskId>> = BTreeMap::new();
    for (task, placed) in mapped.graph.task_ids().zip(&mapped.mapping.placements) {
        on.entry(placed.machine).or_default().push(task);
    }
    let mut layout = Layout {
        width: 0.0,
        height: 0.0,
        nodes: BTreeMap::new(),
        machines: BTreeMap::new(),
        tasks: BTreeMap::new(),
        columns: BTreeMap::new(),
    };
    let is_used = |lan: &NodeId| grid.machines_below(*lan).any(|machine| on.contains_key(&machine));
    let lans: Vec<NodeId> = grid.lans().filter(|lan| is_used(lan) || *lan == grid.user_lan()).collect();
    for (column, lan) in lans.iter().enumerate() {
        let left = column as f64 * COLUMN + 8.0;
        let mut y = depth(Level::Lan) + 26.0;
        for machine in grid.machines_below(*lan) {
            let Some(tasks) = on.get(&machine) else { continue };
            let height = NAME + TASK * tasks.len().div_ceil(TASKS_IN_ROW) as f64 + 4.0;
            layout.machines.insert(machine, [left, y, height]);
            for (at, task) in tasks.iter().enumerate() {
                let (row, column) = (at / TASKS_IN_ROW, at % TASKS_IN_ROW);
                let x = left + 18.0 + TASK * column as f64;
                layout.tasks.insert(*task, [x, y + NAME + TASK * (row as f64 + 0.5)]);
            }
            y += height + 7.0;
        }
        layout.columns.insert(*lan, y);
        layout.height = layout.height.max(y + 26.0);
        layout.nodes.insert(*lan, left + (COLUMN - 16.0) / 2.0);
    }
    layout.width = lans.len() as f64 * COLUMN;
    // A network is above the middle of what is drawn of it.
    for node in grid.node_ids().filter(|node| grid.node(*node).level != Level::Lan) {
        let below: Vec<f64> =
            grid.lans_below(node).filter_map(|lan| layout.nodes.get(&lan).copied()).collect();
        if let (Some(first), Some(last)) = (below.first(), below.last()) {
            layout.nodes.insert(node, (first + last) / 2.0);
        }
    }
    layout
}

fn networks(svg: &mut String, grid: &Grid, layout: &Layout) {
    for (id, x) in &layout.nodes {
        let node = grid.node(*id);
        let y = depth(node.level);
        if let Some((parent, above)) =
            node.parent.and_then(|parent| Some((parent, layout.nodes.get(&parent)?)))
        {
            let from = depth(grid.node(parent).level);
            let _ = write!(
                svg,
                "<path d=\"M{above:.1} {from:.1}V{:.1}H{x:.1}V{y:.1}\" fill=\"none\" stroke=\"var(--quiet)\"/>",
                from + LEVEL / 2.0
            );
        }
    }
    for (id, x) in &layout.nodes {
        let node = grid.node(*id);
        let y = depth(node.level);
        let weight = if *id == grid.user_lan() { "700" } else { "500" };
        let (half, name) = (4.0 * node.name.chars().count().min(20) as f64 + 8.0, escape(&node.name));
        let _ = write!(
            svg,
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"22\" rx=\"6\" fill=\"var(--lane)\" stroke=\"var(--line)\"/>\
             <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\" font-weight=\"{weight}\" fill=\"var(--ink)\">{name}</text>",
            x - half,
            y - 11.0,
            2.0 * half,
            y + 4.0
        );
    }
}

fn machines(svg: &mut String, mapped: &MappedApplication<'_>, layout: &Layout) {
    for (machine, [left, top, height]) in &layout.machines {
        let machine = mapped.grid.machine(*machine);
        let _ = write!(
            svg,
            "<rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{height:.1}\" rx=\"5\" fill=\"var(--lane)\" \
             stroke=\"var(--line)\"/><text x=\"{:.1}\" y=\"{:.1}\" fill=\"var(--quiet)\">{} · {:.0}</text>",
            COLUMN - 16.0,
            left + 8.0,
            top + 15.0,
            escape(&machine.name),
            machine.power_left()
        );
    }
    for (lan, bottom) in &layout.columns {
        let drawn = |machine: &MachineId| layout.machines.contains_key(machine);
        let idle = mapped.grid.machines_below(*lan).filter(|machine| !drawn(machine)).count();
        if idle > 0 {
            let x = layout.nodes[lan];
            let _ = write!(
                svg,
                "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"var(--quiet)\">{idle} without tasks</text>",
                bottom + 12.0
            );
        }
    }
}

fn edges(svg: &mut String, mapped: &MappedApplication<'_>, layout: &Layout) {
    let most = mapped.graph.edges().iter().map(|edge| edge.rqoc).fold(f64::MIN_POSITIVE, f64::max);
    for edge in mapped.graph.edges() {
        let [[x1, y1], [x2, y2]] = edge.ends.map(|end| layout.tasks[&end]);
        let lan = |task: TaskId| mapped.grid.lan_of(mapped.mapping.placements[task.index()].machine);
        let cut = lan(edge.ends[0]) != lan(edge.ends[1]);
        let (stroke, opacity) = if cut { ("var(--moved)", 0.75) } else { ("var(--quiet)", 0.4) };
        let width = 0.6 + 2.8 * edge.rqoc / most;
        let [one, other] = edge.ends.map(|end| escape(&mapped.graph.task(end).name));
        // Bent to the right: those of one column would be drawn over each other.
        let (bend_x, bend_y) = (f64::midpoint(x1, x2) + (y2 - y1).abs() * BEND, f64::midpoint(y1, y2));
        let _ = write!(
            svg,
            "<path d=\"M{x1:.1} {y1:.1}Q{bend_x:.1} {bend_y:.1} {x2:.1} {y2:.1}\" fill=\"none\" stroke=\"{stroke}\" \
             stroke-opacity=\"{opacity}\" stroke-width=\"{width:.2}\"><title>{one} - {other}: RQoC {:.2}</title></path>",
            edge.rqoc
        );
    }
}

fn tasks(svg: &mut String, mapped: &MappedApplication<'_>, layout: &Layout) {
    for (task, [x, y]) in &layout.tasks {
        let (cluster, placed) = (mapped.clustering.of(*task), &mapped.mapping.placements[task.index()]);
        let colour = colour(cluster.index());
        let _ = write!(
            svg,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{RADIUS}\" fill=\"{colour}\" stroke=\"var(--paper)\"><title>{}: \
             cluster {}, affinity {:.2}, {}</title></circle><text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\" \
             font-size=\"10\" fill=\"var(--paper)\" pointer-events=\"none\">{}</text>",
            escape(&mapped.graph.task(*task).name),
            cluster.0,
            placed.affinity,
            placed.stage.word(),
            y + 3.5,
            cluster.0
        );
    }
}
