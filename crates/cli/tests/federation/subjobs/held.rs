//! What a subjob holds is seen by its owner and by operators, who end it when its agent does not.

use serde_json::Value;

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_sees_and_ends_what_an_agent_has_left() {
    let federation = Federation::start(&[cluster(2)]).await;
    let mut agent = Agent::start(&federation, LYON).await;
    let subjob = agent.subjob(1, LYON, &[("one", telling(&federation, "one", 0), &[])]);
    agent.prepare(&subjob).await;
    agent.held(&subjob.id).await;

    let configs = [(Role::User, "alice"), (Role::User, "bob"), (Role::Operator, "root")];
    let [alice, bob, root] = configs.map(|(role, name)| federation.client_file(role, name));
    let listed = |config: &std::path::Path| -> Value {
        let (code, text, stderr) =
            said(pliant(config, &["launch", "subjobs", "--format", "json"]).output().unwrap());
        assert_eq!(code, 0, "{stderr}");
        document(&text)
    };
    for config in [&alice, &root] {
        let held = &listed(config)["subjobs"];
        assert_eq!(held.as_array().unwrap().len(), 1, "{held}");
        let facts = ["server", "agent", "owner", "state"].map(|key| held[0][key].as_str().unwrap());
        assert_eq!(facts, [LYON, AGENT, "alice", "prepared"]);
    }
    assert_eq!(listed(&bob)["subjobs"], Value::Array(Vec::new()), "bob sees his own subjobs only");

    let launch = subjob.id.launch.to_string();
    let end = |config: &std::path::Path| {
        said(pliant(config, &["launch", "subjobs", "--server", LYON, "--end", &launch]).output().unwrap())
    };
    let (code, _, stderr) = end(&alice);
    assert!(code == 2 && stderr.contains("only an operator"), "{code}: {stderr}");
    assert!(
        stderr.ends_with("\n  hint: `pliant cancel LAUNCH` ends a launch of your own with all its subjobs\n"),
        "{stderr}"
    );
    let (code, _, stderr) = end(&bob);
    assert!(code == 2 && stderr.contains("has no subjobs at these servers"), "{code}: {stderr}");
    let (code, text, stderr) = end(&root);
    assert!(code == 0 && text.contains("ended"), "{code}: {text}{stderr}");
    let Exit::NotStarted(why) = agent.hears(&subjob.id, "is over", how_it_ended).await else {
        panic!("nothing of it ran")
    };
    assert!(why.contains("operator root"), "{why}");
    all_is_free(&federation, 2).await;
    assert_eq!(listed(&root)["subjobs"], Value::Array(Vec::new()));
}
