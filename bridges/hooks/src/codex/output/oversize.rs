//! Texts that are too long for the model: kept in a file, shown by their beginning and end.
//!
//! A token is four bytes here. What a hook adds has a limit of its own, if its file sets one; what it feeds back, or has the turn
//! go on with, has the client's. The reason of a denied call is shown whole.

use crate::{
    answer::{Answer, Verdict},
    event::Event,
    uuid::uuid,
};
use sha2::{Digest, Sha256};
use std::{
    fs::{self, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::Arc,
};

/// The longest text that passes whole, in tokens.
const LIMIT: u64 = 2_500;
/// Bytes of a token.
const TOKEN: usize = 4;

/// Bounds what the model would read of an answer. `limit`: of context, in tokens, 0 for none; `folder`: where the session's long
/// texts are kept.
pub(in crate::codex) async fn bound(answer: &mut Answer, event: Event, limit: Option<u64>, folder: PathBuf) {
    if let Some(text) = answer.context.take() {
        answer.context = Some(shown(text, limit.unwrap_or(LIMIT), folder.clone()).await);
    }
    if let (Event::PostToolUse | Event::Stop | Event::SubagentStop, Some(Verdict::Block(text))) =
        (event, &mut answer.verdict)
    {
        *text = shown(std::mem::take(text), LIMIT, folder).await;
    }
}

/// The folder for a session's long texts, in this process's own for temporary files.
pub(in crate::codex) fn folder(session: &str) -> PathBuf {
    std::env::temp_dir().join("hook_outputs").join(session)
}

/// What the model is shown of a text. A longer one is written below `folder`, under a name that its content gives it, so that a
/// repeated run writes the same file.
async fn shown(text: String, limit: u64, folder: PathBuf) -> String {
    let bytes = usize::try_from(limit).unwrap_or(usize::MAX).saturating_mul(TOKEN);
    if limit == 0 || text.len() <= bytes {
        return text;
    }
    let file = folder.join(format!("{}.txt", uuid(&Sha256::digest(text.as_bytes()))));
    let whole: Arc<str> = text.into();
    let (path, kept) = (file.clone(), whole.clone());
    let kept = match tokio::task::spawn_blocking(move || keep(&path, &kept)).await {
        Ok(kept) => kept,
        Err(stopped) => Err(io::Error::other(stopped)),
    };
    if let Err(error) = kept {
        tracing::warn!(file = %file.display(), %error, "a long hook output could not be kept");
        return cut(&whole, bytes);
    }
    let footer = format!("\n\nFull hook output saved to: {}", file.display());
    // The limit bounds the place, too.
    cut(&whole, bytes.saturating_sub(tokens(footer.len()) * TOKEN)) + &footer
}

fn tokens(bytes: usize) -> usize {
    bytes.div_ceil(TOKEN)
}

fn keep(file: &Path, text: &str) -> io::Result<()> {
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder)?;
    }
    match OpenOptions::new().write(true).create_new(true).open(file) {
        Ok(mut new) => new.write_all(text.as_bytes()),
        // A repeated run finds its own file. Whoever else could write there may have put something in its place, or a link.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let own = fs::symlink_metadata(file)?.is_file() && fs::read(file)? == text.as_bytes();
            if own { Ok(()) } else { Err(io::Error::other("something else is in its place")) }
        }
        Err(error) => Err(error),
    }
}

