//! Judges what was seen against each field of `expected`. A field that is not known here is a failure, too.

use super::case::{Case, typed};
use super::environment;
use super::feed::Feed;
use super::scenario::Step;
use super::seen::Seen;
use super::stage::{Stage, in_force};
use portcullis::{Frozen, Json, Kind, Role, View, hooks::Fidelity};
use serde::Deserialize;
use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    time::{Duration, Instant},
};

/// How long a process that should be gone may take to be.
const PATIENCE: Duration = Duration::from_secs(5);

/// A text, or several that must all hold.
#[derive(Deserialize)]
#[serde(untagged)]
enum Texts {
    One(String),
    Many(Vec<String>),
}

impl Texts {
    fn all(self) -> Vec<String> {
        match self {
            Texts::One(text) => vec![text],
            Texts::Many(texts) => texts,
        }
    }
}

/// Every failure, as a sentence.
pub(super) fn judge(case: &Case, feed: &Feed, stage: &Stage, seen: &Seen) -> Vec<String> {
    let expected = case.expected().and_then(|all| in_force(all, stage.fidelity == Fidelity::Strict));
    let expected = match expected {
        Ok(expected) => expected,
        Err(why) => return vec![why],
    };
    let mut judge = Judge { seen, feed, stage, folder: &stage.folder, alternatives: Vec::new() };
    let mut failures = Vec::new();
    if let Some(raw) = expected.get("alt") {
        match typed("expected.alt", raw.get()) {
            Ok(texts) => judge.alternatives = Texts::all(texts),
            Err(why) => failures.push(why),
        }
    }
    if !expected.contains_key("decision") && !expected.contains_key("sequence_decisions") {
        failures.push("`expected` names no `decision`".into());
    }
    for (field, raw) in &expected {
        if let Err(why) = judge.field(field, raw.get()) {
            failures.push(why);
        }
    }
    failures.extend(judge.steps());
    failures.extend(seen.wrong_answers.iter().cloned());
    failures
}

struct Judge<'s> {
    seen: &'s Seen,
    feed: &'s Feed,
    stage: &'s Stage,
    folder: &'s Path,
    alternatives: Vec<String>,
}

