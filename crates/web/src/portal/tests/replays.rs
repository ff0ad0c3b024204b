//! Replays of the history at a portal: for operators, with their own identity, bounded.

use tokio::time::{Duration, sleep};

use super::*;

impl Browser<'_> {
    async fn replay(&mut self, policy: &str) -> StatusCode {
        let csrf = self.csrf.clone();
        let body = format!("{{\"hours\": 1, \"policies\": [\"{policy}\"]}}");
        self.post("/api/v1/what-if", &csrf, &body).await
    }

    async fn replay_state(&mut self) -> Value {
        serde_json::from_str(&self.get("/api/v1/what-if").await.1).unwrap()
    }
}

#[tokio::test]
async fn a_replay_goes_with_the_identity_of_its_user() {
    let site = Site::open();
    let mut root = site.logged_in("root");
    root.log_in().await;
    assert!(root.get("/").await.1.contains("href=\"/what-if\""));
    assert_eq!(root.replay("none").await, StatusCode::OK);
    let ended = loop {
        let state = root.replay_state().await;
        if state["state"] != "running" {
            break state;
        }
        sleep(Duration::from_millis(5)).await;
    };
    // The command of these tests prints the file that it got.
    let file = ended["problem"].as_str().unwrap();
    assert!(file.contains("identities/root/cert.pem") && file.contains("127.0.0.1:9"), "{file}");
    let mut alice = site.logged_in("alice");
    alice.log_in().await;
    assert_eq!(alice.replay("none").await, StatusCode::FORBIDDEN);
    assert!(!alice.get("/").await.1.contains("href=\"/what-if\""));
}

#[tokio::test]
async fn replays_of_all_users_are_bounded_and_end_with_their_user() {
    let site = Site::open();
    let mut operators = Vec::new();
    for name in ["op1", "op2", "op3"] {
        site.issue(Role::Operator, name);
        let mut operator = site.logged_in(name);
        operator.log_in().await;
        operators.push(operator);
    }
    let [one, two, three] = &mut operators[..] else { unreachable!() };
    assert_eq!((one.replay("slow").await, two.replay("slow").await), (StatusCode::OK, StatusCode::OK));
    assert_eq!(one.replay("slow").await, StatusCode::CONFLICT, "one of each user");
    assert_eq!(three.replay("slow").await, StatusCode::SERVICE_UNAVAILABLE, "two of all users");
    // Users with a replay that runs are kept, and a renewed certificate does not end it.
    site.portal.users.end_idle(Time(now().0 + 1000));
    std::fs::remove_dir_all(site.dir.path().join("identities/op1")).unwrap();
    site.issue(Role::Operator, "op1");
    assert_eq!(one.replay_state().await["state"], "running");
    // The replay of a removed user ends, and another one can begin.
    std::fs::remove_dir_all(site.dir.path().join("identities/op1")).unwrap();
    site.portal.end_removed();
    while three.replay("slow").await != StatusCode::OK {
        sleep(Duration::from_millis(5)).await;
    }
    for operator in [two, three] {
        let csrf = operator.csrf.clone();
        assert_eq!(operator.post("/api/v1/what-if/cancel", &csrf, "").await, StatusCode::OK);
    }
}
