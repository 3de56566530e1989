//! C-ID: what a call's text is, and whose result is whose.

mod support;

use portcullis::*;
use support::*;

// C-ID-2, C-LOG-4: text that cannot be sealed without loss is refused with its reason, runs nothing, is answered once, and
// is kept as it was written.
#[tokio::test]
async fn malformed_arguments_are_refused_and_answered() {
    let deep = format!(r#"{{"text":{}{}}}"#, "[".repeat(600), "]".repeat(600));
    let malformed = [
        "[]",
        "null",
        "{",
        r#"{"text":"a"} trailing"#,
        r#"{"text":"a","text":"b"}"#,
        r#"{"text":"a","te\u0078t":"b"}"#,
        r#"{"text":"a","n":1e400}"#,
        r#"{"text":"a","n":NaN}"#,
        r#"{"text":"\ud800"}"#,
        r#"{text:"a"}"#,
        "{'text':'a'}",
        "\u{feff}{\"text\":\"a\"}",
        &deep,
        // Well-formed, but not of the tool's schema.
        r#"{"text":7}"#,
        "{}",
        "",
    ];
    let all: Vec<(&str, &str)> = malformed.iter().map(|text| ("Echo", *text)).collect();
    let house = house(&all, |at| {
        at.guard("none-comes-here", |_| panic!("a refused call has no identity to guard"));
    })
    .await;
    assert_eq!(house.prompt("go").await, EndReason::Completed);
    assert!(house.ran().is_empty());
    assert_eq!(house.ends(), vec!["invalid_arguments"; malformed.len()]);
    let kept: Vec<String> = house
        .log()
        .iter()
        .filter_map(|r| match &r.body {
            Body::ToolCall(ToolCall { arguments: Arguments::Refused { raw, .. }, .. }) => {
                Some(raw.to_string())
            }
            _ => None,
        })
        .collect();
    assert_eq!(kept, malformed);
    for (result, text) in house.results().iter().zip(malformed) {
        assert!(result.error && result.content.to_text().contains("nothing ran"), "{text}: {result:?}");
    }
    house.close().await;
}

// C-ID-2: what is accepted reaches the body letter by letter: large integers, minus zero, the order of keys, magic keys.
#[tokio::test]
async fn what_is_accepted_is_exact() {
    let exact = r#"{ "z":12345678901234567890123, "a":-0, "$serde_json::private::Number":"1", "__proto__":{}, "e":1.10 }"#;
    let open = Frozen::parse(r#"{"type":"object"}"#).unwrap();
    let raw =
        raw_tool(ToolSpec::new("Raw", "Shows its text.", open).unwrap(), async |call: Execution, _cx| {
            Ok(Output::text(call.arguments.text()))
        });
    let plan = Plan::new(Says::calls(&[("Raw", exact), ("Raw", " ")])).tool(raw);
    let house = plan.open(|_| {}).await;
    assert_eq!(house.prompt("go").await, EndReason::Completed);
    let said: Vec<String> = house.results().iter().map(|r| r.content.to_text().into_owned()).collect();
    assert_eq!(said, [exact, "{}"]);
    house.close().await;
}

// C-ID-2, C-PIPE-8: results at the JSON boundary. A body has run, so what can be kept is kept and marked; what breaks the
// tool's own word is an error; in either case the log reads back and the turn goes on.
#[tokio::test]
async fn malformed_results_are_answered() {
    let shape =
        Frozen::parse(r#"{"type":"object","required":["n"],"properties":{"n":{"type":"integer"}}}"#).unwrap();
    let values =
        [r#"{"n":1}"#, r#"{"n":"one"}"#, "[]", "7", r#"{"n":1,"n":2}"#, "{", r#"{"n":1,"s":"\ud800"}"#, ""];
    let body = async |call: Execution, _cx: ToolCx| {
        let which =
            call.arguments.root().get("which").and_then(|w| w.as_str()).unwrap_or_default().into_owned();
        let (value, replaced) = Frozen::from_result(which)?;
        let marked = if replaced.any() { "marked" } else { "whole" };
        Ok(Output::text(marked).with_value(value))
    };
    let open = Frozen::parse(r#"{"type":"object"}"#).unwrap();
    let spec = ToolSpec::new("Shaped", "Gives back what it is told.", open).unwrap().output(shape).unwrap();
    let arguments: Vec<String> = values
        .iter()
        .map(|v| Frozen::of(&std::collections::BTreeMap::from([("which", v)])).unwrap().text().to_owned())
        .collect();
    let all: Vec<(&str, &str)> = arguments.iter().map(|a| ("Shaped", a.as_str())).collect();
    let house = Plan::new(Says::calls(&all)).tool(raw_tool(spec, body)).open(|_| {}).await;
    assert_eq!(house.prompt("go").await, EndReason::Completed);
    let expect = [
        "completed",
        "invalid_output",
        "invalid_output",
        "invalid_output",
        "tool_error",
        "tool_error",
        "completed",
        "tool_error",
    ];
    assert_eq!(house.ends(), expect);
    assert_eq!(house.results()[0].content.to_text(), "whole");
    assert_eq!(house.results()[6].content.to_text(), "marked");
    // Each record survives its own line.
    for record in house.log() {
        assert_eq!(decode(&encode(&record)).unwrap(), *record);
    }
    house.close().await;
}

// C-ID-3: two calls with one id of the model's are two calls, each with its own result.
#[tokio::test]
async fn repeated_ids_of_the_model_are_different_calls() {
    let model = Says::by_prompt(|_, said| {
        let twin = |text: &str| {
            let start = ModelEvent::CallStart { id: "same".into(), name: "Echo".into() };
            [start, ModelEvent::CallText(format!(r#"{{"text":"{text}"}}"#))]
        };
        if said > 0 {
            return say("done");
        }
        twin("a").into_iter().chain(twin("b")).chain([ModelEvent::Finish(Finish::Calls)]).collect()
    });
    let house = Plan::new(model).open(|at| {
        at.pre_execute("one-of-them", async |call| match call.key.call == CallPath::top(0) {
            true => Gate::deny("not this one"),
            false => Gate::allow(),
        });
    });
    let house = house.await;
    assert_eq!(house.prompt("go").await, EndReason::Completed);
    assert_eq!(house.ends(), ["hook_deny", "completed"]);
    assert_eq!(house.ran(), ["b"]);
    house.close().await;
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Three {
    a: u64,
    b: String,
    #[expect(dead_code, reason = "asked for and not used")]
    c: bool,
}

// C-PIPE-1: every violation of the schema is named with its place, so that one correction is enough; more keys than the
// schema knows are fine.
#[tokio::test]
async fn every_violation_is_named() {
    let three =
        tool("Three", "Takes three.", async |t: Three, _cx| Ok::<_, ToolError>(format!("{}{}", t.a, t.b)));
    let all = [("Three", r#"{"a":"x","b":7}"#), ("Three", r#"{"a":1,"b":"b","c":true,"more":[]}"#)];
    let house = Plan::new(Says::calls(&all)).tool(three.unwrap()).open(|_| {}).await;
    assert_eq!(house.prompt("go").await, EndReason::Completed);
    assert_eq!(house.ends(), ["invalid_arguments", "completed"]);
    let text = house.results()[0].content.to_text().into_owned();
    for part in ["$.a", "$.b", "\"c\""] {
        assert!(text.contains(part), "{part} is not in: {text}");
    }
    house.close().await;
}
