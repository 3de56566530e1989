//! The prompts of a script: what the command sends. The rest of the file is the model's business.

use crate::problem::Problem;
use portcullis::{Frozen, PromptQueued, QueueKind};
use serde::Deserialize;
use std::{collections::VecDeque, fs, path::Path};

/// Prompts that are still to be sent.
#[derive(Debug)]
pub(crate) struct Prompts(VecDeque<(String, u32)>);

#[derive(Deserialize)]
struct Script {
    turns: Vec<Turn>,
}

#[derive(Deserialize)]
struct Turn {
    prompt: Option<String>,
    repeat: Option<u32>,
}

impl Prompts {
    /// Reads them from a script that the model has accepted.
    pub(crate) fn read(path: &Path) -> Result<Prompts, Problem> {
        let unread = |why: &dyn std::fmt::Display| {
            Problem::new(format!("the model script {} could not be read: {why}", path.display()))
        };
        let text = fs::read_to_string(path).map_err(|error| unread(&error))?;
        let script: Script =
            Frozen::parse(text).and_then(|json| json.decode()).map_err(|refused| unread(&refused))?;
        let mut prompts = VecDeque::new();
        for (at, turn) in script.turns.into_iter().enumerate() {
            let Some(prompt) = turn.prompt.filter(|prompt| !prompt.trim().is_empty()) else {
                let what = format!("turn {} of {} has no prompt to send", at + 1, path.display());
                return Err(Problem::new(what).next("give each turn of the script a `prompt`"));
            };
            prompts.push_back((prompt, turn.repeat.unwrap_or(1)));
        }
        Ok(Prompts(prompts))
    }

    /// Takes out what a session was sent before; true if it was one of these.
    pub(crate) fn was_sent(&mut self, queued: &PromptQueued) -> bool {
        let text = queued.content.to_text();
        let found = self.0.iter_mut().find(|(prompt, left)| *left > 0 && *prompt == *text);
        match found {
            Some((_, left)) if queued.kind == QueueKind::Prompt => {
                *left -= 1;
                true
            }
            _ => false,
        }
    }

    /// How many are left.
    pub(crate) fn left(&self) -> u64 {
        self.0.iter().map(|(_, left)| u64::from(*left)).sum()
    }

    /// The next one to send.
    pub(crate) fn take(&mut self) -> Option<String> {
        while let Some((prompt, left)) = self.0.front_mut() {
            if *left > 1 {
                *left -= 1;
                return Some(prompt.clone());
            }
            let last = *left == 1;
            let (prompt, _) = self.0.pop_front()?;
            if last {
                return Some(prompt);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use portcullis::Source;

    fn prompts(of: &[(&str, u32)]) -> Prompts {
        Prompts(of.iter().map(|(prompt, left)| ((*prompt).to_owned(), *left)).collect())
    }

    #[test]
    fn each_turn_is_sent_as_often_as_it_is_good_for() {
        let mut left = prompts(&[("a", 2), ("b", 1)]);
        assert_eq!(left.left(), 3);
        let sent: Vec<String> = std::iter::from_fn(|| left.take()).collect();
        assert_eq!(sent, ["a", "a", "b"]);
    }

    #[test]
    fn a_continued_session_is_not_sent_again_what_it_has() {
        let queued = |text: &str, kind| PromptQueued { kind, content: text.into(), source: Source::User };
        let mut left = prompts(&[("a", 2), ("b", 1)]);
        assert!(left.was_sent(&queued("a", QueueKind::Prompt)));
        assert!(left.was_sent(&queued("b", QueueKind::Prompt)));
        assert!(!left.was_sent(&queued("b", QueueKind::Prompt)), "there was one b only");
        assert!(!left.was_sent(&queued("a", QueueKind::Inject)), "context is no prompt");
        assert!(!left.was_sent(&queued("aa", QueueKind::Prompt)));
        let sent: Vec<String> = std::iter::from_fn(|| left.take()).collect();
        assert_eq!(sent, ["a"]);
    }
}
