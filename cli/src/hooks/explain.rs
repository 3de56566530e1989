//! `portcullis hooks explain`: what would run at a moment, why the rest would not, and what those that run answer.

use super::{
    args::ExplainArgs,
    check, layers,
    moment::{self, Answered, Folded},
};
use crate::{paint::clean, problem::Problem, store::Project};
use portcullis::{
    ModelAdvisor, ScriptedModel,
    hooks::{Considered, Explanation, Options},
};
use serde::Serialize;
use serde_json::value::RawValue;
use std::{
    collections::BTreeMap,
    fmt::Write as _,
    io::{self, Write as _},
    process::ExitCode,
};

/// Hooks that ask a model ask the one of the project's script, if it has one.
pub(crate) fn advised<L>(options: Options<L>, project: &Project) -> Result<Options<L>, Problem> {
    let script = project.dir.join("model.json");
    if !script.is_file() {
        return Ok(options);
    }
    let model = ScriptedModel::from_file(&script)
        .map_err(|error| Problem::new(error).next("docs/scripted-model.md describes the format"))?;
    Ok(options.advisor(ModelAdvisor::new(model)))
}

/// Explains it.
pub(super) async fn explain(args: ExplainArgs) -> Result<ExitCode, Problem> {
    let project = Project::find(&args.dir)?;
    let mut found = layers::find(&project.dir, &args.layers)?;
    found.options = advised(found.options, &project)?;
    found.options.fidelity = args.fidelity.map(Into::into);
    let (mut all, reports) = found.load(&project.dir);
    layers::heed(&reports)?;
    // A client without hooks is worth a word only where there is no other.
    let first = all.first().cloned();
    all.retain(|hooks| !hooks.is_empty());
    if all.is_empty() {
        all.extend(first);
    }
    let (mut out, mut why) = (String::new(), None);
    let several = all.len() > 1;
    for hooks in &all {
        let moment = match moment::moment(&args, hooks.dialect(), &project.dir) {
            Ok(moment) => moment,
            // Another client may have an event that this one has not.
            Err(problem) => {
                why.get_or_insert(problem);
                continue;
            }
        };
        let Some(explanation) = hooks.explain(&moment) else {
            why.get_or_insert(Problem::new("no hook is on a call that never ran"));
            continue;
        };
        let ran = match args.dry {
            true => None,
            false => Some(tokio::task::LocalSet::new().run_until(moment::run(hooks, &moment)).await),
        };
        if args.json {
            out.push_str(&json(hooks.dialect(), &explanation, &ran)?);
        } else {
            if several {
                let gap = if out.is_empty() { "" } else { "\n" };
                // Writing to a String cannot fail.
                let _ = writeln!(out, "{gap}== {}", hooks.dialect());
            }
            out.push_str(&text(&explanation, &ran));
        }
    }
    match why {
        Some(problem) if out.is_empty() => return Err(problem),
        _ => {}
    }
    // Whoever closed stdout has the exit code.
    let _ = io::stdout().write_all(out.as_bytes());
    Ok(ExitCode::SUCCESS)
}

type Ran = Option<(Vec<Answered>, Folded)>;

fn answer_of<'r>(ran: &'r Ran, hook: &Considered) -> Option<&'r Answered> {
    ran.as_ref()?.0.iter().find(|one| one.handler == hook.hook.handler)
}

/// The record that says how it ended.
fn result(answered: &Answered) -> Option<&str> {
    let record = answered.records.iter().find(|record| &*record.kind == "hook/result")?;
    Some(record.data.text())
}

