//! `portcullis hooks check`: every layer, every hook, and what is wrong with them.

use super::{args::CheckArgs, layers};
use crate::{
    paint::clean,
    problem::Problem,
    store::Project,
    words::{how_long, names},
};
use portcullis::{
    SessionAdvisor,
    hooks::{Fidelity, HookInfo, Severity},
    tools::Workspace,
};
use std::{
    fmt::Write as _,
    io::{self, Write as _},
    process::ExitCode,
};

/// Looks, and says what there is.
pub(super) fn check(args: &CheckArgs) -> Result<ExitCode, Problem> {
    let project = Project::find(&args.dir)?;
    let mut found = layers::find(&project.dir, &args.layers)?;
    // What it loads is what a run would: there, the session's own model answers.
    found.options = found.options.advisor(SessionAdvisor::new());
    let (hooks, mut reports) = found.load(&project.dir);
    let workspace = Workspace::new(&project.dir)?;
    let own: Vec<String> = workspace.tools().iter().map(|tool| tool.spec().name.to_string()).collect();
    let tools: Vec<&str> = own.iter().map(String::as_str).chain(["Agent"]).collect();
    reports.extend(hooks.iter().flat_map(|hooks| hooks.lint(&tools)));
    let all: Vec<HookInfo> = hooks.iter().flat_map(|hooks| hooks.hooks()).collect();
    let mut out = String::new();
    // Writing to a String cannot fail.
    for layer in &found.layers {
        let count = all.iter().filter(|hook| hook.file == layer.file).count();
        let what = if layer.found { names(count as u64, "hook") } else { "not there".into() };
        let _ = writeln!(out, "{:<12} {}: {what}", layer.name, clean(&layer.file.to_string_lossy()));
    }
    // Without one there is nothing to say about it.
    for overlay in found.overlays.iter().filter(|overlay| overlay.found) {
        let _ = writeln!(out, "{:<12} {}", overlay.name, clean(&overlay.file.to_string_lossy()));
    }
    for hook in &all {
        let _ = writeln!(out, "{}", line(hook));
    }
    for report in &reports {
        let _ = writeln!(out, "{}", clean(&report.to_string()));
    }
    let count = |severity| reports.iter().filter(|report| report.severity == severity).count() as u64;
    let (errors, warnings) = (count(Severity::Error), count(Severity::Warning));
    let hooks = names(all.len() as u64, "hook");
    let _ = writeln!(out, "{hooks}, {}, {}", names(errors, "error"), names(warnings, "warning"));
    // Whoever closed stdout has the exit code.
    let _ = io::stdout().write_all(out.as_bytes());
    Ok(if errors == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// One hook: `EVENT MATCHER: COMMAND (what is special about it) FILE:LINE`.
pub(super) fn line(hook: &HookInfo) -> String {
    let mut text = hook.event.to_owned();
    if let Some(matcher) = hook.matcher.as_deref().filter(|matcher| !matcher.is_empty()) {
        let _ = write!(text, " {matcher}");
    }
    if let Some(condition) = &hook.condition {
        let _ = write!(text, " if {condition}");
    }
    let words: Vec<&str> = hook.args.iter().flatten().map(|arg| &**arg).collect();
    let limit = how_long(u64::try_from(hook.timeout.as_millis()).unwrap_or(u64::MAX));
    let mut special = vec![format!("limit {limit}")];
    special.extend((hook.kind != "command").then(|| hook.kind.to_owned()));
    special.extend(hook.args.is_some().then(|| "no shell".into()));
    special.extend(hook.background.then(|| "in the background".into()));
    special.extend(hook.blocks_on_failure.then(|| "blocks if it fails".into()));
    special.extend((hook.fidelity == Fidelity::Exact).then(|| "exact".into()));
    special.extend(hook.shadow.then(|| "in shadow: it decides nothing".into()));
    let command = std::iter::once(&*hook.command).chain(words).collect::<Vec<_>>().join(" ");
    let _ = write!(text, ": {command} ({}) {}:{}", special.join(", "), hook.file.display(), hook.line);
    clean(&text.replace('\n', " "))
}