impl Judge<'_> {
    fn field(&self, field: &str, raw: &str) -> Result<(), String> {
        let seen = self.seen;
        match field {
            "notes" | "alt" => Ok(()),
            "decision" => {
                let wanted: String = typed(field, raw)?;
                if wanted == seen.decision || self.alternatives.iter().any(|other| other == seen.decision) {
                    return Ok(());
                }
                Err(format!("the decision is {}, expected {wanted}", seen.decision))
            }
            "sequence_decisions" => same(field, &typed::<Vec<String>>(field, raw)?, &seen.decisions),
            "handlers_run" => same(field, &typed::<usize>(field, raw)?, &seen.handlers_run),
            "input_requests" => same(field, &typed::<usize>(field, raw)?, &seen.input_requests),
            "reason_contains" => self.contains("reason", &seen.reasons, field, raw),
            "reason_excludes" => self.excludes("reason", &seen.reasons, field, raw),
            "reason_order" => self.ordered("reason", &seen.reasons, field, raw),
            "context_contains" => self.contains("context", &seen.contexts, field, raw),
            "context_excludes" => self.excludes("context", &seen.contexts, field, raw),
            "context_order" => self.ordered("context", &seen.contexts, field, raw),
            "context_count" => same(field, &typed::<usize>(field, raw)?, &seen.contexts.len()),
            "context_absent" => same(field, &typed::<bool>(field, raw)?, &seen.contexts.is_empty()),
            "warning_contains" => self.warned(field, raw),
            "halt" => same(field, &typed::<bool>(field, raw)?, &seen.halt.is_some()),
            "stop_reason_contains" => {
                let said: Vec<String> = seen.halt.iter().cloned().collect();
                self.contains("stop reason", &said, field, raw)
            }
            "must_finish_within_s" => {
                let limit: f64 = typed(field, raw)?;
                let took = Duration::from_millis(seen.took_ms).as_secs_f64();
                (took <= limit)
                    .then_some(())
                    .ok_or_else(|| format!("it took {took} s, expected {limit} s at most"))
            }
            "environment" => environment::holds(&typed(field, raw)?, self.feed, self.stage, seen),
            "files_lines" => self.lines(&typed(field, raw)?),
            "files_absent" => {
                let files = typed::<Texts>(field, raw)?.all();
                let found = files.iter().find(|file| self.folder.join(file).symlink_metadata().is_ok());
                found.map_or(Ok(()), |file| Err(format!("`{file}` exists, and must not")))
            }
            "no_survivors_pidfile" => self.survivors(&typed::<Texts>(field, raw)?.all()),
            "effective_input" => {
                let wanted: Json = typed(field, raw)?;
                let ran = self.effective()?;
                let same = equal(wanted.root(), ran.root());
                same.then_some(()).ok_or_else(|| format!("the call ran with {}", ran.text()))
            }
            "effective_input_unchanged" => {
                let unchanged = self.unchanged();
                same(field, &typed::<bool>(field, raw)?, &unchanged)
            }
            "results_for" => {
                let wanted: Vec<String> = typed(field, raw)?;
                let found = seen.calls.iter().filter(|call| call.results == 1).map(|call| call.id.clone());
                same(field, &wanted, &found.collect::<Vec<_>>())
            }
            "tool_outcome" => {
                let wanted: String = typed(field, raw)?;
                let call = seen.calls.first().ok_or("no call was made")?;
                let alike = match &*wanted {
                    "ok" | "success" => call.outcome == "completed",
                    "error" => call.outcome == "tool_error",
                    exact => call.outcome == exact,
                };
                alike
                    .then_some(())
                    .ok_or_else(|| format!("the call ended {}, expected {wanted}", call.outcome))
            }
            "last_role" => {
                let wanted: Role = typed(field, raw)?;
                let all = !seen.last_roles.is_empty() && seen.last_roles.iter().all(|role| *role == wanted);
                all.then_some(()).ok_or_else(|| format!("requests ended on {:?}", seen.last_roles))
            }
            "context_after_all_results" => {
                same(field, &typed::<bool>(field, raw)?, &seen.context_after_all_results)
            }
            other => Err(format!("the expectation `{other}` cannot be judged")),
        }
    }

    /// What the case calls an agent is the name of the real one.
    fn meant(&self, text: &str) -> String {
        let name = self.feed.agent.as_ref().and_then(|agent| agent.name.as_deref());
        match (name, self.seen.agents.first()) {
            (Some(name), Some(real)) if !name.is_empty() => text.replace(name, real),
            _ => text.to_owned(),
        }
    }

    fn texts(&self, field: &str, raw: &str) -> Result<Vec<String>, String> {
        Ok(typed::<Texts>(field, raw)?.all().iter().map(|text| self.meant(text)).collect())
    }

    fn contains(&self, what: &str, said: &[String], field: &str, raw: &str) -> Result<(), String> {
        let all = self.texts(field, raw)?;
        let missing = all.iter().find(|text| !said.iter().any(|said| said.contains(&***text)));
        missing.map_or(Ok(()), |text| Err(format!("no {what} contains {text:?}: {}", shown(said))))
    }

    fn excludes(&self, what: &str, said: &[String], field: &str, raw: &str) -> Result<(), String> {
        let all = self.texts(field, raw)?;
        let found = all.iter().find(|text| said.iter().any(|said| said.contains(&***text)));
        found.map_or(Ok(()), |text| Err(format!("a {what} contains {text:?}: {}", shown(said))))
    }

    fn ordered(&self, what: &str, said: &[String], field: &str, raw: &str) -> Result<(), String> {
        let whole = said.join("\n");
        let mut rest = &*whole;
        for text in self.texts(field, raw)? {
            match rest.find(&text) {
                Some(at) => rest = &rest[at + text.len()..],
                None => {
                    return Err(format!("{text:?} is not in its place among the {what}s: {}", shown(said)));
                }
            }
        }
        Ok(())
    }

    /// Loosely: shells word the same thing in their own ways.
    fn warned(&self, field: &str, raw: &str) -> Result<(), String> {
        let said = &self.seen.warnings;
        for text in self.texts(field, raw)? {
            let text = text.to_lowercase();
            if !said.iter().any(|said| said.to_lowercase().contains(&text)) {
                return Err(format!("no warning contains {text:?}: {}", shown(said)));
            }
        }
        Ok(())
    }

    fn lines(&self, files: &BTreeMap<String, usize>) -> Result<(), String> {
        for (file, wanted) in files {
            let bytes = fs::read(self.folder.join(file)).map_err(|error| format!("`{file}`: {error}"))?;
            let lines = bytes.split_inclusive(|byte| *byte == b'\n').count();
            if lines != *wanted {
                return Err(format!("`{file}` has {lines} lines, expected {wanted}"));
            }
        }
        Ok(())
    }

    fn survivors(&self, files: &[String]) -> Result<(), String> {
        for file in files {
            let text = fs::read_to_string(self.folder.join(file)).map_err(|e| format!("`{file}`: {e}"))?;
            for pid in text.split_whitespace() {
                let pid: u32 =
                    pid.parse().map_err(|_| format!("`{file}` holds `{pid}`, which is no process id"))?;
                let until = Instant::now() + PATIENCE;
                while alive(pid) {
                    if Instant::now() > until {
                        return Err(format!("process {pid} of `{file}` is alive"));
                    }
                    std::thread::sleep(Duration::from_millis(20));
                }
            }
        }
        Ok(())
    }

    fn effective(&self) -> Result<Frozen, String> {
        let call = self.seen.calls.first().ok_or("no call was made")?;
        let text = call.effective.clone().ok_or("the call's arguments were refused")?;
        Frozen::parse(text).map_err(|refused| refused.to_string())
    }

    fn unchanged(&self) -> bool {
        let asked = |id: &str| self.feed.rounds.iter().find(|round| round.id == id);
        let same = |call: &super::seen::Call| {
            !call.rewritten && call.effective.as_ref() == asked(&call.id).map(|round| &round.input)
        };
        !self.seen.calls.is_empty() && self.seen.calls.iter().all(same)
    }

    /// What the steps of a scenario say must have happened.
    fn steps(&self) -> Vec<String> {
        let (seen, mut failures) = (self.seen, Vec::new());
        let call = |id: &str| seen.calls.iter().find(|call| call.id == id);
        for step in &self.feed.scenario.steps {
            let held = match step {
                Step::Call(id) => call(id).is_some(),
                Step::Asked | Step::Answer { .. } => seen.input_requests > 0,
                Step::Result { id, ok } => {
                    call(id).is_some_and(|call| call.results == 1 && (call.outcome == "completed") == *ok)
                }
                Step::Decided => seen.handlers_run > 0,
                // The driver refuses to go on if the process did not die.
                Step::Crash | Step::Recover => true,
                Step::NothingTwice => {
                    let calls = seen.calls.len();
                    let judged: usize = seen.calls.iter().map(|call| call.judged).sum();
                    seen.calls.iter().all(|call| call.results == 1)
                        && calls == self.feed.rounds.len()
                        && judged == seen.handlers_run
                        && seen.input_requests <= calls
                }
            };
            if !held {
                failures.push(format!("the scenario's step {step:?} did not happen"));
            }
        }
        failures
    }
}

