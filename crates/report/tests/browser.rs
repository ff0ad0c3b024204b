//! Pages looked at in a real browser: Chromium without a window. Each page records its errors and what it
//! drew on its body; both are checked, and a broken page is shown to be caught.
//!
//! Without a browser the tests say so and pass. With `PLIANT_REPORT_PAGES=DIR` the pages are kept there.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod support;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use pliant_model::Run;
use pliant_report::html::{NamedRun, RunPart, render_campaign, render_part, render_runs};
use pliant_report::{CampaignRow, CampaignTable};
use pliant_report::{Summary, compare, summarize};
use pliant_testing::browser::find as browser;
use support::{drawn_run, grid5000, platform, run_of};

const TIMEOUT: Duration = Duration::from_secs(90);

/// What a page said of itself, and the browser of it.
struct Seen {
    rendered: String,
    errors: String,
    benchmark: String,
    worked: String,
    console: String,
}

impl Seen {
    /// The number after `name:` in what was drawn.
    fn drawn(&self, name: &str) -> u64 {
        let words = self.rendered.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix(':'));
        words
            .and_then(|number| number.parse().ok())
            .unwrap_or_else(|| panic!("no `{name}` in `{}`", self.rendered))
    }

    /// Everything that is wrong with the page, in words; empty for a good one.
    fn complaints(&self) -> String {
        let mut complaints = String::new();
        if self.errors != "[]" {
            complaints += &format!("errors: {}\n", self.errors);
        }
        if self.rendered.is_empty() {
            complaints += "nothing was rendered\n";
        }
        for line in self.console.lines().filter(|line| line.contains("CONSOLE")) {
            complaints += &format!("{line}\n");
        }
        complaints
    }
}

