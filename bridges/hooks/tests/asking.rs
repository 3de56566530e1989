//! Handlers of type `prompt` and `agent`: what they ask, and what an answer means.

mod support;

use futures::future::BoxFuture;
use portcullis_runtime::*;
use std::{
    future::{Future, pending, poll_fn},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    task::Poll,
    time::Duration,
};
use support::{Project, gate};

/// Answers every question with a text, and remembers the questions.
#[derive(Clone)]
struct Says {
    answer: Arc<str>,
    asked: Arc<Mutex<Vec<Question>>>,
}

impl Says {
    fn new(answer: &str) -> Says {
        Says { answer: answer.into(), asked: Arc::default() }
    }

    fn one(&self) -> Question {
        let asked = self.asked.lock().unwrap();
        assert_eq!(asked.len(), 1);
        asked[0].clone()
    }
}

impl Advisor for Says {
    fn advise(&self, question: Question) -> BoxFuture<'static, Result<Advice, NoAdvice>> {
        let agent = matches!(question.of, Asked::Agent(_)).then(|| SessionId::new("s-1.1-1-hook-x").unwrap());
        self.asked.lock().unwrap().push(question);
        let mut advice = Advice::new(&*self.answer, "m-1");
        advice.usage = Some(Usage { input: 7, output: 3 });
        advice.agent = agent;
        Box::pin(async move { Ok(advice) })
    }
}

fn project(kind: &str, event: &str, fields: &str, says: &Says) -> Project {
    let settings = format!(
        r#"{{"hooks":{{"{event}":[{{"hooks":[{{"type":"{kind}","prompt":"Is it fine? $ARGUMENTS"{fields}}}]}}]}}}}"#
    );
    Project::new(&settings).options(|options| options.advisor(says.clone()))
}

const NO: &str = r#"{"ok": false, "reason": "not today"}"#;

