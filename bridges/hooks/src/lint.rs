//! Likely mistakes in hooks that are sound as far as their files go.

mod command;

use crate::{
    hook::Hook,
    hooks::Hooks,
    matcher::Matcher,
    report::{Report, Severity},
};

impl Hooks {
    /// Likely mistakes, by event, in configuration order. `tools` are the tools of this runtime; tools of the client that it
    /// does not have are known here. Reads the file system, starts nothing.
    pub fn lint(&self, tools: &[&str]) -> Vec<Report> {
        let mut reports = Vec::new();
        for hook in self.set().all() {
            let mut say = |severity, code, message: String, hint: &str| {
                let mut report =
                    Report::new(severity, code, message).at(&hook.origin.path, Some(hook.definition.line));
                report.hint = (!hint.is_empty()).then(|| hint.into());
                reports.push(report);
            };
            matcher(hook, tools, &mut say);
            command::check(hook, &mut say);
        }
        reports
    }
}

type Say<'s> = dyn FnMut(Severity, &'static str, String, &str) + 's;

fn matcher(hook: &Hook, tools: &[&str], say: &mut Say<'_>) {
    let definition = &hook.definition;
    let event = definition.event.name();
    let narrows = |text: &&str| !matches!(*text, "" | "*");
    if let Some(text) = definition.matcher_text.as_deref().filter(narrows)
        && !definition.event.has_subject()
    {
        let message = format!(
            "the matcher `{text}` under {event} is ignored, as in the client: the hook runs each time"
        );
        return say(Severity::Note, "hooks/matcher-ignored", message, "take it out");
    }
    let Some(text) = definition.matcher_text.as_deref().filter(|_| definition.event.is_of_tool()) else {
        return;
    };
    // Which servers there will be, nobody knows yet; a matcher that never matches was reported when it was read.
    if text.contains("mcp__") || matches!(*definition.matcher, Matcher::Never(_)) {
        return;
    }
    let dialect = hook.house.dialect;
    let matches = |tool: &str| definition.matcher.matches(tool, dialect.aliases(tool));
    if tools.iter().any(|tool| matches(tool)) {
        return;
    }
    let elsewhere = dialect.tools().iter().find(|tool| matches(tool));
    if let Some(tool) = elsewhere {
        let message =
            format!("the matcher `{text}` under {event} matches {tool}, which this runtime does not have");
        return say(Severity::Note, "hooks/absent-tool", message, "");
    }
    let known = tools.iter().chain(dialect.tools());
    let near = known.copied().find(|tool| tool.eq_ignore_ascii_case(text.trim()));
    let hint = near
        .map_or_else(|| format!("tools here: {}", tools.join(", ")), |near| format!("did you mean {near}?"));
    say(
        Severity::Warning,
        "hooks/no-such-tool",
        format!("the matcher `{text}` under {event} matches no known tool"),
        &hint,
    );
}
