//! The page of one mapping: its quality, a drawing, and the machine of every task.

use std::fmt::Write as _;

use pliant_tig::clustering::Clustering;
use pliant_tig::{Grid, Mapping, Metrics, TaskGraph};

use super::mapping_drawing::picture;
use super::page::{escape, still_page};
use super::table::Table;

/// An application on its machines.
#[derive(Clone, Copy, Debug)]
pub struct MappedApplication<'a> {
    /// The application.
    pub graph: &'a TaskGraph,
    /// The platform.
    pub grid: &'a Grid,
    /// How it was cut.
    pub clustering: &'a Clustering,
    /// Where it went.
    pub mapping: &'a Mapping,
    /// What that is worth.
    pub metrics: &'a Metrics,
}

/// The page.
pub fn render_mapping(title: &str, note: &str, mapped: &MappedApplication<'_>) -> String {
    let mut body = tiles(mapped);
    let _ = writeln!(
        body,
        "<section><h2>Where the tasks are</h2>\n<p class=\"quiet\">The networks from the root down to the LANs that \
         have a task; the user is on {}. A circle is a task in the colour and with the number of its cluster; lines \
         join tasks that communicate, red where they are on different LANs, as wide as their traffic.</p>\
         <div class=\"scroll\">{}</div></section>",
        escape(&mapped.grid.node(mapped.grid.user_lan()).name),
        picture(mapped)
    );
    let _ = writeln!(body, "<section><h2>Tasks</h2>\n{}</section>", tasks(mapped));
    still_page(title, note, &body)
}

fn tiles(mapped: &MappedApplication<'_>) -> String {
    let Metrics { affinity_mean, affinity_min, lan_hit_ratio, inter_lan_percent, cut_percent, .. } =
        *mapped.metrics;
    let tiles = [
        ("Mean affinity", format!("{affinity_mean:.2}"), format!("least {affinity_min:.2}")),
        (
            "LAN hit ratio",
            format!("{:.1} %", 100.0 * lan_hit_ratio),
            format!("distance {:.2}", mapped.metrics.distance_mean),
        ),
        (
            "Traffic between LANs",
            format!("{inter_lan_percent:.2} %"),
            format!("between clusters {cut_percent:.2} %"),
        ),
        ("Clusters", mapped.clustering.count().to_string(), format!("on {} LANs", mapped.metrics.lans_used)),
    ];
    let mut html = String::from("<section><div class=\"tiles\">");
    for (title, value, remark) in tiles {
        let _ =
            write!(html, "<div><span>{title}</span><strong>{value}</strong><small>{remark}</small></div>");
    }
    html.push_str("</div></section>\n");
    html
}

fn tasks(mapped: &MappedApplication<'_>) -> String {
    let titles = ["Task", "Cluster", "MFlop/s", "LAN", "Machine", "Affinity", "Placed"];
    let mut table = Table::new(&titles.map(|title| (title, "")));
    for (task, placed) in mapped.graph.task_ids().zip(&mapped.mapping.placements) {
        let lan = mapped.grid.lan_of(placed.machine);
        table.row(
            &mapped.graph.task(task).name,
            [
                mapped.clustering.of(task).0.to_string(),
                format!("{:.1}", mapped.graph.mcr(task)),
                mapped.grid.node(lan).name.clone(),
                mapped.grid.machine(placed.machine).name.clone(),
                format!("{:.2}", placed.affinity),
                placed.stage.word().to_owned(),
            ],
        );
    }
    table.html()
}