// C-BRIDGE-1: the model is asked about the event's JSON, and a no denies the call and halts the turn.
#[test]
fn a_no_denies_the_call_and_ends_the_turn() {
    let says = Says::new(NO);
    let project = project("prompt", "PreToolUse", "", &says);
    let seen = project.pre("Bash", r#"{"command":"ls"}"#);
    assert_eq!(gate(&seen.decisions[0]), ("deny", Some("PreToolUse:Bash hook error: not today")));
    assert_eq!(seen.halt.as_deref(), Some("not today"));
    let question = says.one();
    assert_eq!((question.of, &*question.by.owner), (Asked::Model, "claude"));
    let json = question.text.strip_prefix("Is it fine? ").unwrap();
    let json: Frozen = Frozen::parse(json).unwrap();
    assert_eq!(json.root().get("hook_event_name").unwrap().as_str().unwrap(), "PreToolUse");
    assert_eq!(json.root().get("tool_input").unwrap().text(), r#"{"command":"ls"}"#);
    assert!(!question.text.ends_with('\n') && question.system.contains("\"ok\""));
}

// C-LOG-9: what the model said and what it cost is in the records beside the decision.
#[test]
fn what_it_said_and_cost_is_on_record() {
    for (kind, agent) in [("prompt", None), ("agent", Some("s-1.1-1-hook-x"))] {
        let says = Says::new(NO);
        let project = project(kind, "PreToolUse", "", &says);
        let (table, _) = project.load();
        let input = Proposed::new(
            project.scene(),
            support::key(),
            "c".into(),
            support::spec("Bash"),
            Frozen::arguments("{}").unwrap(),
        );
        let planned = table.plan::<Rewrite>(&input);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let reply = runtime.block_on(planned[0].run.decide(input)).unwrap();
        let text = |at: usize, key: &str| {
            let root = reply.records[at].data.root();
            root.get(key).map(|value| value.text().to_owned())
        };
        assert_eq!(text(0, "kind").unwrap(), format!("{kind:?}"));
        assert_eq!(text(0, "command").unwrap(), r#""Is it fine? $ARGUMENTS""#);
        assert_eq!(text(1, "decision").unwrap(), r#""not_ok""#);
        assert_eq!(text(1, "said").unwrap(), serde_json::to_string(NO).unwrap());
        assert_eq!(text(1, "model").unwrap(), r#""m-1""#);
        assert_eq!(text(1, "usage").unwrap(), r#"{"input":7,"output":3}"#);
        assert_eq!(text(1, "agent"), agent.map(|agent| format!("{agent:?}")));
    }
}

// C-BRIDGE-1: what a no means depends on the event; a yes decides nothing.
#[test]
fn a_no_means_what_its_event_lets_it_mean() {
    let says = Says::new(NO);
    let seen = project("prompt", "UserPromptSubmit", "", &says).submit("hello");
    // Stopped, and the prompt is kept: a block would drop it.
    assert_eq!((&seen.decisions[..], seen.halt.as_deref()), (&[Submit::allow()][..], Some("not today")));
    for (fields, halt, contexts) in [("", Some("not today"), 0), (r#","continueOnBlock":true"#, None, 1)] {
        let seen =
            project("prompt", "PostToolUse", fields, &says).post("Bash", "{}", Outcome::completed("x"));
        assert_eq!((seen.halt.as_deref(), seen.context.len()), (halt, contexts));
    }
    let seen = project("agent", "Stop", "", &says).stop(0, "done");
    assert_eq!(seen.decisions, [Continue::again("Stop hook feedback:\nnot today")]);
    assert_eq!(seen.halt, None);
    let yes = Says::new(r#"{"ok": true}"#);
    let seen = project("prompt", "PreToolUse", "", &yes).pre("Bash", "{}");
    assert_eq!((gate(&seen.decisions[0]), seen.halt, seen.failures.len()), (("none", None), None, 0));
    assert_eq!(seen.results[0].decision, "ok");
}

// C-BRIDGE-3: an answer that is none fails open, unless the host says otherwise.
#[test]
fn an_answer_that_is_none_decides_nothing() {
    let says = Says::new("all done");
    let project = project("prompt", "PreToolUse", "", &says);
    let seen = project.pre("Bash", "{}");
    assert_eq!((gate(&seen.decisions[0]), seen.halt), (("none", None), None));
    assert!(seen.failures[0].contains("not JSON"), "{:?}", seen.failures);
    let strict = project.options(|options| options.on_failure(portcullis_hooks::OnFailure::Block));
    assert_eq!(gate(&strict.pre("Bash", "{}").decisions[0]).0, "deny");
}

struct Slow(Arc<AtomicUsize>);

impl Advisor for Slow {
    fn advise(&self, _: Question) -> BoxFuture<'static, Result<Advice, NoAdvice>> {
        struct Open(Arc<AtomicUsize>);
        impl Drop for Open {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::SeqCst);
            }
        }
        self.0.fetch_add(1, Ordering::SeqCst);
        let open = Open(self.0.clone());
        Box::pin(async move {
            let _open = open;
            pending().await
        })
    }
}

// C-BRIDGE-7
#[test]
fn a_question_is_withdrawn_at_its_limit() {
    let open = Arc::new(AtomicUsize::new(0));
    let settings = r#"{"hooks":{"PreToolUse":[{"hooks":[{"type":"prompt","prompt":"x","timeout":0.05}]}]}}"#;
    let project = Project::new(settings).options(|options| options.advisor(Slow(open.clone())));
    let seen = project.pre("Bash", "{}");
    assert_eq!(gate(&seen.decisions[0]), ("none", None));
    assert!(seen.results[0].timed_out);
    assert_eq!(open.load(Ordering::SeqCst), 0);
}

// At most 12 questions are open at once; the wait for a place does not count towards the limit.
#[test]
fn twelve_questions_are_open_at_once() {
    let open = Arc::new(AtomicUsize::new(0));
    let settings = r#"{"hooks":{"PreToolUse":[{"hooks":[{"type":"prompt","prompt":"x"}]}]}}"#;
    let project = Project::new(settings).options(|options| options.advisor(Slow(open.clone())));
    let (table, _) = project.load();
    let arguments = Frozen::arguments("{}").unwrap();
    let input = Proposed::new(project.scene(), support::key(), "c".into(), support::spec("Bash"), arguments);
    let planned = table.plan::<Rewrite>(&input);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let work: Vec<_> = (0..20).map(|_| planned[0].run.decide(input.clone())).collect();
        let mut all = Box::pin(futures::future::join_all(work));
        // All are polled at once, and none ends.
        let polled = poll_fn(|task| Poll::Ready(all.as_mut().poll(task).is_pending())).await;
        assert!(polled);
        assert_eq!(open.load(Ordering::SeqCst), 12);
    });
}

// C-BRIDGE-5
#[test]
fn what_nobody_answers_is_reported() {
    let settings = r#"{"hooks":{
        "PreToolUse":[{"hooks":[{"type":"prompt","prompt":"x","model":"fast","onFailure":"block","async":true}]}],
        "SessionStart":[{"hooks":[{"type":"prompt","prompt":"x"}]}],
        "SubagentStart":[{"hooks":[{"type":"agent","prompt":"x"}]}]
    }}"#;
    let project = Project::new(settings);
    let codes = |project: &Project| -> Vec<_> {
        project.reports().into_iter().map(|report| (report.line.unwrap(), report.code)).collect()
    };
    let both = [
        (2, "hooks/field-ignored"),
        (2, "hooks/field-ignored"),
        (2, "hooks/model"),
        (3, "hooks/handler-not-run"),
        (4, "hooks/handler-not-run"),
    ];
    let alone = codes(&project);
    assert_eq!(alone[..5], both);
    assert_eq!(alone[5..], [(2, "hooks/handler-not-run")]);
    let answered = project.options(|options| options.advisor(Says::new("")));
    assert_eq!(codes(&answered), both);
    let hooks = portcullis_hooks::ClaudeHooks::load_with(answered.path(), answered.options.clone()).0;
    let infos = hooks.hooks();
    assert_eq!(infos.len(), 1);
    assert_eq!(
        (infos[0].kind, infos[0].timeout, infos[0].background),
        ("prompt", Duration::from_secs(30), false)
    );
    assert!(!infos[0].blocks_on_failure);
}

// What answers for a hook is not itself hooked.
#[test]
fn no_hook_runs_where_a_hook_is_answered() {
    let says = Says::new(NO);
    let project = project("agent", "PreToolUse", "", &says);
    project.pre("Bash", "{}");
    let Asked::Agent(kind) = says.one().of else { panic!() };
    let (table, _) = project.load();
    let planned = |scene: Scene| {
        let arguments = Frozen::arguments("{}").unwrap();
        let input = Proposed::new(scene, support::key(), "c".into(), support::spec("Bash"), arguments);
        table.plan::<Rewrite>(&input).len()
    };
    assert_eq!(planned(project.scene()), 1);
    assert_eq!(planned(project.inside("helper")), 1);
    let inside = project.inside(&kind);
    assert_eq!(planned(inside.clone()), 0);
    let below = inside.session.child(SessionId::new("deep").unwrap(), project.path(), "helper".into());
    assert_eq!(planned(Scene::new(Arc::new(below), 1, 1, None)), 0);
}