/// Beginning and end, at most that many bytes in all, under a line about the whole.
fn cut(text: &str, bytes: usize) -> String {
    let head = text.floor_char_boundary(bytes / 2);
    let tail = text.ceil_char_boundary(text.len() - (bytes - bytes / 2));
    format!(
        "Warning: truncated output (original token count: {})\nTotal output lines: {}\n\n{}…{} tokens truncated…{}",
        tokens(text.len()),
        text.lines().count(),
        &text[..head],
        tokens(text.len() - bytes),
        &text[tail..]
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(folder: &Path) -> Vec<(String, String)> {
        let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap());
        let read = |path: PathBuf| fs::read_to_string(path).unwrap();
        files.map(|file| (file.file_name().into_string().unwrap(), read(file.path()))).collect()
    }

    // C-BRIDGE-1
    #[tokio::test]
    async fn a_text_beyond_the_limit_is_kept_and_shown_by_both_ends() {
        let dir = tempfile::tempdir().unwrap();
        for (text, limit) in
            [("z".repeat(10_000), LIMIT), ("w".repeat(60_000), 0), ("é".repeat(200), 100), (String::new(), 1)]
        {
            assert_eq!(shown(text.clone(), limit, dir.path().into()).await, text);
        }
        assert!(files(dir.path()).is_empty());
        let long = "w".repeat(1_000) + &"x".repeat(1_000);
        let first = shown(long.clone(), 100, dir.path().into()).await;
        let kept = files(dir.path());
        let [(name, text)] = &*kept else { panic!("{kept:?}") };
        assert_eq!(*text, long);
        assert!(name.len() == 40 && name.as_bytes()[14] == b'8', "{name}");
        let footer = format!("\n\nFull hook output saved to: {}", dir.path().join(name).display());
        let budget = 400 - footer.len().div_ceil(4) * 4;
        let (head, tail) = ("w".repeat(budget / 2), "x".repeat(budget - budget / 2));
        let left = (2_000 - budget).div_ceil(4);
        assert_eq!(
            first,
            format!(
                "Warning: truncated output (original token count: 500)\nTotal output lines: 1\n\n\
                 {head}…{left} tokens truncated…{tail}{footer}"
            )
        );
        // A repeated run shows the same.
        assert_eq!(shown(long, 100, dir.path().into()).await, first);
        assert_eq!(files(dir.path()).len(), 1);
    }

    // The folder is one that others may write to, and its names can be guessed.
    #[tokio::test]
    async fn what_a_link_in_its_place_points_to_is_not_written() {
        let dir = tempfile::tempdir().unwrap();
        let long = "w".repeat(2_000);
        shown(long.clone(), 100, dir.path().into()).await;
        let (name, _) = files(dir.path()).remove(0);
        let precious = dir.path().join("precious");
        fs::write(&precious, "mine").unwrap();
        fs::remove_file(dir.path().join(&name)).unwrap();
        std::os::unix::fs::symlink(&precious, dir.path().join(&name)).unwrap();
        let text = shown(long, 100, dir.path().into()).await;
        assert!(!text.contains("saved to") && text.len() < 600, "{text}");
        assert_eq!(fs::read_to_string(&precious).unwrap(), "mine");
    }

    // C-BRIDGE-1: the numbers are the client's own, for 2,000 bytes under a limit of 100 tokens and a place of 31.
    #[test]
    fn the_cut_counts_tokens_and_keeps_characters_whole() {
        assert_eq!(tokens(10_001), 2_501);
        let half = "w".repeat(138);
        let shown = cut(&"w".repeat(2_000), 276);
        assert!(shown.ends_with(&format!("lines: 1\n\n{half}…431 tokens truncated…{half}")), "{shown}");
        let text = "😀".repeat(10) + "\n" + &"é".repeat(10);
        for bytes in 0..text.len() {
            let shown = cut(&text, bytes);
            let (head, tail) = shown.split_once(" tokens truncated…").unwrap();
            let (head, _) = head.split_once("lines: 2\n\n").unwrap().1.rsplit_once('…').unwrap();
            assert!(text.starts_with(head) && text.ends_with(tail) && head.len() + tail.len() <= bytes);
        }
    }

    // C-BRIDGE-1
    #[tokio::test]
    async fn context_feedback_and_prompts_are_bounded_and_reasons_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let long = "line\n".repeat(10_000);
        for (event, bounded) in [
            (Event::PreToolUse, false),
            (Event::PermissionRequest, false),
            (Event::UserPromptSubmit, false),
            (Event::PostToolUse, true),
            (Event::Stop, true),
            (Event::SubagentStop, true),
        ] {
            let verdict = Some(Verdict::Block(long.clone()));
            let mut answer = Answer { verdict, context: Some(long.clone()), ..Answer::default() };
            bound(&mut answer, event, Some(0), dir.path().into()).await;
            assert_eq!(answer.context.as_ref(), Some(&long));
            let Some(Verdict::Block(reason)) = &answer.verdict else { panic!("{answer:?}") };
            assert_eq!(*reason != long, bounded, "{event:?}");
            bound(&mut answer, event, None, dir.path().into()).await;
            assert!(answer.context.is_some_and(|context| context.len() < 10_200));
        }
    }

    #[tokio::test]
    async fn a_file_that_cannot_be_written_still_bounds_the_text() {
        let dir = tempfile::tempdir().unwrap();
        let blocker = dir.path().join("file");
        fs::write(&blocker, "").unwrap();
        let shown = shown("y".repeat(50_000), LIMIT, blocker.join("below")).await;
        assert!(shown.len() < 10_200 && !shown.contains("saved to"));
    }

    #[test]
    fn each_session_has_a_folder_of_its_own() {
        assert_eq!(folder("s-1"), std::env::temp_dir().join("hook_outputs/s-1"));
    }
}
