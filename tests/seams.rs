//! C-SEAM: the seams, seen from outside.

mod support;

use portcullis::*;
use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
};
use support::*;

/// One handler at every point, with an effect that shows.
fn at_every_point(at: &mut Registrar<'_>, seen: &Arc<Mutex<Vec<String>>>) {
    let (results, ends, turns, summaries) = (seen.clone(), seen.clone(), seen.clone(), seen.clone());
    let (over, starts) = (seen.clone(), seen.clone());
    at.depth(0..=0, |at| {
        at.turn_start("looks", async move |turn| {
            let scene = turn.scene;
            starts.lock().unwrap().push(format!("begins {} {}", scene.session.id, scene.turn));
        });
    });
    at.session_start("start", async |_| Reply::new(Started {}).context("you are in a castle"));
    at.subagent_start("start", async |_| Reply::new(Started {}).context("you dig"));
    at.depth(0..=0, |at| {
        at.prompt_submit("prompt", async |_| Submit::replace("go, please"));
        at.batch("count", async |batch| {
            Reply::new(Batched {}).context(format!("{} calls are done", batch.calls.len()))
        });
        at.turn_continuation("again", async |_| Continue::again("look once more"));
        at.turn_stop("enough", async |b| if b.scene.step == 3 { StopTurn::Stop } else { StopTurn::Abstain });
        at.compaction("map", async |_| Compact::keeping("Keep the map."));
        at.compacted("read", async move |made| {
            summaries.lock().unwrap().push(format!("summary {}", made.summary.to_text()));
            Noted {}
        });
    });
    at.tools("Echo", |at| {
        at.rewrite("polite", async |call| {
            let text = call.so_far.text().replace("give", "please give");
            Proposal::arguments(Frozen::parse(text).expect("still JSON"))
        });
        at.pre_execute("gate", async |call| match call.arguments.text() {
            text if text.contains("rope") => Gate::deny("no rope"),
            text if text.contains("bread") => Gate::ask("bread?"),
            _ => Gate::allow(),
        });
        at.permission("baker", async |_| Permit::Allow);
        at.guard("guard", |call| call.arguments.text().contains("knife").then(|| "no knife".into()));
        at.wrap("wrap", async |next| {
            let said = next.run().await.output.map(|o| o.content.to_text().into_owned());
            Outcome::completed(format!("[{}]", said.unwrap_or_default()))
        });
        at.post_execute("review", async |call| match call.outcome.ended.is_success() {
            true => {
                let said = call.outcome.for_model().0.to_text().into_owned();
                Reply::new(Review::replace(format!("{said} (reviewed)"))).context("mind the step")
            }
            false => Reply::new(Review::accept()),
        });
    });
    // Nobody is asked here: `tests/permission.rs` sees it fire.
    at.asked("asked", |_| {});
    at.result("result", move |r| {
        results.lock().unwrap().push(format!("result {} {}", r.name, r.content.to_text()));
    });
    at.turn_end("over", move |t| {
        turns.lock().unwrap().push(format!(
            "over {} {} {}",
            t.scene.session.id,
            t.scene.turn,
            t.reason.name()
        ));
    });
    at.subagent_end("end", move |c| {
        ends.lock().unwrap().push(format!("end {} {} {}", c.kind, c.end.name(), c.report.to_text()));
    });
    at.session_end("over", async move |s| {
        over.lock().unwrap().push(format!("left {} {}", s.scene.session.id, s.scene.turn));
    });
}