fn same<W: PartialEq<S> + std::fmt::Debug, S: std::fmt::Debug>(
    field: &str,
    wanted: &W,
    seen: &S,
) -> Result<(), String> {
    (wanted == seen).then_some(()).ok_or_else(|| format!("`{field}` is {seen:?}, expected {wanted:?}"))
}

/// Texts for a line of output.
fn shown(said: &[String]) -> String {
    if said.is_empty() {
        return "there is none".into();
    }
    let all: String = said.iter().map(|text| format!("{text:?}")).collect::<Vec<_>>().join(", ");
    match all.char_indices().nth(600) {
        Some((end, _)) => format!("{}…", &all[..end]),
        None => all,
    }
}

/// Gone, or gone but for whoever should have reaped it.
fn alive(pid: u32) -> bool {
    match fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => !stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z')),
        Err(_) => false,
    }
}

/// The same value, whatever the order of keys.
fn equal(a: View<'_>, b: View<'_>) -> bool {
    if a.kind() != b.kind() {
        return false;
    }
    match a.kind() {
        Kind::Object => {
            a.len() == b.len()
                && a.entries().all(|(key, value)| b.get(&key).is_some_and(|other| equal(value, other)))
        }
        Kind::Array => a.len() == b.len() && a.items().zip(b.items()).all(|(a, b)| equal(a, b)),
        Kind::String => a.as_str() == b.as_str(),
        _ => a.text() == b.text() || a.as_f64().is_some() && a.as_f64() == b.as_f64(),
    }
}
