//! The page of one run, or of several runs of one workload.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::number::{count, percent};
use super::{NamedRun, RunPart, charts, page, tables};
use crate::comparison::{ComparisonError, compare, gained_before};

/// Writes the page.
pub(super) fn render(title: &str, note: &str, runs: &[NamedRun<'_>]) -> Result<String, ComparisonError> {
    let Some((reference, variants)) = runs.split_first() else {
        let body = "<section><p class=\"quiet\">There is no run to show.</p></section>\n";
        return Ok(page::page(title, note, body, &json!({"kind": "nothing"})));
    };
    let first = opened(variants);
    let mut body = String::new();
    if variants.is_empty() {
        let _ = writeln!(body, "<section>{}</section>", tables::tiles(reference.summary));
    } else {
        compared(&mut body, reference, variants)?;
        selector(&mut body, runs, first);
    }
    let end = runs.iter().flat_map(|run| run.run.jobs.iter().map(|job| job.end.0)).max().unwrap_or(0).max(1);
    let data: Vec<Value> =
        runs.iter().map(|run| charts::run_data(run.name, run.run, runs.len(), end)).collect();
    gantt(&mut body, runs, &data, first);
    series(&mut body);
    moves(&mut body, runs, first);
    clusters(&mut body, runs, first);
    let data =
        json!({"kind": "runs", "first": first, "end": end, "reasons": charts::reasons(), "runs": data});
    Ok(page::page(title, note, &body, &data))
}

/// Writes the page of one run with one part. The other one is there, since the charts share one state, and hidden.
pub(super) fn render_part(run: &NamedRun<'_>, part: RunPart) -> String {
    let runs = [*run];
    let end = run.run.jobs.iter().map(|job| job.end.0).max().unwrap_or(0).max(1);
    let data = [charts::run_data(run.name, run.run, 1, end)];
    let (mut schedule, mut lines) = (String::new(), String::new());
    gantt(&mut schedule, &runs, &data, 0);
    series(&mut lines);
    let other = if part == RunPart::Schedule { &mut lines } else { &mut schedule };
    *other = other.replacen("<section>", "<section hidden>", 1);
    let data = json!({"kind": "runs", "first": 0, "end": end, "reasons": charts::reasons(), "runs": data});
    page::page(run.name, "", &(schedule + &lines), &data)
}

/// The run that the page opens on: the variant with the least mean response, the earliest of equals; the
/// reference has nothing to show of what the variants change.
fn opened(variants: &[NamedRun<'_>]) -> usize {
    let response = |index: &usize| variants[*index].summary.mean_response_s;
    let best = (0..variants.len()).min_by(|a, b| response(a).total_cmp(&response(b)));
    best.map_or(0, |index| index + 1)
}

fn compared(
    body: &mut String,
    reference: &NamedRun<'_>,
    variants: &[NamedRun<'_>],
) -> Result<(), ComparisonError> {
    let mut rows = Vec::new();
    for variant in variants {
        let comparison = compare(variant.run, reference.run)?;
        rows.push((variant.name, comparison, gained_before(variant.run, reference.run)?));
    }
    let mut all = vec![*reference];
    all.extend_from_slice(variants);
    let _ = writeln!(
        body,
        "<section><h2>Runs</h2>\n<p class=\"quiet\">The least mean and 95 % wait, mean response and \
         mean slowdown are bold.</p>\n{}</section>",
        tables::summaries(&all)
    );
    let _ = writeln!(
        body,
        "<section><h2>Against {}</h2>\n<p class=\"quiet\">The first five columns count the jobs that came through \
         the federation, the others all jobs. A relative response below 1 means that the jobs whose completion \
         changed got their results sooner on average; a mean of ratios weighs a short job like a long one.</p>\n\
         {}</section>",
        page::escape(reference.name),
        tables::comparisons(&rows)
    );
    Ok(())
}

fn selector(body: &mut String, runs: &[NamedRun<'_>], first: usize) {
    body.push_str("<div class=\"selector\" role=\"group\" aria-label=\"Run shown below\"><span>Show</span>");
    for (index, run) in runs.iter().enumerate() {
        let _ = write!(
            body,
            "<button type=\"button\" data-select=\"{index}\" aria-pressed=\"{}\">{}</button>",
            index == first,
            page::escape(run.name)
        );
    }
    body.push_str("</div>\n");
}

/// Markup of which only the selected run's is visible.
fn per_run(body: &mut String, index: usize, first: usize, html: &str) {
    let hidden = if index == first { "" } else { " hidden" };
    let _ = writeln!(body, "<div data-run=\"{index}\"{hidden}>{html}</div>");
}

fn gantt(body: &mut String, runs: &[NamedRun<'_>], data: &[Value], first: usize) {
    body.push_str(
        "<section><h2>Schedule</h2>\n<div class=\"bar\"><div class=\"legend\" id=\"states\"></div>\
         <label id=\"lanes\">Clusters <select></select></label>\
         <span class=\"tools\"><span id=\"view\" aria-live=\"polite\"></span>\
         <button type=\"button\" data-zoom=\"in\" aria-label=\"Zoom in\">+</button>\
         <button type=\"button\" data-zoom=\"out\" aria-label=\"Zoom out\">&minus;</button>\
         <button type=\"button\" data-zoom=\"all\">Whole run</button></span></div>\n\
         <div class=\"chart\"><canvas id=\"gantt\" tabindex=\"0\" role=\"application\" aria-describedby=\"gantt-help\" \
         aria-label=\"Gantt chart: time from left to right, the processors of each cluster from bottom to top\"></canvas></div>\n\
         <p class=\"quiet\" id=\"gantt-help\">Point at a job to see why it is where it is; click to pin it. The wheel zooms \
         around the pointer, dragging pans, a double click shows the whole run. Keys: <kbd>+</kbd> <kbd>-</kbd> zoom, \
         <kbd>&larr;</kbd> <kbd>&rarr;</kbd> pan, <kbd>0</kbd> whole run, <kbd>n</kbd> <kbd>p</kbd> next and previous job, \
         <kbd>Esc</kbd> unpin.</p>\n<div id=\"pinned\" class=\"pinned\" aria-live=\"polite\" hidden></div>\n\
         <p class=\"quiet\">Which processors a job had is not recorded: each is drawn where it leaves the fewest gaps.</p>\n",
    );
    for (index, (run, data)) in runs.iter().zip(data).enumerate() {
        let mut notes = String::new();
        let shown = data["shown"].as_u64().unwrap_or(0);
        if shown < run.summary.jobs {
            let _ = write!(
                notes,
                "<p class=\"warning\">Drawn are the {} largest of {} jobs, {} of the processor time; \
                 every other chart and table counts all jobs.</p>",
                count(shown),
                count(run.summary.jobs),
                percent(data["shown_share"].as_f64().unwrap_or(0.0))
            );
        }
        let overbooked = data["overbooked"].as_u64().unwrap_or(0);
        if overbooked > 0 {
            let _ = write!(
                notes,
                "<p class=\"warning\">This schedule overbooks its clusters. Jobs that started while fewer processors \
                 were free than they had: {}.</p>",
                count(overbooked)
            );
        }
        if run.run.jobs.is_empty() {
            notes.push_str("<p class=\"warning\">No job ran.</p>");
        }
        per_run(body, index, first, &notes);
    }
    body.push_str("</section>\n");
}

fn series(body: &mut String) {
    body.push_str(
        "<section><h2>Utilization and queue length</h2>\n<p class=\"quiet\" id=\"series-note\"></p>\n\
         <div id=\"series\" class=\"pairs\"></div></section>\n",
    );
}

fn moves(body: &mut String, runs: &[NamedRun<'_>], first: usize) {
    if runs.iter().all(|run| run.run.reallocations == 0) {
        return;
    }
    body.push_str("<section><h2>Moves between clusters</h2>\n<div class=\"pairs\"><div>");
    for (index, run) in runs.iter().enumerate() {
        per_run(body, index, first, &tables::moves(run.run));
    }
    body.push_str("</div><div class=\"chart\"><canvas id=\"moves\" role=\"img\" aria-label=\"Moves over time\"></canvas></div></div></section>\n");
}

fn clusters(body: &mut String, runs: &[NamedRun<'_>], first: usize) {
    body.push_str("<section><h2>Clusters</h2>\n");
    for (index, run) in runs.iter().enumerate() {
        per_run(body, index, first, &(tables::clusters(run.summary) + &tables::settings(run.summary)));
    }
    body.push_str("</section>\n");
}