// C-SEAM-7: without any hook protocol, each seam fires, and what it did is in the log.
#[tokio::test]
async fn every_seam_fires_with_its_effect_in_the_log() {
    let model = Says::by_prompt(|prompt, said| match (prompt, said) {
        ("go, please", 0) => costing(
            1000,
            calls(&[
                ("Echo", r#"{"text":"give bread"}"#),
                ("Echo", r#"{"text":"give rope"}"#),
                ("Echo", r#"{"text":"give knife"}"#),
                ("Agent", r#"{"description":"dig","prompt":"dig here","subagent_type":"digger"}"#),
            ]),
        ),
        (asked, _) if asked.ends_with("Keep the map.") => say("a castle, and where the gold is"),
        ("dig here", _) => say("found gold"),
        _ => say("done"),
    });
    let seen = Arc::new(Mutex::new(Vec::new()));
    let house = Plan::new(model).agents().compact_at(1000).open(|at| at_every_point(at, &seen)).await;
    let points: BTreeSet<Point> = house.runtime.introspect().iter().map(|row| row.point).collect();
    assert_eq!(points, Point::ALL.into_iter().collect(), "one handler at every point");
    assert_eq!(house.prompt("go").await, EndReason::Completed);

    let log = house.log();
    let child = records(&house.journal, "s.1-1-3-0");
    let texts = |log: &[Arc<Record>], kind: &str| -> Vec<String> {
        let of_kind = log.iter().filter(|r| r.body.kind() == kind);
        of_kind
            .map(|r| match &r.body {
                Body::ContextMessage(m) => m.content.to_text().into_owned(),
                Body::UserMessage(m) => m.content.to_text().into_owned(),
                Body::SteeringMessage(m) => m.content.to_text().into_owned(),
                other => panic!("{other:?}"),
            })
            .collect()
    };
    // Session-start, post-execute, batch and subagent-start: context, each where it belongs.
    assert_eq!(texts(&log, "context/message"), ["you are in a castle", "mind the step", "4 calls are done"]);
    assert_eq!(texts(&child, "context/message"), ["you dig"]);
    // Prompt-submit: another message than was sent.
    assert_eq!(texts(&log, "user/message"), ["go, please"]);
    assert_eq!(texts(&child, "user/message"), ["dig here"], "narrowed to depth 0");
    // Rewrite: requested and effective, side by side; what ran is the latter.
    let rewritten = log.iter().find_map(|r| match &r.body {
        Body::ToolRewrite(r) => Some((r.requested.text().to_owned(), r.effective.text().to_owned())),
        _ => None,
    });
    let pair = (r#"{"text":"give bread"}"#.to_owned(), r#"{"text":"please give bread"}"#.to_owned());
    assert_eq!(rewritten, Some(pair));
    assert_eq!(house.ran(), ["please give bread"], "neither the gate's nor the guard's denial ran");
    // Permission: the gate asked, nobody was there to ask, and the call ran.
    assert_eq!(house.count("input/requested"), 0, "answered before it was a question to a person");
    // Gate, guard, wrapper and review, in the results.
    let results = house.results();
    let by = |name: &str| HandlerId::new("house", name);
    assert_eq!(results[0].content.to_text(), "[please give bread] (reviewed)");
    assert_eq!(results[1].outcome, Ended::HookDeny { by: by("gate"), reason: "no rope".into() });
    assert_eq!(results[2].outcome, Ended::GuardDeny { by: by("guard"), reason: "no knife".into() });
    assert_eq!(results[3].content.to_text(), "found gold");
    let wrapped = log.iter().find_map(|r| match &r.body {
        Body::ToolReturned(r) => Some(r.outcome.for_model().0.to_text().into_owned()),
        _ => None,
    });
    assert_eq!(wrapped.as_deref(), Some("[please give bread]"));
    // The observers saw what the log keeps, in its order.
    let kept: Vec<String> =
        results.iter().map(|r| format!("result Echo {}", r.content.to_text())).take(3).collect();
    let all = seen.clone();
    let seen = seen.lock().unwrap().clone();
    assert_eq!(seen[0], "begins s 1");
    assert_eq!(seen[1..4], kept);
    let ends = [
        "over s.1-1-3-0 1 completed",
        "end digger completed found gold",
        "result Agent found gold",
        "summary a castle, and where the gold is",
        "over s 1 completed",
    ];
    assert_eq!(seen[4..], ends);
    assert!(log.iter().any(|r| matches!(&r.body, Body::SubagentEnded(e) if e.outcome.is_success())));
    // Continuation forces the second and the third step; turn-stop ends the turn behind the latter all the same.
    assert_eq!(texts(&log, "steering/message").first().map(String::as_str), Some("look once more"));
    assert_eq!(house.count("step/start"), 3);
    let stopped = house.decisions().into_iter().rfind(|d| d.point == Point::Stop).unwrap();
    assert_eq!(stopped.decision, Decision::Stop(StopTurn::Stop));
    // Compaction: what the handler wants kept was asked for, and the summary stands in the next request.
    let summary = "The conversation so far was summarised to save space.\n\na castle, and where the gold is";
    assert!(house.model.requests().iter().any(|request| match request.messages.iter().next() {
        Some(Message::User { content, .. }) => content.to_text() == summary,
        _ => false,
    }));
    // Whoever decides is on record, under its own name.
    let decided: BTreeSet<Point> = [log, child]
        .concat()
        .iter()
        .flat_map(|r| decisions(std::slice::from_ref(r)))
        .map(|d| d.point)
        .collect();
    let observed = [
        Point::TurnStart,
        Point::Execute,
        Point::Asked,
        Point::Result,
        Point::TurnEnd,
        Point::SubagentEnd,
        Point::SessionEnd,
    ];
    assert_eq!(decided, Point::ALL.into_iter().filter(|p| !observed.contains(p)).collect());
    house.close().await;
    assert_eq!(all.lock().unwrap().last().map(String::as_str), Some("left s 1"), "the child's end is none");
}

/// What a handler at a point may do, and when it fires: the two columns that the types do not say.
fn may_and_fires(point: Point) -> (&'static str, &'static str) {
    match point {
        Point::TurnStart => ("observe", "once a turn, before anything of it is done; the turn waits"),
        Point::SessionStart => {
            ("add context, halt", "once a start or resume, before the next turn's first request")
        }
        Point::SubagentStart => ("add context", "once a child, before its first request"),
        Point::PromptSubmit => ("replace or block the prompt, add context, halt", "once a prompt of a user"),
        Point::Rewrite => (
            "replace the arguments, carry a verdict to the gate, add context, halt",
            "once a well-formed call",
        ),
        Point::PreExecute => (
            "deny, defer, ask, add context, halt",
            "once a sealed call; once more when it was deferred and is resumed",
        ),
        Point::Permission => {
            ("allow or deny, add context, halt", "once a call of which the gate wants a person to be asked")
        }
        Point::Asked => ("observe", "once a question, when it is put and durable"),
        Point::Guard => ("deny", "once a call that the gate and any person let pass"),
        Point::Execute => ("run the body again, answer for it, tighten its time", "once a call that runs"),
        Point::PostExecute => (
            "replace the content, block with feedback, add context, halt",
            "once a call, however it was decided",
        ),
        Point::Result => ("observe", "once a call, when its result is durable"),
        Point::Batch => ("add context, halt", "once a step, when all of its calls have their results"),
        Point::Continuation => {
            ("ask for another step, add context, halt", "when a turn is about to end by itself")
        }
        Point::Stop => ("end the turn, halt", "at each step's end behind which the turn would go on"),
        Point::Compaction => (
            "say what the summary must keep, or skip it, halt",
            "before a step's request, when the conversation has grown to `Limits::compact_at`",
        ),
        Point::Compacted => {
            ("see the summary, halt", "when the conversation was summarised, before the next step")
        }
        Point::TurnEnd => ("observe", "once a turn, when its end is durable"),
        Point::SessionEnd => {
            ("observe", "once a session that is at rest when its host shuts down, before its log is closed")
        }
        Point::SubagentEnd => ("observe", "once a child, when its end is durable in its parent's log"),
        _ => panic!("{point} is not in the table yet"),
    }
}

/// The table of docs/seams.md, from a runtime that has one plain handler at every point.
fn table(rows: &[Registered]) -> String {
    let mut out =
        String::from("| point | a handler may | its failure | limit | fires |\n|---|---|---|---|---|\n");
    for point in Point::ALL {
        let row = rows.iter().find(|row| row.point == point).expect("a handler at every point");
        let (may, fires) = may_and_fires(point);
        assert_eq!(may == "observe", !point.decides(), "{point}");
        let limit = row.limit_ms.map_or("none".into(), |ms| format!("{} s", ms / 1000));
        out += &format!("| `{point}` | {may} | {} | {limit} | {fires} |\n", row.on_failure);
    }
    out
}

// C-SEAM-6: what the page says is what the dispatcher's own table says.
#[tokio::test]
async fn the_documented_table_is_the_runtimes_own() {
    let house = Plan::new(Says::calls(&[])).open(|at| at_every_point(at, &Arc::default())).await;
    let table = table(&house.runtime.introspect());
    let page = include_str!("../docs/seams.md");
    assert!(page.contains(&table), "docs/seams.md needs this table:\n\n{table}");
    for (what, why) in house.runtime.uncovered() {
        assert!(page.contains(what), "docs/seams.md does not name what no gate reaches: {what} ({why})");
    }
    house.close().await;
}
