//! Context that is too long for the model: kept in a file, shown by its beginning.

use sha2::{Digest, Sha256};
use std::{fs, io, path::Path, path::PathBuf};

/// The longest context that passes whole, in UTF-16 units, counted for each hook.
const LONGEST: usize = 10_000;
/// How much of a longer one is shown, in UTF-16 units.
const PREVIEW: usize = 2_000;

/// What the model is shown of a context. A longer one is written below `folder`, under a name that its content gives it, so
/// that a repeated run writes the same file.
pub(crate) async fn bound(text: String, folder: PathBuf, what: &'static str) -> String {
    // A text has at least as many bytes as units.
    if text.len() <= LONGEST || text.encode_utf16().count() <= LONGEST {
        return text;
    }
    let size = text.len() as f64 / 1024.0;
    let preview = head(&text).to_owned();
    let digest = Sha256::digest(text.as_bytes());
    let id: String = digest[..12].iter().map(|byte| format!("{byte:02x}")).collect();
    let file = folder.join(format!("hook-{id}-{what}.txt"));
    let path = file.clone();
    let kept = match tokio::task::spawn_blocking(move || keep(&path, &text)).await {
        Ok(kept) => kept,
        Err(stopped) => Err(io::Error::other(stopped)),
    };
    let place = match kept {
        Ok(()) => format!("All of it is in: {}", file.display()),
        Err(error) => {
            tracing::warn!(file = %file.display(), %error, "a long hook context could not be kept");
            "The rest could not be kept.".into()
        }
    };
    format!(
        "<persisted-output>\nToo long to show whole ({size:.1}KB). {place}\n\nIt begins:\n{preview}\n...\n</persisted-output>"
    )
}

fn keep(file: &Path, text: &str) -> io::Result<()> {
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(file, text)
}

fn head(text: &str) -> &str {
    let mut units = 0;
    let end = text.char_indices().find(|(_, c)| {
        units += c.len_utf16();
        units > PREVIEW
    });
    end.map_or(text, |(at, _)| &text[..at])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_limit_counts_utf16_units() {
        let dir = tempfile::tempdir().unwrap();
        for (text, whole) in [
            ("x".repeat(10_000), true),
            ("x".repeat(10_001), false),
            ("é".repeat(6_000), true),
            ("😀".repeat(4_900), true),
            ("😀".repeat(6_000), false),
        ] {
            let shown = bound(text.clone(), dir.path().into(), "stdout").await;
            assert_eq!(shown == text, whole);
            if !whole {
                assert!(
                    shown.starts_with("<persisted-output>\n")
                        && shown.ends_with("\n...\n</persisted-output>")
                );
                assert!(shown.encode_utf16().count() < 3_000);
            }
        }
        let kept: Vec<_> = fs::read_dir(dir.path()).unwrap().collect();
        assert_eq!(kept.len(), 2);
        assert!(
            kept.iter()
                .any(|file| fs::read_to_string(file.as_ref().unwrap().path()).unwrap() == "x".repeat(10_001))
        );
    }

    #[tokio::test]
    async fn a_file_that_cannot_be_written_still_bounds_the_text() {
        let dir = tempfile::tempdir().unwrap();
        let blocker = dir.path().join("file");
        fs::write(&blocker, "").unwrap();
        let shown = bound("y".repeat(50_000), blocker.join("below"), "stdout").await;
        assert!(shown.len() < 3_000 && shown.contains("could not be kept"));
    }
}
