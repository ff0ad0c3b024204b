//! What monitoring and log readers get: pages over a real loopback socket, and log lines as written.
#![allow(clippy::unwrap_used, reason = "a failed call fails the test that made it")]

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::Arc;

use metrics_exporter_prometheus::PrometheusHandle;
use parking_lot::Mutex;
use pliant_daemon::monitoring::{Readiness, bind_http, recorder, serve_http};
use pliant_telemetry::names::{self, Kind};
use pliant_telemetry::{LogFormat, RequestId, subscriber};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Pages that are served until `stop` is sent.
struct Served {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<()>,
}

async fn serve(handle: PrometheusHandle, readiness: Readiness) -> Served {
    let listener = bind_http("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel();
    let until = async {
        let _ = stopped.await;
    };
    let serving = tokio::spawn(serve_http(listener, handle, move || readiness.clone(), until));
    Served { address, stop, serving }
}

/// Status line, headers and body of an answer.
async fn ask(address: SocketAddr, request: &str) -> (u16, String, String) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, head.to_lowercase(), body.to_owned())
}

async fn get(address: SocketAddr, path: &str) -> (u16, String, String) {
    ask(address, &format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n")).await
}

/// A page of metrics, read by the rules of the text format: types and helps by metric, values by name with labels.
#[derive(Default)]
struct Scrape {
    types: BTreeMap<String, String>,
    helps: BTreeMap<String, String>,
    values: BTreeMap<String, f64>,
}

impl Scrape {
    fn read(page: &str) -> Scrape {
        let mut scrape = Scrape::default();
        for line in page.lines().filter(|line| !line.is_empty()) {
            let comment = line.strip_prefix("# ").map(|rest| rest.splitn(3, ' ').collect::<Vec<_>>());
            match comment.as_deref() {
                Some(["TYPE", name, kind]) => {
                    assert_eq!(scrape.types.insert((*name).into(), (*kind).into()), None, "{line}");
                }
                Some(["HELP", name, help]) => {
                    assert_eq!(scrape.helps.insert((*name).into(), (*help).into()), None, "{line}");
                }
                Some(other) => panic!("{other:?}"),
                None => {
                    let (name, value) = line.rsplit_once(' ').unwrap();
                    assert_eq!(scrape.values.insert(name.into(), value.parse().unwrap()), None, "{line}");
                }
            }
        }
        scrape
    }

    fn value(&self, name: &str) -> f64 {
        *self.values.get(name).unwrap_or_else(|| panic!("no {name} in {:#?}", self.values.keys()))
    }
}

#[tokio::test]
async fn a_scrape_shows_every_metric_with_its_help_type_and_values() {
    let recorder = recorder();
    let handle = recorder.handle();
    metrics::with_local_recorder(&recorder, || {
        for metric in names::ALL {
            let labels: Vec<metrics::Label> =
                metric.labels.iter().map(|label| metrics::Label::new(*label, "x")).collect();
            match metric.kind {
                Kind::Counter => metrics::counter!(metric.name, labels).increment(7),
                Kind::Gauge => metrics::gauge!(metric.name, labels).set(-2.5),
                Kind::Histogram(_) => {
                    let histogram = metrics::histogram!(metric.name, labels);
                    [-45.0, 0.0, 0.5, 1e6].into_iter().for_each(|value| histogram.record(value));
                }
            }
        }
    });
    let served = serve(handle, Readiness::ready()).await;
    let (status, head, page) = get(served.address, "/metrics").await;
    assert_eq!(status, 200);
    assert!(head.contains("content-type: text/plain; version=0.0.4"), "{head}");
    let scrape = Scrape::read(&page);
    for metric in names::ALL {
        assert_eq!(scrape.types[metric.name], metric.kind.name(), "{}", metric.name);
        assert_eq!(scrape.helps[metric.name], metric.help);
        let labels: Vec<String> = metric.labels.iter().map(|label| format!("{label}=\"x\"")).collect();
        let braced = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        match metric.kind {
            Kind::Counter => assert_eq!(scrape.value(&format!("{}{braced}", metric.name)), 7.0),
            Kind::Gauge => assert_eq!(scrape.value(&format!("{}{braced}", metric.name)), -2.5),
            Kind::Histogram(bounds) => {
                for bound in bounds {
                    let expected = [-45.0, 0.0, 0.5, 1e6].iter().filter(|value| *value <= bound).count();
                    let bucket = format!("{}_bucket{{le=\"{bound}\"}}", metric.name);
                    assert_eq!(scrape.value(&bucket), expected as f64, "{bucket}");
                }
                assert_eq!(scrape.value(&format!("{}_bucket{{le=\"+Inf\"}}", metric.name)), 4.0);
                assert_eq!(scrape.value(&format!("{}_count", metric.name)), 4.0);
                assert_eq!(scrape.value(&format!("{}_sum", metric.name)), 1e6 - 44.5);
            }
        }
    }
    assert_eq!(scrape.types.len(), names::ALL.len());
}

#[tokio::test]
async fn pages_answer_what_they_are_for_and_refuse_the_rest() {
    let ready = serve(recorder().handle(), Readiness::ready()).await;
    let unready = Readiness::ready().but("parent", "no answer for \"35\" s\n").but("journal", "replaying");
    let unready = serve(recorder().handle(), unready).await;
    let (ready, unready) = (&ready, &unready);
    let check = async |served: &Served, request: String, status, body: &str| {
        let answer = ask(served.address, &request).await;
        assert_eq!((answer.0, answer.2.as_str()), (status, body), "{request}");
        assert!(answer.1.contains("connection: close"), "{}", answer.1);
    };
    let plain = |line: &str| format!("{line} HTTP/1.1\r\nhost: x\r\n\r\n");
    let paths = "expected /metrics, /healthz or /readyz\n";
    check(ready, plain("GET /healthz"), 200, "ok\n").await;
    check(ready, plain("HEAD /healthz"), 200, "").await;
    check(ready, plain("HEAD /metrics"), 200, "").await;
    check(ready, plain("GET /readyz"), 200, "{\"ready\":true,\"reasons\":[]}\n").await;
    check(unready, plain("GET /healthz"), 200, "ok\n").await;
    check(ready, plain("GET /"), 404, paths).await;
    check(ready, plain("GET /metrics/../../etc/passwd"), 404, paths).await;
    check(ready, plain("POST /metrics"), 405, "").await;
    check(ready, plain("DELETE /readyz"), 405, "").await;
    check(ready, plain("nonsense"), 400, "").await;
    let with_body = |header: &str| format!("GET /metrics HTTP/1.1\r\nhost: x\r\n{header}\r\n\r\n");
    let refused = "expected a request without a body\n";
    check(ready, with_body("content-length: 1000000000000"), 413, refused).await;
    check(ready, with_body("transfer-encoding: chunked"), 413, refused).await;
    check(ready, with_body(&"a: b\r\n".repeat(100)), 431, "").await;

    let (status, head, body) = get(unready.address, "/readyz").await;
    assert_eq!(status, 503);
    assert!(head.contains("content-type: application/json"), "{head}");
    let reasons = json!([
        { "part": "parent", "reason": "no answer for \"35\" s\n" },
        { "part": "journal", "reason": "replaying" },
    ]);
    assert_eq!(serde_json::from_str::<Value>(&body).unwrap(), json!({ "ready": false, "reasons": reasons }));
}

#[tokio::test]
async fn headers_without_end_are_cut_off() {
    let served = serve(recorder().handle(), Readiness::ready()).await;
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    let line = format!("GET /healthz HTTP/1.1\r\nlong: {}", "x".repeat(1 << 20));
    // The server may close before it has read all: then the rest cannot be sent, or the answer is lost.
    let _ = stream.write_all(line.as_bytes()).await;
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    let answer = String::from_utf8(answer).unwrap();
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431"), "{answer}");
}

#[tokio::test]
async fn slow_clients_do_not_keep_others_waiting() {
    let served = serve(recorder().handle(), Readiness::ready()).await;
    let mut slow = Vec::new();
    for sent in ["", "G", "GET /metrics HTTP/1.1\r\n", "GET /metrics HTTP/1.1\r\nhost: x\r\n"].repeat(5) {
        let mut stream = TcpStream::connect(served.address).await.unwrap();
        stream.write_all(sent.as_bytes()).await.unwrap();
        slow.push(stream);
    }
    assert_eq!(get(served.address, "/healthz").await.0, 200);
    // They were not thrown out to make room: the last one may still finish.
    let mut last = slow.pop().unwrap();
    last.write_all(b"\r\n").await.unwrap();
    let mut answer = String::new();
    last.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

#[tokio::test]
async fn stopping_closes_idle_connections_and_the_port() {
    let served = serve(recorder().handle(), Readiness::ready()).await;
    let mut idle = TcpStream::connect(served.address).await.unwrap();
    assert_eq!(get(served.address, "/healthz").await.0, 200);
    served.stop.send(()).unwrap();
    served.serving.await.unwrap();
    let mut rest = Vec::new();
    let _ = idle.read_to_end(&mut rest).await;
    assert_eq!(rest, b"");
    assert!(TcpStream::connect(served.address).await.is_err());
}

/// Keeps what is logged.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<u8>>>);

impl Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What `log` logs under a format and a filter.
fn logged(format: LogFormat, filter: &str, log: impl FnOnce()) -> String {
    let kept = Kept::default();
    let writer = kept.clone();
    let dispatch = subscriber(format, filter, move || writer.clone()).unwrap();
    tracing::dispatcher::with_default(&dispatch, log);
    let bytes = kept.0.lock().clone();
    String::from_utf8(bytes).unwrap()
}

#[test]
fn a_json_line_parses_and_carries_the_request_id() {
    let id = RequestId::fresh();
    let lines = logged(LogFormat::Json, "warn", || {
        let _call = id.span().entered();
        let _inner = tracing::warn_span!("journal", batch = 3).entered();
        tracing::warn!(job = "rennes.17", file = %"a\nb", "a \"quoted\"\nmessage");
        tracing::info!("filtered out");
    });
    assert_eq!(lines.lines().count(), 1, "{lines}");
    let line: Value = serde_json::from_str(&lines).unwrap();
    assert_eq!(line["level"], "WARN");
    assert_eq!(line["message"], "a \"quoted\"\nmessage");
    assert_eq!(line["job"], "rennes.17");
    assert_eq!(line["file"], "a\nb");
    assert_eq!(line["target"], "telemetry");
    assert_eq!(line["spans"][0]["request"], id.to_string());
    assert_eq!(line["spans"][1]["batch"], 3);
    assert!(line["timestamp"].as_str().unwrap().ends_with('Z'), "{line}");
}

#[test]
fn a_text_line_has_time_level_message_and_fields_in_one_line() {
    let id = RequestId::fresh();
    let hostile = "x\n2026-01-01T00:00:00Z  INFO forged \u{1b}[31m";
    let lines = logged(LogFormat::Text, "error", || {
        let _call = id.span().entered();
        tracing::error!(procs = 8, user = "eve adams", file = %hostile, "job {hostile} refused");
    });
    assert_eq!(lines.lines().count(), 1, "{lines}");
    let (time, rest) = lines.split_once(' ').unwrap();
    assert!(time.ends_with('Z') && time.contains('T'), "{lines}");
    let escaped = "x\\n2026-01-01T00:00:00Z  INFO forged \\u{1b}[31m";
    let expected =
        format!("ERROR call: job {escaped} refused procs=8 user=\"eve adams\" file={escaped} request={id}\n");
    assert_eq!(rest.trim_start(), expected);
}

/// A full disk.
struct Full;

impl Write for Full {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::StorageFull.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_line_that_cannot_be_written_is_lost_and_nothing_else() {
    for format in [LogFormat::Text, LogFormat::Json] {
        let dispatch = subscriber(format, "info", || Full).unwrap();
        let done = tracing::dispatcher::with_default(&dispatch, || {
            tracing::info!("lost");
            true
        });
        assert!(done);
    }
}
