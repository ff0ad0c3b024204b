//! What `pliant servers` says of certificates that expire soon.

use pliant_model::{Span, Time};
use pliant_wire::Federation;

use crate::time_text::rough;

/// Certificates that expire within this time are shown.
const EXPIRES_SOON: Span = Span(30 * 86_400);

/// A line for each certificate that expires soon. `own` is that of the caller.
pub(super) fn text(federation: &Federation, own: Time, now: Time) -> String {
    let servers =
        federation.servers.iter().map(|server| (server.info.name.to_string(), server.certificate_not_after));
    let agents =
        federation.agents.iter().map(|agent| (format!("agent {}", agent.name), agent.certificate_not_after));
    let asked = ("the agent".to_owned(), federation.certificate_not_after);
    let all = servers.chain(agents).chain([asked, ("this user".to_owned(), Some(own))]);
    let soon =
        all.filter_map(|(whose, until)| Some((whose, until? - now))).filter(|(_, left)| *left < EXPIRES_SOON);
    soon.map(|(whose, left)| match left.0 {
        ..=0 => format!("the certificate of {whose} has expired\n"),
        _ => format!("the certificate of {whose} expires in {}\n", rough(left)),
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use pliant_wire::AgentStatus;

    use super::*;

    #[test]
    fn certificates_that_expire_soon_are_reported() {
        let agent = |name: &str, days: Option<i64>| AgentStatus {
            name: name.parse().unwrap(),
            attached: true,
            since: Time(0),
            clock_ahead: None,
            certificate_not_after: days.map(|days| Time(1000 + days * 86_400)),
        };
        let agents = vec![
            agent("paris", None),
            agent("nice", Some(29)),
            agent("lyon", Some(31)),
            agent("tours", Some(-1)),
        ];
        let until = Some(Time(1000 + 365 * 86_400));
        let federation = Federation { agents, certificate_not_after: until, ..Federation::default() };
        let nice = "the certificate of agent nice expires in 29d\n";
        let tours = "the certificate of agent tours has expired\n";
        assert_eq!(text(&federation, Time(i64::MAX / 2), Time(1000)), format!("{nice}{tours}"));
        let own = "the certificate of this user expires in 1h\n";
        assert_eq!(text(&Federation::default(), Time(4600), Time(1000)), own);
    }
}
