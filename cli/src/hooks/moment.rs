//! A moment that hooks can be on, made of what the command line says, and what hooks answer at it.

use super::args::ExplainArgs;
use crate::problem::Problem;
use portcullis::{
    AfterCompaction, Asking, BatchCall, CallBatch, CallKey, CallPath, Cause, CauseName, ChildStarting,
    Compact, Compacted, Compacting, Compaction, Continue, Decided, EndReason, Ended, Ending, Execution,
    Extension, Frozen, Gate, Guard, HandlerId, Mint, Outcome, Output, OwnRecord, Permission, Permitted,
    PostExecute, PreExecute, PromptSubmit, Proposal, Proposed, PutQuestion, RequestId, Returned, Reviewed,
    Rewrite, Scene, Seam, Seq, SessionEnded, SessionId, SessionInfo, SessionStart, Source, StartSource,
    Starting, SubagentStart, Submitted, Summarised, Table, ToolBatch, ToolSpec, TurnContinuation, TurnEnded,
    Verdict,
    hooks::{Changing, ClaudeHooks, CodexHooks, Hooks, Moment},
};
use std::{path::Path, sync::Arc, time::Duration};

/// The moment that the arguments describe.
pub(super) fn moment(args: &ExplainArgs, dialect: &str, cwd: &Path) -> Result<Moment, Problem> {
    let mut info = SessionInfo::new(SessionId::new("explained")?, cwd.into(), "cli");
    let inside = args.event.starts_with("Subagent").then(|| "general-purpose".to_owned());
    if let Some(kind) = args.agent_type.clone().or(inside) {
        info = info.child(SessionId::new("explained.1-1-0-0")?, cwd.into(), kind.into());
    }
    let scene = Scene::new(Arc::new(info), 1, 1, Some(Seq(1)));
    let bad =
        |what: &str, refused: portcullis::Refused| Problem::new(format!("{what} is not usable: {refused}"));
    let spec = || {
        let any = Frozen::parse(r#"{"type":"object"}"#)?;
        Ok::<_, Problem>(Arc::new(ToolSpec::new(&args.tool, "", any)?))
    };
    let input = || Frozen::arguments(&*args.input).map_err(|refused| bad("--input", refused));
    let key = CallKey { turn: 1, step: 1, call: CallPath::top(0) };
    Ok(match &*args.event {
        "SessionStart" => {
            let Some(source) = StartSource::ALL.into_iter().find(|source| source.name() == args.source)
            else {
                let what = format!("no session starts as `{}` here", args.source);
                let known = StartSource::ALL.map(StartSource::name).join(", ");
                return Err(Problem::new(what).next(format!("give --source one of: {known}")));
            };
            Moment::SessionStart(Starting::new(scene, source, None))
        }
        "UserPromptSubmit" => {
            Moment::UserPromptSubmit(Submitted::new(scene, Seq(1), (&*args.prompt).into(), Source::User))
        }
        "PreToolUse" => Moment::PreToolUse(Proposed::new(scene, key, "toolu_1".into(), spec()?, input()?)),
        event @ ("PermissionRequest" | "Notification") => {
            let (input, tool) = (input()?, spec()?);
            let (token, session) = (Mint::new(0).root().id(), scene.session.id.clone());
            let request = RequestId::of(&session, &key);
            let call = Execution::new(token, None, scene, key, "toolu_1".into(), tool, input.clone(), input);
            match event {
                "Notification" => {
                    Moment::Notification(PutQuestion::new(call, request, Vec::new(), Vec::new()))
                }
                _ => Moment::PermissionRequest(Asking::new(call, Vec::new(), Vec::new(), true)),
            }
        }
        "PostToolBatch" => {
            let made = ("toolu_1".into(), (&*args.tool).into(), (&*args.input).into());
            let (ended, text) = (Ended::Completed, response(&args.response).content);
            let call = BatchCall::new(key, made, Some(input()?), ended, text, false);
            Moment::PostToolBatch(CallBatch::new(scene, [call]))
        }
        "Interrupt" if dialect == "codex" => {
            let reason = EndReason::Aborted { by: Source::User, reason: CauseName(Cause::User) };
            Moment::TurnEnd(TurnEnded::new(scene, reason))
        }
        "StopFailure" => {
            let reason = EndReason::Error { code: "model_failed".into(), message: (&*args.last).into() };
            Moment::TurnEnd(TurnEnded::new(scene, reason))
        }
        event @ ("PostToolUse" | "PostToolUseFailure" | "PermissionDenied") => {
            let output = response(&args.response);
            let outcome = match event {
                "PostToolUse" => Outcome::completed(output),
                "PostToolUseFailure" => Outcome::tool_error(output),
                _ => Outcome::ended(Ended::HookDeny {
                    by: HandlerId::new("host", "policy"),
                    reason: (&*args.response).into(),
                }),
            };
            let (spec, input, took) = (spec()?, input()?, Duration::ZERO);
            Moment::PostToolUse(Returned::new(
                scene,
                key,
                "toolu_1".into(),
                spec.name.clone(),
                Some(spec),
                Some(input),
                Arc::new(outcome),
                took,
            ))
        }
        "Stop" | "SubagentStop" => {
            if args.event == "Stop" && args.agent_type.is_some() {
                return Err(Problem::new("in a subagent the event is SubagentStop"));
            }
            Moment::Stop(Ending::new(scene, u32::from(args.stop_hook_active), (&*args.last).into()))
        }
        "SubagentStart" => Moment::SubagentStart(ChildStarting::new(scene, None)),
        "PreCompact" => Moment::PreCompact(Compacting::new(scene, 1000, 1000, 2)),
        "ConfigChange" => {
            let local = cwd.join(".claude/settings.local.json");
            Moment::ConfigChange(Changing::new(scene, "local_settings", local))
        }
        "SessionEnd" => Moment::SessionEnd(SessionEnded::new(scene)),
        "PostCompact" => Moment::PostCompact(Summarised::new(scene, (&*args.last).into())),
        other => {
            let events: Vec<_> = match dialect {
                "codex" => CodexHooks::events().collect(),
                _ => ClaudeHooks::events().collect(),
            };
            let known = events.iter().filter(|(_, silent)| silent.is_none()).map(|(name, _)| *name);
            let known = known.collect::<Vec<_>>().join(", ");
            let why = events.iter().find(|(name, _)| *name == other).and_then(|(_, silent)| *silent);
            let why = why.map_or_else(String::new, |why| format!(": {why}"));
            let what = format!("the event `{other}` does not happen here{why}");
            return Err(Problem::new(what).next(format!("those that do: {known}")));
        }
    })
}

/// What a tool answers: data as data, anything else as a text.
fn response(text: &str) -> Output {
    match Frozen::parse(text) {
        Ok(value) if value.root().as_str().is_none() => Output::text(value.compact()).with_value(value),
        _ => Output::text(text),
    }
}

/// What one hook answered.
pub(super) struct Answered {
    pub(super) handler: Arc<str>,
    pub(super) context: Vec<Arc<str>>,
    pub(super) halt: Option<String>,
    pub(super) failure: Option<String>,
    pub(super) records: Vec<OwnRecord>,
}

/// What all answers together come to, in the words of docs/hook-cases.md.
#[derive(Default)]
pub(super) struct Folded {
    pub(super) decision: &'static str,
    pub(super) reason: Option<String>,
    /// The arguments that would run.
    pub(super) input: Option<String>,
}

/// Runs the hooks that match, one after another as the runtime would, and folds what they say.
pub(super) async fn run(hooks: &Arc<Hooks>, moment: &Moment) -> (Vec<Answered>, Folded) {
    let mut table = Table::new();
    table.register(hooks.owner(), |at| hooks.clone().register(at));
    match moment {
        Moment::SessionStart(input) => {
            let (answered, _) = ask::<SessionStart>(&table, input).await;
            (answered, Folded { decision: "none", ..Folded::default() })
        }
        Moment::SubagentStart(input) => {
            let (answered, _) = ask::<SubagentStart>(&table, input).await;
            (answered, Folded { decision: "none", ..Folded::default() })
        }
        Moment::UserPromptSubmit(input) => {
            let (answered, decided) = ask::<PromptSubmit>(&table, input).await;
            let folded = match PromptSubmit::fold(&decided) {
                portcullis::Judged::Blocked(reason) => ("block", Some(reason.to_string())),
                portcullis::Judged::Pass(_) => ("none", None),
            };
            (answered, Folded { decision: folded.0, reason: folded.1, input: None })
        }
        Moment::PreToolUse(input) => {
            let (answered, decided) = ask::<Rewrite>(&table, input).await;
            let folded = call(&table, input, &decided).await;
            (answered, folded)
        }
        Moment::PermissionRequest(input) => {
            let (answered, decided) = ask::<Permission>(&table, input).await;
            let (decision, reason) = match Permission::fold(&decided) {
                Permitted::Allowed(_) => ("allow", None),
                Permitted::Denied { reason, .. } => ("deny", Some(reason.to_string())),
                _ => ("none", None),
            };
            (answered, Folded { decision, reason, input: None })
        }
        Moment::PostToolBatch(input) => {
            let (answered, _) = ask::<ToolBatch>(&table, input).await;
            (answered, Folded { decision: "none", ..Folded::default() })
        }
        Moment::PostToolUse(input) => {
            let (answered, decided) = ask::<PostExecute>(&table, input).await;
            let fed_back = |text: &&Arc<str>| text.contains(" hook blocking error from command: \"");
            let feedback = answered.iter().flat_map(|one| &one.context).rfind(fed_back);
            let (decision, reason) = match (PostExecute::fold(&decided), feedback) {
                (Reviewed::Blocked(reason), _) => ("block", Some(reason.to_string())),
                (_, Some(feedback)) => ("block", Some(feedback.to_string())),
                _ => ("none", None),
            };
            (answered, Folded { decision, reason, input: None })
        }
        Moment::Stop(input) => {
            let (answered, decided) = ask::<TurnContinuation>(&table, input).await;
            let halted = answered.iter().any(|one| one.halt.is_some());
            let reason = decided.iter().rev().find_map(|one| match &one.decision {
                Continue::Again { reason } => reason.as_ref().map(ToString::to_string),
                _ => None,
            });
            let again = !halted && decided.iter().any(|one| matches!(one.decision, Continue::Again { .. }));
            let decision = if again { "continue" } else { "none" };
            (answered, Folded { decision, reason: reason.filter(|_| again), input: None })
        }
        Moment::Notification(_) | Moment::TurnEnd(_) | Moment::SessionEnd(_) => {
            let answered = hooks.tell(moment).await.into_iter().map(|late| Answered {
                handler: late.handler.handler,
                context: late.context,
                halt: None,
                failure: None,
                records: late.records,
            });
            (answered.collect(), Folded { decision: "none", ..Folded::default() })
        }
        Moment::ConfigChange(input) => {
            let weighed = hooks.weigh(input).await;
            let reason = weighed.iter().rev().find_map(|one| one.keeps.as_ref()).map(ToString::to_string);
            let decision = if reason.is_some() { "block" } else { "none" };
            let answered = weighed.into_iter().map(|one| Answered {
                handler: one.handler.handler,
                context: Vec::new(),
                halt: None,
                failure: one.failure,
                records: one.records,
            });
            (answered.collect(), Folded { decision, reason, input: None })
        }
        Moment::PreCompact(input) => {
            let (mut answered, decided) = ask::<Compaction>(&table, input).await;
            for (one, decided) in answered.iter_mut().zip(&decided) {
                if let Compact::Proceed { instructions } = &decided.decision {
                    one.context.extend(instructions.clone());
                }
            }
            let folded = match Compaction::fold(&decided) {
                Compacted::Left(_, reason) => ("block", Some(reason.to_string())),
                _ => ("none", None),
            };
            (answered, Folded { decision: folded.0, reason: folded.1, input: None })
        }
        Moment::PostCompact(input) => {
            let (answered, _) = ask::<AfterCompaction>(&table, input).await;
            (answered, Folded { decision: "none", ..Folded::default() })
        }
        _ => (Vec::new(), Folded { decision: "none", ..Folded::default() }),
    }
}

async fn ask<S: Seam>(table: &Table, input: &S::Input) -> (Vec<Answered>, Vec<Decided<S::Decision>>) {
    let (mut answered, mut decided) = (Vec::new(), Vec::new());
    let mut input = input.clone();
    for planned in table.plan::<S>(&input) {
        let reply = match planned.run.decide(input.clone()).await {
            Ok(reply) => reply,
            Err(error) => {
                let failure = portcullis::Failure::Error { message: error.to_string().into() };
                portcullis::Reply::new(S::failed(&failure)).failed(failure)
            }
        };
        S::advance(&mut input, &planned.id, &reply.decision, planned.native);
        answered.push(Answered {
            handler: planned.id.handler.clone(),
            context: reply.context,
            halt: reply.halt.map(|reason| reason.to_string()),
            failure: reply.failure.as_ref().map(ToString::to_string),
            records: reply.records,
        });
        decided.push(Decided { by: planned.id.clone(), decision: reply.decision, failure: reply.failure });
    }
    (answered, decided)
}

/// What comes of a call: what hooks carried to the gate, the permission rules that ask, those that deny.
async fn call(table: &Table, proposed: &Proposed, decided: &[Decided<Proposal>]) -> Folded {
    let rewritten = Rewrite::fold(decided);
    let arguments = rewritten.effective.map_or_else(|| proposed.so_far.clone(), |(_, arguments)| arguments);
    let execution = Execution::new(
        Mint::new(0).root().id(),
        None,
        proposed.scene.clone(),
        proposed.key.clone(),
        proposed.call_id.clone(),
        proposed.tool.clone(),
        proposed.requested.clone(),
        arguments.clone(),
    );
    let (_, own) = ask::<PreExecute>(table, &execution).await;
    let allowed = rewritten.carried.iter().any(|one| one.decision == Gate::Allow);
    let all: Vec<Decided<Gate>> = rewritten.carried.into_iter().chain(own).collect();
    let guard = || table.guards().find_map(|guard| Guard::check(&*guard.run, &execution));
    let input = Some(arguments.text().to_owned());
    match PreExecute::fold(&all) {
        Verdict::Closed { reason, .. } => {
            Folded { decision: "deny", reason: Some(reason.to_string()), input: None }
        }
        verdict => match (guard(), &verdict) {
            (Some(reason), _) => Folded { decision: "deny", reason: Some(reason.to_string()), input: None },
            (None, Verdict::Ask { reasons, .. } | Verdict::Deferred { reasons, .. }) => {
                let decision = if matches!(verdict, Verdict::Ask { .. }) { "ask" } else { "defer" };
                let reasons: Vec<String> = reasons.iter().map(ToString::to_string).collect();
                Folded { decision, reason: Some(reasons.join("\n")).filter(|r| !r.is_empty()), input }
            }
            _ => Folded { decision: if allowed { "allow" } else { "none" }, reason: None, input },
        },
    }
}
