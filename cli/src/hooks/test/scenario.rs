//! The steps of a scenario: what to answer and when to fall over, and what must then hold.
//!
//! Steps are sentences of a small fixed set. One that is not in it fails the case: a step nobody understood was not tested.

use super::case::Case;
use serde::Deserialize;

/// A step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// The model makes this call.
    Call(String),
    /// A question to a person waits.
    Asked,
    /// It is answered; a stale answer must be turned away.
    Answer { approve: bool, stale: bool },
    /// The call has this end.
    Result { id: String, ok: bool },
    /// A hook has run, and its decision is in the log.
    Decided,
    /// The process dies before the call has a result.
    Crash,
    /// Another process takes the session up.
    Recover,
    /// Each hook decided once for each call, and each call has one result.
    NothingTwice,
}

/// The steps, in order.
#[derive(Debug, Default)]
pub(super) struct Scenario {
    pub(super) steps: Vec<Step>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    steps: Vec<String>,
}

impl Scenario {
    pub(super) fn read(case: &Case) -> Result<Scenario, String> {
        let written: Option<Written> = case.get("scenario")?;
        let steps = written.map(|written| written.steps).unwrap_or_default();
        let steps: Vec<Step> = steps.iter().map(|step| parse(step)).collect::<Result<_, _>>()?;
        match case.text("needs")?.as_deref() {
            None => {}
            Some("recovery") if steps.contains(&Step::Recover) => {}
            Some("recovery") => return Err("the case needs a recovery, and its scenario has none".into()),
            Some(other) => return Err(format!("the case needs `{other}`, which nothing here gives")),
        }
        if steps.contains(&Step::Crash) != steps.contains(&Step::Recover) {
            return Err("a scenario that crashes also recovers, and the other way round".into());
        }
        Ok(Scenario { steps })
    }

    /// The id of the call it is about.
    pub(super) fn call(&self) -> Option<&str> {
        self.steps.iter().find_map(|step| match step {
            Step::Call(id) => Some(&**id),
            _ => None,
        })
    }

    pub(super) fn crashes(&self) -> bool {
        self.steps.contains(&Step::Crash)
    }

    /// How questions are answered, in order: whether it approves, and whether it comes too late. One approval unless said.
    pub(super) fn answers(&self) -> Vec<(bool, bool)> {
        let said = self.steps.iter().filter_map(|step| match step {
            Step::Answer { approve, stale } => Some((*approve, *stale)),
            _ => None,
        });
        let said: Vec<(bool, bool)> = said.collect();
        if said.is_empty() { vec![(true, false)] } else { said }
    }
}

fn parse(text: &str) -> Result<Step, String> {
    let words: Vec<&str> = text.split([' ', ',']).filter(|word| !word.is_empty()).collect();
    Ok(match &words[..] {
        ["tool_call", id] => Step::Call((*id).into()),
        ["input_request", _] => Step::Asked,
        ["answer", _, what @ ("approve" | "deny"), rest @ ..] if matches!(rest, [] | ["(stale)"]) => {
            Step::Answer { approve: *what == "approve", stale: !rest.is_empty() }
        }
        ["tool_result", id, end @ ("ok" | "error")] => Step::Result { id: (*id).into(), ok: *end == "ok" },
        ["hook", "runs"] | ["decision", "journaled"] => Step::Decided,
        ["crash", "before", "tool_result"] => Step::Crash,
        ["recover"] => Step::Recover,
        ["same", "decision", "hook", "not", "re-run"]
        | ["no", "new", "tool_result", "no", "new", "decision"] => Step::NothingTwice,
        _ => return Err(format!("the scenario step `{text}` is not understood")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_understood_or_refused() {
        assert_eq!(parse("answer r1 deny (stale)"), Ok(Step::Answer { approve: false, stale: true }));
        assert_eq!(parse("tool_result c1 ok"), Ok(Step::Result { id: "c1".into(), ok: true }));
        assert_eq!(parse("no new tool_result, no new decision"), Ok(Step::NothingTwice));
        assert!(parse("answer r1 maybe").is_err() && parse("wait for rain").is_err());
    }
}
