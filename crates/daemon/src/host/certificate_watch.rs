//! Watches the certificate files of a daemon: uses new ones without a restart, and warns before they expire.

use std::sync::Arc;
use std::time::Duration;

use pliant_model::Span;
use pliant_telemetry::names;
use pliant_transport::{ClientTls, ServerTls};
use tokio::time::{Instant, MissedTickBehavior, interval};

/// How often the files are looked at. New connections look, too.
const EVERY: Duration = Duration::from_secs(5);
/// Certificates that expire within this time are worth a warning.
const WARN_BEFORE: Span = Span(30 * 86_400);
/// How often the warning is repeated.
const WARN_EVERY: Duration = Duration::from_secs(86_400);

/// Watches until it is dropped.
pub(super) async fn watch(server: Arc<ServerTls>, client: Arc<ClientTls>) {
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut warned: [Option<Instant>; 2] = [None; 2];
    loop {
        ticks.tick().await;
        server.refresh();
        client.refresh();
        let left = server.validity().left();
        for ((whose, left), warned) in
            [("own", left.own), ("authority", left.authority)].into_iter().zip(&mut warned)
        {
            metrics::gauge!(names::CERTIFICATE_EXPIRY_SECONDS, "certificate" => whose).set(left.0 as f64);
            if left > WARN_BEFORE {
                // The next one is warned of anew.
                *warned = None;
            } else if warned.is_none_or(|at| at.elapsed() >= WARN_EVERY) {
                *warned = Some(Instant::now());
                warn(whose, left);
            }
        }
    }
}

fn warn(whose: &str, left: Span) {
    let days = left.0.div_euclid(86_400);
    let hint = match whose {
        "own" => "renew it with `pliant ca request --renew`",
        _ => "replace it with `pliant ca rollover`",
    };
    match left.0 {
        ..=0 => tracing::warn!(certificate = whose, hint, "a certificate has expired"),
        _ => tracing::warn!(certificate = whose, days, hint, "a certificate expires soon"),
    }
}
