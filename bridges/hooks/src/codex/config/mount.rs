//! What runs, in the terms of the shared part, and why the rest does not.

use super::{
    handler::{Handler, Work},
    layers::{self, Closed, CodexLayers, Placed, Source},
    trust::{Changed, TrustStatus},
};
use crate::{
    definition::{self, Definition, Origin, Plugin},
    report::{Report, Severity},
    set::Loaded,
    tool::{Called, Filling},
    written::Written,
};
use std::{ffi::OsString, path::Path, sync::Arc, time::Duration};

/// What a person does about a hook that is not trusted.
const REVIEW: &str = "review it with `portcullis hooks trust`";

/// Reads all files that count for a project. `env`: what the host adds to the environment.
pub(in crate::codex) fn load(
    project: &Path,
    layers: &CodexLayers,
    env: &[(OsString, OsString)],
    reports: &mut Vec<Report>,
) -> Loaded {
    let loaded = layers::load(project, layers, reports);
    say(&loaded, reports);
    let mut definitions = Vec::new();
    let mut last: Option<(Arc<Source>, Arc<Origin>)> = None;
    for placed in loaded.handlers.into_iter().filter(|placed| placed.runs) {
        let of_source = last.take().filter(|(source, _)| Arc::ptr_eq(source, &placed.source));
        let (source, origin) =
            of_source.unwrap_or_else(|| (placed.source.clone(), Arc::new(placed.source.origin())));
        definitions.push((origin.clone(), placed.handler.define(placed.order)));
        last = Some((source, origin));
    }
    let env = env.iter().map(|(name, value)| (name.clone(), Some(value.clone()))).collect();
    Loaded { definitions, env, ..Loaded::default() }
}

/// Names the hooks that do not run, or that run although nobody trusted them.
fn say(loaded: &layers::Loaded, reports: &mut Vec<Report>) {
    let (mut off, mut unmanaged, mut passed) = (0, 0, 0);
    for placed in &loaded.handlers {
        let Placed { handler, status, closed, runs, .. } = placed;
        match closed {
            Some(Closed::Off) => off += 1,
            Some(Closed::ManagedOnly) => unmanaged += 1,
            // Its folder was named.
            Some(Closed::Project) => {}
            None if *runs => {
                passed += usize::from(matches!(status, TrustStatus::Untrusted | TrustStatus::Modified));
            }
            None => {
                let work =
                    format!("this {} hook does not run: `{}`", handler.event.name(), handler.line_of_work());
                let (severity, code, message, hint) = match status {
                    TrustStatus::Disabled => (
                        Severity::Note,
                        "hooks/disabled",
                        format!("{work} is switched off"),
                        format!("it is `enabled = false` in [hooks.state.{:?}]", placed.key),
                    ),
                    TrustStatus::Modified => (
                        Severity::Warning,
                        "hooks/modified",
                        format!("{work} is not what was trusted: {}", what(&loaded.changed(placed))),
                        REVIEW.to_owned(),
                    ),
                    _ => (
                        Severity::Warning,
                        "hooks/untrusted",
                        format!("{work} has not been trusted"),
                        REVIEW.to_owned(),
                    ),
                };
                let mut report =
                    Report::new(severity, code, message).at(&placed.source.file, Some(handler.line));
                report.hint = Some(hint);
                reports.push(report);
            }
        }
    }
    let mut count = |number: usize, severity, code, what: &str| {
        if number > 0 {
            reports.push(Report::new(severity, code, format!("{number} hook(s) {what}")));
        }
    };
    let by_switch = "do not run: `hooks` is false under `[features]`";
    count(off, Severity::Note, "hooks/disabled", by_switch);
    let by_administrator = "do not run: the administrator lets only managed hooks run";
    count(unmanaged, Severity::Note, "hooks/disabled", by_administrator);
    count(
        passed,
        Severity::Warning,
        "hooks/trust-bypassed",
        "run that nobody has trusted, as the host wants it",
    );
}

/// What is different, in words.
fn what(changed: &Changed) -> String {
    match changed {
        Changed::Known(changes) => {
            let names: Vec<String> = changes.iter().map(|change| format!("`{}`", change.what)).collect();
            format!("{} changed", names.join(", "))
        }
        Changed::Nothing | Changed::Unknown => "it changed, and what it was is not known".into(),
    }
}

impl Source {
    fn origin(&self) -> Origin {
        let scope = match self.scope {
            layers::Scope::Managed | layers::Scope::System => definition::Scope::Managed,
            layers::Scope::User => definition::Scope::User,
            layers::Scope::Project => definition::Scope::Project,
            layers::Scope::Flags => definition::Scope::Flag,
            layers::Scope::Plugin => definition::Scope::Plugin,
        };
        let plugin = self.plugin.as_ref().map(|plugin| Plugin {
            name: plugin.name.clone(),
            root: plugin.root.clone(),
            data: plugin.data.clone(),
        });
        let named = Some(&self.named).filter(|named| **named != self.file).cloned();
        Origin { path: self.file.clone(), named, scope, plugin }
    }
}

impl Handler {
    fn define(self, order: usize) -> Definition {
        let background = self.is_in_background();
        let (written, context_limit) = match self.work {
            Work::Command { command, limit, .. } => {
                (Written::Command { command: command.into(), args: None }, limit)
            }
            Work::Tool { server, tool, input } => {
                let mut text = String::new();
                input.write(&mut text, false);
                let name = format!("{server}/{tool}").into();
                let (server, tool, input) = (server.into(), tool.into(), text.into());
                let called = Called { server, tool, name, input, filling: Filling::Value };
                (Written::Tool(called), None)
            }
        };
        Definition {
            event: self.event,
            line: self.line,
            order,
            matcher_text: self.matcher_text,
            matcher: self.matcher,
            written,
            condition: None,
            condition_text: None,
            timeout: Duration::from_secs(self.timeout).min(definition::LONGEST),
            sets_timeout: self.stated.is_some(),
            blocks_on_failure: false,
            background,
            rewakes: false,
            context_limit,
        }
    }
}
