//! C-SUB: the `Agent` tool, and what comes of a child.

mod support;

use portcullis::*;
use support::*;

const KINDS: [(&str, &str); 2] = [
    ("Agent", r#"{"description":"d","prompt":"dig","subagent_type":"digger"}"#),
    ("Agent", r#"{"description":"d","prompt":"dig","subagent_type":"nobody"}"#),
];

async fn with_child(
    answer: impl Fn() -> Vec<ModelEvent> + Send + Sync + 'static,
    at: impl FnOnce(&mut Registrar<'_>),
) -> House {
    let model = Says::by_prompt(move |prompt, said| match (prompt, said) {
        ("dig", _) => answer(),
        (_, 0) => calls(&KINDS[..1]),
        _ => say("done"),
    });
    Plan::new(model).agents().open(at).await
}

// C-SUB-4: what a child came to is one result: its last words, or how it ended; anything but a completed turn is an error.
#[tokio::test]
async fn what_a_child_came_to_is_its_parents_result() {
    let cut = vec![ModelEvent::Text("half".into()), ModelEvent::Finish(Finish::MaxTokens)];
    let silent = vec![ModelEvent::Finish(Finish::Stop)];
    let cases = [
        (say("gold"), "completed", "gold"),
        (silent, "completed", "said nothing"),
        (cut, "tool_error", "max_tokens"),
        (vec![ModelEvent::Text("half".into())], "tool_error", "model_cut"),
    ];
    for (answer, ended, text) in cases {
        let house = with_child(move || answer.clone(), |_| {}).await;
        assert_eq!(house.prompt("go").await, EndReason::Completed, "{text}");
        let result = &house.results()[0];
        assert_eq!(result.outcome.name(), ended, "{text}");
        assert!(result.content.to_text().contains(text), "{text}: {result:?}");
        assert_eq!(house.runtime.live_sessions().len(), 1, "the child left memory");
        house.close().await;
    }
}

// C-SUB-4: a child whose prompt is blocked did not complete.
#[tokio::test]
async fn a_blocked_child_is_no_success() {
    let house = with_child(
        || say("gold"),
        |at| {
            at.depth(1..=1, |at| {
                at.prompt_submit("no", async |_| Submit::block("not here"));
            });
        },
    )
    .await;
    assert_eq!(house.prompt("go").await, EndReason::Completed);
    assert_eq!(house.ends(), ["tool_error"]);
    assert!(house.results()[0].content.to_text().contains("rejected"));
    house.close().await;
}

// C-SUB-2: a kind has its own system text and its own tools, and only the child has them; an unknown kind is an error with
// the kinds there are.
#[tokio::test]
async fn a_kind_is_the_childs_alone() {
    let model = Says::by_prompt(|prompt, said| match (prompt, said) {
        ("dig", _) => say("gold"),
        (_, 0) => calls(&KINDS),
        _ => say("done"),
    });
    let ran = std::sync::Arc::default();
    let kind = AgentKind::new("digger", "Digs.").system("You dig.").tools(["Echo"]);
    let runtime = Runtime::builder(model.clone())
        .tools([echo(&ran)])
        .tool(agent_tool(vec![kind]).unwrap())
        .system("You rule.")
        .arbiters(1)
        .start()
        .await
        .unwrap();
    let session = runtime.session("s").await.unwrap();
    assert_eq!(within(session.prompt("go").await.unwrap().into_future()).await, EndReason::Completed);
    let headers: Vec<(String, usize)> =
        model.requests().iter().map(|r| (r.header.system.to_string(), r.header.tools.len())).collect();
    let expect = [("You rule.", 2), ("You dig.", 1), ("You rule.", 2)].map(|(s, n)| (s.to_owned(), n));
    assert_eq!(headers, expect);
    let unknown = model.requests()[2].messages.iter().any(
        |m| matches!(m, Message::Result { content, error: true, .. } if content.to_text().contains("There are: digger")),
    );
    assert!(unknown);
    assert_eq!(within(runtime.shutdown(PATIENCE)).await.parked, []);
}
