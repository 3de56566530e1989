//! What a timeline is written on: labels in a gutter, texts beside them, cleaned, broken into lines and shortened.

use crate::{
    paint::{Paint, Tint, clean, head, wrap},
    words::names,
};
use portcullis::{CallPath, Content};

/// Where the text begins, beside the labels.
const GUTTER: usize = 12;
/// Lines shown of what people and models say.
pub(crate) const SAID: usize = 24;
/// Lines shown of a result, of added context and of arguments.
pub(crate) const BESIDE: usize = 8;

/// Lines on their way out.
#[derive(Debug)]
pub(crate) struct Page {
    paint: Paint,
    out: String,
    /// Handlers that had nothing against it, held back to be named on one line.
    passed: Vec<String>,
    passed_as: &'static str,
    /// The call whose heading was printed last.
    under: Option<CallPath>,
    /// A heading to be printed again before the next line.
    heading: Option<(CallPath, String, String)>,
}

impl Page {
    pub(crate) fn new(paint: Paint) -> Page {
        Page { paint, out: String::new(), passed: Vec::new(), passed_as: "", under: None, heading: None }
    }

    /// What was written since the last time.
    pub(crate) fn take(&mut self) -> String {
        std::mem::take(&mut self.out)
    }

    /// A call's heading, at once.
    pub(crate) fn heading(&mut self, call: &CallPath, name: &str, text: &str) {
        self.leave();
        self.block(name, Tint::Name, text, Tint::Plain, BESIDE);
        self.under = Some(call.clone());
    }

    /// What comes next is about this call: its heading is printed again if another one's was meanwhile, and if anything
    /// comes at all.
    pub(crate) fn back_to(&mut self, call: &CallPath, name: &str, text: &str) {
        self.flush();
        self.heading = None;
        if self.under.as_ref() != Some(call) {
            self.heading = Some((call.clone(), name.to_owned(), text.to_owned()));
        }
    }

    /// What comes next is about no call.
    pub(crate) fn leave(&mut self) {
        self.flush();
        (self.under, self.heading) = (None, None);
    }

    /// Someone had nothing against it: named with the others on one line.
    pub(crate) fn pass(&mut self, label: &'static str, by: &str) {
        if self.passed_as != label {
            self.flush();
        }
        self.passed_as = label;
        self.passed.push(by.to_owned());
    }

    /// What a tool printed, in lines that are cut and not broken: it is often a table.
    pub(crate) fn output(&mut self, label: &str, tint: Tint, took: &str, content: &Content) {
        self.flush();
        let content = clean(&content.to_text());
        let room = self.paint.width - GUTTER;
        let lines: Vec<String> = content.trim_end().split('\n').map(|line| cut(line, room)).collect();
        match &lines[..] {
            [only] if only.chars().count() + took.len() + 2 <= room => {
                let text = [took, only].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>();
                self.label(label, tint, &text.join(": "), Tint::Plain);
            }
            _ if took.is_empty() => {
                self.label(label, tint, "what the model reads instead:", Tint::Plain);
                self.lines(lines, Tint::Quiet, BESIDE);
            }
            _ => {
                self.label(label, tint, took, Tint::Plain);
                self.lines(lines, Tint::Quiet, BESIDE);
            }
        }
    }

    /// Names those who had nothing against it.
    pub(crate) fn flush(&mut self) {
        if self.passed.is_empty() {
            return;
        }
        let text = std::mem::take(&mut self.passed).join(", ");
        self.block(&format!(" · {}", self.passed_as), Tint::Quiet, &text, Tint::Quiet, BESIDE);
    }

    /// A label with a text beside it, broken into lines and shortened.
    pub(crate) fn block(&mut self, label: &str, tint: Tint, text: &str, text_tint: Tint, most: usize) {
        self.flush();
        let room = self.paint.width.saturating_sub(GUTTER.max(label.chars().count() + 1));
        let (mut lines, left) = head(wrap(&clean(text), room), most);
        if left > 0 {
            lines.push(format!("… {} more", names(left, "line")));
        }
        let mut lines = lines.into_iter();
        let first = lines.next().unwrap_or_default();
        self.label(label, tint, &first, text_tint);
        self.lines(lines.collect(), text_tint, usize::MAX - 1);
    }

    fn label(&mut self, label: &str, tint: Tint, text: &str, text_tint: Tint) {
        if let Some((call, name, text)) = self.heading.take() {
            let first = text.lines().next().unwrap_or_default();
            self.label(&name, Tint::Name, &cut(&clean(first), self.paint.width / 2), Tint::Plain);
            self.under = Some(call);
        }
        // A tool's name is the model's word.
        let label = cut(&clean(label).replace('\n', " "), self.paint.width / 2);
        let pad = GUTTER.saturating_sub(label.chars().count()).max(1);
        let line = format!(
            "{}{}{}",
            self.paint.tint(tint, &label),
            " ".repeat(pad),
            self.paint.tint(text_tint, text)
        );
        self.out.push_str(line.trim_end());
        self.out.push('\n');
    }

    fn lines(&mut self, lines: Vec<String>, tint: Tint, most: usize) {
        let (mut lines, left) = head(lines, most);
        if left > 0 {
            lines.push(format!("… {} more", names(left, "line")));
        }
        for line in lines {
            if !line.is_empty() {
                self.out.push_str(&" ".repeat(GUTTER));
                self.out.push_str(&self.paint.tint(tint, &line));
            }
            self.out.push('\n');
        }
    }

    pub(crate) fn space(&mut self) {
        self.flush();
        self.out.push('\n');
    }
}

/// A line that is too long for its room, cut.
fn cut(line: &str, room: usize) -> String {
    if line.chars().count() <= room {
        return line.to_owned();
    }
    let kept: String = line.chars().take(room.saturating_sub(1)).collect();
    kept + "…"
}