/// Opens a page and waits until it is drawn.
fn open(browser: &Path, name: &str, html: &str, fragment: &str) -> Seen {
    let folder = tempfile::tempdir().unwrap();
    let kept = std::env::var_os("PLIANT_REPORT_PAGES").map(PathBuf::from);
    let page = kept.as_deref().unwrap_or(folder.path()).join(name);
    fs::write(&page, html).unwrap();
    let (dom, log) = (folder.path().join("dom"), folder.path().join("log"));
    let mut child = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        .args(["--enable-logging=stderr", "--v=0", "--window-size=1400,2400", "--dump-dom"])
        .arg(format!("--user-data-dir={}", folder.path().join("profile").display()))
        .arg(format!("file://{}{fragment}", fs::canonicalize(&page).unwrap().display()))
        .stdin(Stdio::null())
        .stdout(File::create(&dom).unwrap())
        .stderr(File::create(&log).unwrap())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + TIMEOUT;
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > deadline {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("{name}: the browser did not end within {TIMEOUT:?}");
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let dom = fs::read_to_string(&dom).unwrap();
    let body = dom.split_once("<body").map_or("", |(_, rest)| rest.split('>').next().unwrap_or(""));
    let attribute = |name: &str| {
        let value =
            body.split_once(&format!("{name}=\"")).map(|(_, rest)| rest.split('"').next().unwrap_or(""));
        value.unwrap_or("").replace("&quot;", "\"")
    };
    Seen {
        rendered: attribute("data-rendered"),
        errors: attribute("data-errors"),
        benchmark: attribute("data-benchmark"),
        worked: attribute("data-worked"),
        console: String::from_utf8_lossy(&fs::read(&log).unwrap()).into_owned(),
    }
}

fn page_of(title: &str, runs: &[(&str, &Run)]) -> String {
    let summaries: Vec<Summary> = runs
        .iter()
        .map(|(_, run)| {
            let mut summary = summarize(run);
            summary.run.insert("workload".into(), "drawn".into());
            summary.run.insert("seed".into(), 1.into());
            summary
        })
        .collect();
    let named: Vec<NamedRun<'_>> =
        runs.iter().zip(&summaries).map(|((name, run), summary)| NamedRun { name, run, summary }).collect();
    render_runs(title, "A drawn workload on three clusters of 640, 270 and 434 processors.", &named).unwrap()
}

fn variants(count: usize) -> Vec<(String, Run)> {
    let names = ["no reallocation", "MCT, regular", "MCT, all-cancellation", "MinMin, regular"];
    names
        .iter()
        .zip(2..)
        .map(|(name, policy)| ((*name).to_owned(), drawn_run(grid5000(), count, 1, policy)))
        .collect()
}

fn campaign(seeds: u64) -> CampaignTable {
    let mut rows = Vec::new();
    for workload in ["January", "February", "March", "April", "May", "June", "PWA-G5K"] {
        for dedicated in [true, false] {
            for seed in 0..seeds {
                let draws = seed + 1000 * workload.len() as u64 + u64::from(dedicated);
                let reference = drawn_run(grid5000(), 1500, draws, 1);
                for (policy, number) in [("MCT-reg", 2), ("MCT-can", 3), ("MinMin-reg", 4), ("MinMin-can", 5)]
                {
                    let run = drawn_run(grid5000(), 1500, draws, number);
                    let found = compare(&run, &reference).unwrap();
                    let mut metrics = BTreeMap::from([
                        ("impacted_percent".to_owned(), found.impacted_percent),
                        ("reallocations_percent".to_owned(), found.reallocations_percent),
                        ("mean_wait_s".to_owned(), summarize(&run).mean_wait_s),
                    ]);
                    metrics.extend(found.early_percent.map(|value| ("early_percent".to_owned(), value)));
                    let relative = found.relative_mean_response;
                    metrics.extend(relative.map(|value| ("relative_mean_response".to_owned(), value)));
                    let (workload, policy) = (workload.to_owned(), policy.to_owned());
                    rows.push(CampaignRow { workload, dedicated, policy, seed, metrics });
                }
            }
        }
    }
    CampaignTable { rows }
}

#[test]
fn one_large_run_is_drawn() {
    let Some(browser) = browser() else { return };
    let run = drawn_run(grid5000(), 100_000, 1, 2);
    let html = page_of("One run of 100,000 jobs", &[("MCT", &run)]);
    println!("page of 100,000 jobs: {:.1} MB", html.len() as f64 / 1e6);
    let seen = open(&browser, "one.html", &html, "#benchmark");
    assert_eq!(seen.complaints(), "");
    assert_eq!((seen.drawn("gantt"), seen.drawn("lanes"), seen.drawn("series")), (100_000, 3, 6));
    println!("milliseconds of a frame: {}", seen.benchmark);
    assert!(seen.benchmark.contains("\"whole\""), "{}", seen.benchmark);
}

#[test]
fn each_part_of_a_page_is_drawn_alone() {
    let Some(browser) = browser() else { return };
    let run = drawn_run(grid5000(), 2_000, 1, 2);
    let summary = summarize(&run);
    let named = NamedRun { name: "MCT", run: &run, summary: &summary };
    for (file, part, shown) in [
        ("schedule.html", RunPart::Schedule, "Schedule"),
        ("utilization.html", RunPart::Utilization, "Utilization"),
    ] {
        let page = render_part(&named, part);
        assert!(page.contains(&format!("<section><h2>{shown}")));
        assert_eq!(page.matches("<section hidden>").count(), 1);
        let seen = open(&browser, file, &page, "");
        assert_eq!(seen.complaints(), "");
        assert_eq!((seen.drawn("gantt"), seen.drawn("series")), (2_000, 6));
    }
}

#[test]
fn a_comparison_is_drawn() {
    let Some(browser) = browser() else { return };
    let variants = variants(6000);
    let runs: Vec<(&str, &Run)> = variants.iter().map(|(name, run)| (name.as_str(), run)).collect();
    let seen = open(&browser, "runs.html", &page_of("Reallocation on a Grid'5000-like month", &runs), "");
    assert_eq!(seen.complaints(), "");
    assert_eq!((seen.drawn("gantt"), seen.drawn("runs"), seen.drawn("moves")), (6000, 4, 1));
}

/// Works a page by synthetic events and records the outcome of each.
const HANDS: &str = r#"<script>
const gantt = window.pliantReport.gantt, canvas = gantt.canvas, worked = {};
const key = (node, name) => node.dispatchEvent(new KeyboardEvent("keydown", { key: name, bubbles: true, cancelable: true }));
const length = () => gantt.view.t1 - gantt.view.t0, whole = length();
const pressed = () => [...document.querySelectorAll("[data-select]")].findIndex((node) => node.ariaPressed === "true");
worked.opened = pressed();
const bounds = canvas.getBoundingClientRect();
const wheel = (deltaY) => !canvas.dispatchEvent(new WheelEvent("wheel", { deltaY, clientX: bounds.left + 400, cancelable: true }));
worked.wheelOutScrolls = !wheel(120);
worked.wheelZooms = wheel(-120) && length() < whole;
key(canvas, "0");
worked.wholeRun = length() === whole;
key(canvas, "+");
worked.keyZooms = length() < whole;
const before = gantt.view.t0;
key(canvas, "ArrowRight");
worked.keyPans = gantt.view.t0 > before;
key(canvas, "n");
const pinned = () => document.getElementById("pinned").textContent;
worked.keyPins = pinned().includes("Why here: ");
const first = pinned();
key(canvas, "n");
worked.keySteps = pinned() !== first && pinned().includes("Job ");
key(canvas, "p");
worked.keyStepsBack = pinned() === first;
key(canvas, "Escape");
worked.keyUnpins = document.getElementById("pinned").hidden;
key(canvas, "0");
gantt.draw();
const seen = new Set();
for (let x = 130; x < bounds.width - 10; x += 7) {
  canvas.dispatchEvent(new PointerEvent("pointermove", { clientX: bounds.left + x, clientY: bounds.top + 60 }));
  const tip = document.querySelector(".tip");
  if (tip && !tip.hidden) seen.add(tip.textContent.split("Why here: ")[1].slice(0, 12));
}
worked.seen = [...seen].sort();
key(document.querySelector('[aria-pressed="true"]'), "ArrowLeft");
worked.keySelects = pressed() === worked.opened - 1 && document.activeElement.ariaPressed === "true";
window.pliantReport.select(0);
worked.noEmptyChart = document.getElementById("moves").parentElement.hidden;
const named = (node) => node.getAttribute("aria-label") || node.textContent.trim() || node.labels?.length;
worked.unnamed = [...document.querySelectorAll("canvas, button, select")].filter((node) => !named(node)).length;
document.body.dataset.worked = JSON.stringify(worked);
</script></body>"#;

#[test]
fn a_page_is_worked_by_pointer_and_keys() {
    let Some(browser) = browser() else { return };
    let mut variants = variants(6000);
    let reference = &mut variants[0].1;
    reference.moves.clear();
    reference.reallocations = 0;
    let runs: Vec<(&str, &Run)> = variants.iter().map(|(name, run)| (name.as_str(), run)).collect();
    let page = page_of("Worked", &runs).replacen("</body>", HANDS, 1);
    let seen = open(&browser, "worked.html", &page, "");
    assert_eq!(seen.complaints(), "");
    let worked: serde_json::Value = serde_json::from_str(&seen.worked).unwrap();
    for done in [
        "wheelOutScrolls",
        "wheelZooms",
        "wholeRun",
        "keyZooms",
        "keyPans",
        "keyPins",
        "keySteps",
        "keyStepsBack",
        "keyUnpins",
        "keySelects",
        "noEmptyChart",
    ] {
        assert_eq!(worked[done], true, "{done}: {worked}");
    }
    assert_eq!(
        worked["seen"],
        serde_json::json!(["moved here w", "submitted st", "the first ch"]),
        "{worked}"
    );
    assert!(worked["opened"].as_u64() > Some(0) && worked["unnamed"] == 0, "{worked}");
}

#[test]
fn figures_that_are_unfolded_are_drawn() {
    let Some(browser) = browser() else { return };
    let mut table = campaign(2);
    for row in &mut table.rows {
        row.metrics.insert("p99_wait_s".to_owned(), row.seed as f64 + 1.0);
    }
    let page = render_campaign("Folded", "", &table);
    let folded = open(&browser, "folded.html", &page, "");
    let unfolded =
        open(&browser, "unfolded.html", &page.replace("class=\"more\"", "class=\"more\" open"), "");
    assert_eq!((folded.complaints(), unfolded.complaints()), Default::default());
    assert_eq!((folded.drawn("boxes"), unfolded.drawn("boxes")), (10 * 7 * 4, 12 * 7 * 4));
}

#[test]
fn a_campaign_is_drawn() {
    let Some(browser) = browser() else { return };
    let html =
        render_campaign("Paper 000, figures 6 to 13", "Four policies, seven workloads.", &campaign(10));
    let seen = open(&browser, "campaign.html", &html, "");
    assert_eq!(seen.complaints(), "");
    assert_eq!((seen.drawn("figures"), seen.drawn("boxes")), (10, 10 * 7 * 4));
}

#[test]
fn runs_with_next_to_nothing_are_drawn() {
    let Some(browser) = browser() else { return };
    let hostile = platform(&[
        ("</script><script>throw 1</script>", 4, 1.0),
        ("<img src=x onerror=alert(1)>&'", 2, 1.0),
    ]);
    let check = |name: &str, jobs: usize, title: &str| {
        let run = drawn_run(platform(&[("a", 64, 1.0)]), jobs, 1, 1);
        let seen = open(&browser, name, &page_of(title, &[(title, &run)]), "");
        assert_eq!(seen.complaints(), "", "{name}");
        assert_eq!(seen.drawn("gantt"), jobs as u64, "{name}");
    };
    check("empty.html", 0, "No job at all");
    check("single.html", 1, "<b>One</b> job & </title></script>");
    let run = run_of(hostile, vec![support::job(1, 0, 0, 20, 4), support::job(2, 5, 20, 50, 1)]);
    let page = page_of("Odd names", &[("<i>\"a\"</i>", &run), ("</script>", &run)]);
    let seen = open(&browser, "odd.html", &page, "");
    assert_eq!(seen.complaints(), "");
    assert_eq!((seen.drawn("gantt"), seen.drawn("lanes")), (2, 2));
    let many: Vec<(String, u32, f64)> =
        (0..40).map(|number| (format!("site-{number}"), 32 + number, 1.0)).collect();
    let many: Vec<(&str, u32, f64)> =
        many.iter().map(|(name, procs, speed)| (name.as_str(), *procs, *speed)).collect();
    let run = drawn_run(platform(&many), 3000, 1, 1);
    let seen = open(&browser, "many.html", &page_of("Forty clusters", &[("MCT", &run)]), "");
    assert_eq!(seen.complaints(), "");
    assert_eq!((seen.drawn("lanes"), seen.drawn("series")), (12, 24));
    let seen = open(&browser, "nothing.html", &render_campaign("Nothing", "", &CampaignTable::default()), "");
    assert_eq!((seen.complaints().as_str(), seen.drawn("boxes")), ("", 0));
}

#[test]
fn a_broken_page_is_caught() {
    let Some(browser) = browser() else { return };
    let run = drawn_run(grid5000(), 10, 1, 1);
    let page = page_of("Broken", &[("MCT", &run)]);
    let check = |name: &str, from: &str, to: &str, expected: &str| {
        assert!(page.contains(from), "{name}: the page has no `{from}`");
        let complaints = open(&browser, name, &page.replacen(from, to, 1), "").complaints();
        assert!(complaints.contains(expected), "{name}: `{complaints}`");
    };
    check("broken-script.html", "${data.runs.length}", "${data.nonsense.length}", "nothing was rendered");
    check("broken-error.html", "\"kind\":\"runs\"", "\"kind\":\"runs", "errors: [");
    check(
        "broken-log.html",
        "new ResizeObserver",
        "console.error('deliberate'); new ResizeObserver",
        "deliberate",
    );
    let outside = "<img src=\"https://example.org/x.png\"></header>";
    check("broken-outside.html", "</header>", outside, "Content Security Policy");
}
