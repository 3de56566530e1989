//! Questions to a person, on the terminal.
//!
//! A question shows the exact arguments, since they are what an approval is bound to. Nothing typed before it was shown
//! counts as an answer to it.

use crate::{
    paint::{Paint, Tint, clean, head, wrap},
    words::{Names, names},
};
use portcullis::{Answer, Ask, OwnRecord, Reason, RequestId};
use std::{
    collections::VecDeque,
    io::{self, BufRead, IsTerminal},
    thread,
};
use tokio::sync::mpsc;

/// Lines of arguments shown; a person cannot judge more of them on a terminal, and is told that there are more.
const ARGUMENTS: usize = 40;

/// Who answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Channel {
    /// Nobody: the runtime denies such calls and says so.
    None,
    /// The user, in advance: `--yes`.
    Yes,
    /// A person at the terminal.
    Terminal,
    /// Somebody, later: the question is left open, for `portcullis answer`.
    Later,
}

impl Channel {
    /// A person is there when they can both read the question and type an answer.
    pub(crate) fn find(yes: bool) -> Channel {
        match yes {
            true => Channel::Yes,
            false if io::stdin().is_terminal() && io::stderr().is_terminal() => Channel::Terminal,
            false => Channel::None,
        }
    }
}

/// The questions that wait for this terminal, one shown at a time.
#[derive(Debug)]
pub(crate) struct Desk {
    paint: Paint,
    names: Names,
    waiting: VecDeque<Ask>,
    shown: bool,
    /// Lines typed, from the first question on. `None` inside stands for the end of the input.
    lines: Option<mpsc::UnboundedReceiver<Option<String>>>,
}

impl Desk {
    pub(crate) fn new() -> Desk {
        Desk {
            paint: Paint::stderr(),
            names: Names::default(),
            waiting: VecDeque::new(),
            shown: false,
            lines: None,
        }
    }

    /// Learns from a record who is behind a handler.
    pub(crate) fn learn(&mut self, own: &OwnRecord) {
        self.names.learn(own);
    }

    /// Takes a question in; twice does no harm.
    pub(crate) fn put(&mut self, ask: Ask) {
        if !self.waiting.iter().any(|waiting| waiting.id == ask.id) {
            self.waiting.push_back(ask);
        }
        self.show();
    }

    /// The turn is cancelled: nothing is asked any more.
    pub(crate) fn clear(&mut self) {
        if std::mem::take(&mut self.shown) {
            eprintln!();
        }
        self.waiting.clear();
    }

    /// The question is settled, by whomever.
    pub(crate) fn settled(&mut self, id: &RequestId) {
        if self.shown && self.waiting.front().is_some_and(|ask| ask.id == *id) {
            eprintln!();
            self.shown = false;
        }
        self.waiting.retain(|ask| ask.id != *id);
        self.show();
    }

    /// The answer to the question that is shown, once it is typed; never, while there is none.
    pub(crate) async fn answer(&mut self) -> (Ask, Answer) {
        loop {
            let (true, Some(lines)) = (self.shown, &mut self.lines) else {
                return std::future::pending().await;
            };
            let typed = lines.recv().await.flatten();
            let Some(answer) = read(typed.as_deref()) else {
                eprint!("{}", self.paint.tint(Tint::Notice, "Please type y, or n and why: "));
                continue;
            };
            self.shown = false;
            if let Some(ask) = self.waiting.pop_front() {
                self.show();
                return (ask, answer);
            }
        }
    }

    fn show(&mut self) {
        let Some(ask) = self.waiting.front().filter(|_| !self.shown) else { return };
        let bar = self.paint.tint(Tint::Notice, "│");
        let room = self.paint.width.saturating_sub(4);
        let mut text = vec![format!("{} wants to run:", self.paint.tint(Tint::Bold, &clean(&ask.tool)))];
        let (lines, left) = head(wrap(&clean(&ask.arguments.compact()), room), ARGUMENTS);
        text.extend(lines.into_iter().map(|line| format!("  {line}")));
        if left > 0 {
            text.push(format!("  … {} more, not shown", names(left, "line")));
        }
        for reason in &ask.reasons {
            text.extend(wrap(&clean(reason.as_str()), room));
        }
        let by: Vec<String> = ask.by.iter().map(|by| self.names.who(by)).collect();
        if !by.is_empty() {
            text.push(self.paint.tint(Tint::Quiet, &format!("asked by {}", by.join(", "))));
        }
        eprintln!();
        for line in text {
            eprintln!("{bar} {line}");
        }
        self.forget_what_was_typed();
        eprint!("{bar} {}", self.paint.tint(Tint::Notice, "Allow it, this once? y, or n and why: "));
        self.shown = true;
    }

    fn forget_what_was_typed(&mut self) {
        // Fails only where stdin is no terminal, and then nothing was typed.
        let _ = rustix::termios::tcflush(io::stdin(), rustix::termios::QueueSelector::IFlush);
        match &mut self.lines {
            Some(lines) => while lines.try_recv().is_ok() {},
            None => self.lines = Some(listen()),
        }
    }
}

/// Reads lines on a thread of its own, which ends with the process: a read from a terminal cannot be called off.
fn listen() -> mpsc::UnboundedReceiver<Option<String>> {
    let (send, lines) = mpsc::unbounded_channel();
    thread::spawn(move || {
        for line in io::stdin().lock().lines() {
            let line = line.ok();
            if line.is_none() || send.send(line).is_err() {
                break;
            }
        }
        // Nobody listens when the session is over.
        let _ = send.send(None);
    });
    lines
}

/// What was typed; `None` if it is no answer. The end of the input is a refusal.
fn read(typed: Option<&str>) -> Option<Answer> {
    let Some(typed) = typed else {
        return Some(Answer::Refuse(Some("the terminal was closed without an answer".into())));
    };
    let typed = typed.trim();
    let (word, rest) =
        typed.split_once(|c: char| c.is_whitespace() || c == ',' || c == ':').unwrap_or((typed, ""));
    let rest = rest.trim();
    match word.to_lowercase().as_str() {
        // Conditions cannot be attached to a yes, so this is none.
        "y" | "yes" if rest.is_empty() => Some(Answer::Allow),
        "n" | "no" => Some(Answer::Refuse((!rest.is_empty()).then(|| Reason::from(rest)))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // C-ASK-1: only a plain yes allows.
    #[test]
    fn only_a_plain_yes_allows() {
        assert_eq!(read(Some(" Y ")), Some(Answer::Allow));
        assert_eq!(read(Some("yes")), Some(Answer::Allow));
        for unclear in ["", "yep", "y but not there", "ye", "ok"] {
            assert_eq!(read(Some(unclear)), None, "{unclear:?}");
        }
    }

    #[test]
    fn a_no_may_say_why() {
        assert_eq!(read(Some("n")), Some(Answer::Refuse(None)));
        let refused = Answer::Refuse(Some("use the test server".into()));
        assert_eq!(read(Some("no, use the test server")), Some(refused.clone()));
        assert_eq!(read(Some("n: use the test server")), Some(refused));
        assert!(matches!(read(None), Some(Answer::Refuse(Some(_)))));
    }
}