fn text(explanation: &Explanation, ran: &Ran) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let subject =
        if explanation.subject.is_empty() { String::new() } else { format!(" of {}", explanation.subject) };
    let _ = writeln!(out, "{}{subject}", explanation.event);
    let _ = writeln!(out, "stdin: {}", clean(&String::from_utf8_lossy(&explanation.stdin)).trim_end());
    for hook in explanation.hooks.iter().filter(|hook| hook.why_not.is_none()) {
        let _ = writeln!(out, "\nruns  {}", check::line(&hook.hook));
        if !hook.argv.is_empty() {
            let (cwd, line) = (hook.cwd.to_string_lossy(), hook.argv.join(" "));
            let _ = writeln!(out, "      in {}: {}", clean(&cwd), clean(&line));
        }
        if *hook.stdin != *explanation.stdin {
            let stdin = String::from_utf8_lossy(&hook.stdin);
            let _ = writeln!(out, "      its own stdin: {}", clean(&stdin).trim_end());
        }
        for (name, value) in variables(hook) {
            match value {
                Some(value) => {
                    let _ = writeln!(out, "      {}={}", clean(&name), clean(&value));
                }
                None => {
                    let _ = writeln!(out, "      {} is removed", clean(&name));
                }
            }
        }
        let Some(answered) = answer_of(ran, hook) else { continue };
        match result(answered) {
            Some(result) => {
                let _ = writeln!(out, "      answered {}", clean(result));
            }
            None => {
                let _ = writeln!(out, "      is in the background: nobody waits for its answer");
            }
        }
        for context in &answered.context {
            let _ = writeln!(out, "      tells the model: {}", clean(context));
        }
        if let Some(halt) = &answered.halt {
            let _ = writeln!(out, "      ends the turn: {}", clean(halt));
        }
        if let Some(failure) = &answered.failure {
            let _ = writeln!(out, "      failed: {}", clean(failure));
        }
    }
    for hook in explanation.hooks.iter() {
        if let Some(why) = &hook.why_not {
            let _ = writeln!(out, "\nnot   {}\n      {}", check::line(&hook.hook), clean(why));
        }
    }
    if let Some((_, folded)) = ran {
        let reason = folded.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
        let _ = writeln!(out, "\ndecision: {}{}", folded.decision, clean(&reason));
        if let Some(input) = &folded.input {
            let _ = writeln!(out, "would run with {}", clean(input));
        }
    }
    out
}

/// What is set on top of this process's own environment; the last value of a name counts.
fn variables(hook: &Considered) -> BTreeMap<String, Option<String>> {
    let text = |text: &std::ffi::OsString| text.to_string_lossy().into_owned();
    hook.env.iter().map(|(name, value)| (text(name), value.as_ref().map(text))).collect()
}

#[derive(Serialize)]
struct All<'e> {
    dialect: &'e str,
    event: &'e str,
    subject: &'e str,
    stdin: String,
    runs: Vec<Runs<'e>>,
    does_not_run: Vec<Not<'e>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    decision: Option<&'e str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'e str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    effective_input: Option<Box<RawValue>>,
}

#[derive(Serialize)]
struct Runs<'e> {
    handler: &'e str,
    kind: &'e str,
    file: String,
    line: usize,
    argv: &'e [String],
    cwd: String,
    /// Its own, where it differs from what most are sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    stdin: Option<String>,
    shadow: bool,
    env: BTreeMap<String, Option<String>>,
    /// The `hook/result` record.
    #[serde(skip_serializing_if = "Option::is_none")]
    answered: Option<Box<RawValue>>,
    context: Vec<&'e str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    halt: Option<&'e str>,
}

#[derive(Serialize)]
struct Not<'e> {
    handler: &'e str,
    file: String,
    line: usize,
    why: &'e str,
}

fn json(dialect: &str, explanation: &Explanation, ran: &Ran) -> Result<String, Problem> {
    let raw = |text: &str| RawValue::from_string(text.replace(['\n', '\r'], " "));
    let mut all = All {
        dialect,
        event: explanation.event,
        subject: &explanation.subject,
        stdin: String::from_utf8_lossy(&explanation.stdin).into_owned(),
        runs: Vec::new(),
        does_not_run: Vec::new(),
        decision: ran.as_ref().map(|(_, folded)| folded.decision),
        reason: ran.as_ref().and_then(|(_, folded)| folded.reason.as_deref()),
        effective_input: ran.as_ref().and_then(|(_, folded)| folded.input.as_deref()).map(raw).transpose()?,
    };
    for hook in &explanation.hooks {
        let (handler, line) = (&*hook.hook.handler, hook.hook.line);
        let file = hook.hook.file.to_string_lossy().into_owned();
        match &hook.why_not {
            Some(why) => all.does_not_run.push(Not { handler, file, line, why }),
            None => {
                let answered = answer_of(ran, hook);
                all.runs.push(Runs {
                    handler,
                    kind: hook.hook.kind,
                    file,
                    line,
                    argv: &hook.argv,
                    cwd: hook.cwd.to_string_lossy().into_owned(),
                    stdin: (*hook.stdin != *explanation.stdin)
                        .then(|| String::from_utf8_lossy(&hook.stdin).into_owned()),
                    shadow: hook.hook.shadow,
                    env: variables(hook),
                    answered: answered.and_then(result).map(raw).transpose()?,
                    context: answered.iter().flat_map(|one| &one.context).map(|text| &**text).collect(),
                    halt: answered.and_then(|one| one.halt.as_deref()),
                });
            }
        }
    }
    Ok(serde_json::to_string(&all)? + "\n")
}
