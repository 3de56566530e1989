//! How long a handler may run that does not say so, and SessionEnd's budget.

use crate::{
    definition::{Definition, Origin},
    event::Event,
    written::Written,
};
use std::{
    env,
    ffi::{OsStr, OsString},
    sync::Arc,
    time::Duration,
};

/// The time limit of a handler that sets none.
pub(super) fn usual(written: &Written, event: Event) -> Duration {
    match (written, event) {
        (Written::Ask(ask), _) => ask.timeout(),
        (_, Event::UserPromptSubmit) => Duration::from_secs(30),
        (_, Event::SessionEnd) => BUDGET,
        _ => Duration::from_secs(600),
    }
}

/// The time of SessionEnd hooks that ask for none.
const BUDGET: Duration = Duration::from_millis(1500);
/// More than this is not given for the asking.
const MOST: Duration = Duration::from_secs(60);
/// Says another time.
const VARIABLE: &str = "CLAUDE_CODE_SESSIONEND_HOOKS_TIMEOUT_MS";

/// What each SessionEnd hook has: what the variable says, else the longest time that one of them asks for; less if it asks for less.
pub(super) fn bound(definitions: &mut [(Arc<Origin>, Definition)], stated: Option<Duration>) {
    let ends = || definitions.iter().map(|(_, d)| d).filter(|d| d.event == Event::SessionEnd);
    let asked = ends().filter(|d| d.sets_timeout).map(|d| d.timeout.min(MOST)).max();
    let budget = stated.unwrap_or_else(|| asked.map_or(BUDGET, |asked| asked.max(BUDGET)));
    for (_, definition) in definitions.iter_mut().filter(|(_, d)| d.event == Event::SessionEnd) {
        let own = definition.sets_timeout.then_some(definition.timeout);
        definition.timeout = own.map_or(budget, |own| own.min(budget));
    }
}

/// What the variable says: to the host, in the settings, or in this process's environment. What is no time counts as nothing.
pub(super) fn stated(host: &[(OsString, OsString)], settings: &[(String, String)]) -> Option<Duration> {
    let host = host.iter().rev().find(|(name, _)| name == VARIABLE).map(|(_, value)| value.clone());
    let settings = || settings.iter().rev().find(|(name, _)| name == VARIABLE).map(|(_, value)| value.into());
    time(&host.or_else(settings).or_else(|| env::var_os(VARIABLE))?)
}

fn time(text: &OsStr) -> Option<Duration> {
    let ms = text.to_str()?.trim().parse().ok().filter(|ms| *ms > 0)?;
    Some(Duration::from_millis(ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_says_a_time_above_zero() {
        let said = |text: &str| time(OsStr::new(text));
        assert_eq!(said(" 2500 "), Some(Duration::from_millis(2500)));
        for text in ["", "0", "-5", "1.5", "soon"] {
            assert_eq!(said(text), None, "{text}");
        }
        let host = [(VARIABLE.into(), "1".into()), (VARIABLE.into(), "2".into())];
        let settings = [(VARIABLE.to_owned(), "3".to_owned())];
        assert_eq!(stated(&host, &settings), Some(Duration::from_millis(2)), "the host's last word is first");
        assert_eq!(stated(&[], &settings), Some(Duration::from_millis(3)));
    }
}
