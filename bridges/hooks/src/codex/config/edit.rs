//! Writing into files that are not ours: one value changes, and everything else stays as it is, byte for byte.

use crate::{json::line, report};
use std::{
    fs,
    io::{self, Write},
    path::Path,
};
use toml_edit::{DocumentMut, Item, Table, TableLike, TomlError, Value};

/// Why a file was left as it is.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Trouble {
    #[error("it cannot be read: {0}")]
    Read(io::Error),
    #[error("it cannot be written: {0}")]
    Write(io::Error),
    #[error("it is not UTF-8")]
    NotText,
    #[error("line {line} is not TOML: {message}")]
    NotToml { line: usize, message: String },
    #[error("`{0}` is there and is no table")]
    NoTable(String),
    #[error("the value cannot be set without changing something else in it")]
    Entangled,
    #[error("it is not what was written there: {0}")]
    Record(String),
}

/// Sets texts in a TOML file, each in a table that is found by its keys. The file is made if there is none.
pub(super) fn set(path: &Path, changes: &[(Vec<&str>, &str, &str)]) -> Result<(), Trouble> {
    let _held = if changes.is_empty() { None } else { hold(path) };
    let before = match report::read(path) {
        Ok(bytes) => String::from_utf8(bytes).map_err(|_| Trouble::NotText)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(Trouble::Read(error)),
    };
    let mut text = before.clone();
    for (tables, key, value) in changes {
        text = with(&text, tables, key, value)?;
    }
    match text == before {
        true => Ok(()),
        false => replace(path, text.as_bytes()),
    }
}

/// The text with one value set in it.
pub(crate) fn with(text: &str, tables: &[&str], key: &str, value: &str) -> Result<String, Trouble> {
    // The editor takes a byte order mark and carriage returns off, so it is asked about a text without them, and what it
    // changed there is changed here.
    let plain = text.strip_prefix('\u{feff}').unwrap_or(text).replace("\r\n", "\n");
    let mut document: DocumentMut = plain.parse().map_err(|error| not_toml(&plain, &error))?;
    put(document.as_table_mut(), tables, key, value)?;
    let edited = document.to_string();
    let front = common(plain.chars(), edited.chars());
    let back = common(plain[front..].chars().rev(), edited[front..].chars().rev());
    let (gone, new) = (&plain[front..plain.len() - back], &edited[front..edited.len() - back]);
    let read: Result<DocumentMut, TomlError> = edited.parse();
    let is_there = read.is_ok_and(|read| found(read.as_item(), tables, key) == Some(value));
    // What goes away may only be the earlier value of this key.
    if !is_there || gone.contains(['\n', '=', '[', '#']) {
        return Err(Trouble::Entangled);
    }
    let breaks = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let mut out = text[..place(text, front)].to_owned();
    out.push_str(&new.replace('\n', breaks));
    out.push_str(&text[place(text, front + gone.len())..]);
    Ok(out)
}

fn not_toml(text: &str, error: &TomlError) -> Trouble {
    let at = error.span().map_or(0, |span| span.start);
    Trouble::NotToml { line: line(text, at), message: error.message().to_owned() }
}

/// The length of what two texts begin with.
fn common(one: impl Iterator<Item = char>, other: impl Iterator<Item = char>) -> usize {
    one.zip(other).take_while(|(a, b)| a == b).map(|(a, _)| a.len_utf8()).sum()
}

/// The place in a text of a place in what is left of it without its byte order mark and carriage returns.
fn place(text: &str, plain: usize) -> usize {
    let mark = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    let bytes = &text.as_bytes()[mark..];
    // A line break is one place, that of its carriage return.
    let kept = (0..bytes.len()).filter(|at| !bytes[..=*at].ends_with(b"\r\n"));
    kept.chain([bytes.len()]).nth(plain).map_or(text.len(), |at| mark + at)
}

fn put(table: &mut dyn TableLike, tables: &[&str], key: &str, value: &str) -> Result<(), Trouble> {
    let Some((first, rest)) = tables.split_first() else {
        match table.get_mut(key).and_then(Item::as_value_mut) {
            // With what stands around it.
            Some(there) => {
                let decor = there.decor().clone();
                *there = Value::from(value);
                *there.decor_mut() = decor;
            }
            None => drop(table.insert(key, toml_edit::value(value))),
        }
        return Ok(());
    };
    if !table.contains_key(first) {
        let mut new = Table::new();
        // Only the last one has a line of its own.
        new.set_implicit(!rest.is_empty());
        table.insert(first, Item::Table(new));
    }
    let inside = table.get_mut(first).and_then(Item::as_table_like_mut);
    put(inside.ok_or_else(|| Trouble::NoTable((*first).to_owned()))?, rest, key, value)
}

fn found<'t>(item: &'t Item, tables: &[&str], key: &str) -> Option<&'t str> {
    tables.iter().chain([&key]).try_fold(item, |item, key| item.as_table_like()?.get(key))?.as_str()
}

/// Keeps others who approve something from a file's folder, so that what two write at once is both there. Where a folder cannot be
/// locked, nothing keeps them.
pub(super) fn hold(path: &Path) -> Option<fs::File> {
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let folder = path.parent()?;
    fs::create_dir_all(folder).ok()?;
    let folder = fs::File::open(folder).ok()?;
    folder.lock().ok()?;
    Some(folder)
}

/// Puts a file in the place of another in one step, with its mode. Where a link points to it, the link stays.
pub(super) fn replace(path: &Path, bytes: &[u8]) -> Result<(), Trouble> {
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let write = || -> io::Result<()> {
        fs::create_dir_all(folder)?;
        let mut new = tempfile::NamedTempFile::new_in(folder)?;
        new.write_all(bytes)?;
        if let Ok(old) = fs::metadata(&path) {
            new.as_file().set_permissions(old.permissions())?;
        }
        new.as_file().sync_all()?;
        new.persist(&path)?;
        Ok(())
    };
    write().map_err(Trouble::Write)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: [&str; 3] = ["hooks", "state", "/h/.codex/hooks.json:stop:0:0"];

    fn set(text: &str) -> String {
        with(text, &KEY, "trusted_hash", "sha256:ab").unwrap()
    }

    // C-BRIDGE-3
    #[test]
    fn a_value_is_set_and_the_rest_stays_byte_for_byte() {
        let state = "[hooks.state.\"/h/.codex/hooks.json:stop:0:0\"]\n";
        for text in [
            "",
            "\n",
            "# only a comment",
            "model = 'x'   # mine\n\n\n[projects.\"/p\"]\ntrust_level=\"trusted\"",
            "[hooks]\n\n[[hooks.Stop]]\n[[hooks.Stop.hooks]]\ntype = \"command\"\ncommand = '''a\nb'''\n\n[tui]\nx = {  a = 1 }\n# end\n",
            "[hooks.state]\n[hooks.state.other]\nenabled = false\n",
            "hooks.state.other.enabled = false\n",
        ] {
            for breaks in ["\n", "\r\n"] {
                for mark in ["", "\u{feff}"] {
                    let text = format!("{mark}{}", text.replace('\n', breaks));
                    let new = set(&text);
                    // What is new is one piece, and everything else is there on either side of it.
                    let front = common(text.chars(), new.chars());
                    assert!(new.ends_with(&text[front..]), "{text:?} became {new:?}");
                    assert_eq!(new.contains("\r\n"), text.contains("\r\n"), "{new:?}");
                    assert_eq!(new.matches("sha256:ab").count(), 1);
                    assert_eq!(set(&new), new, "setting it again changes nothing");
                }
            }
        }
        assert_eq!(set("").trim_start(), format!("{state}trusted_hash = \"sha256:ab\"\n"));
    }

    #[test]
    fn an_earlier_value_is_replaced_where_it_stands() {
        let key = "[hooks.state.'/h/.codex/hooks.json:stop:0:0']";
        for (before, after) in [
            (
                "trusted_hash =  'sha256:old' # reviewed\nenabled = true\n",
                "trusted_hash =  \"sha256:ab\" # reviewed\nenabled = true\n",
            ),
            ("enabled = false\n", "enabled = false\ntrusted_hash = \"sha256:ab\"\n"),
        ] {
            let rest = "\n[a]\nb = 1\r\n";
            assert_eq!(
                set(&format!("{key}\n{before}{rest}")).replace("\r\n", "\n"),
                format!("{key}\n{after}{rest}").replace("\r\n", "\n")
            );
        }
        let inline =
            "hooks = { state = { \"/h/.codex/hooks.json:stop:0:0\" = { enabled = true } } }\nx = 1\n";
        let new = set(inline);
        assert!(
            new.contains("enabled = true , trusted_hash = \"sha256:ab\" }") && new.ends_with("\nx = 1\n"),
            "{new}"
        );
    }

    #[test]
    fn a_file_that_cannot_be_edited_says_why() {
        let error = |text: &str| with(text, &KEY, "trusted_hash", "x").unwrap_err().to_string();
        assert!(error("a = 1\nb =\n").starts_with("line 2 is not TOML"), "{}", error("a = 1\nb =\n"));
        assert_eq!(error("hooks = 1\n"), "`hooks` is there and is no table");
        assert_eq!(error("[[hooks]]\n"), "`hooks` is there and is no table");
    }

    #[cfg(unix)]
    #[test]
    fn a_file_keeps_its_mode_and_the_link_to_it() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().join("real.toml"), folder.path().join("config.toml"));
        fs::write(&real, "a = 1\n").unwrap();
        fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).unwrap();
        symlink(&real, &link).unwrap();
        super::set(&link, &[(KEY.to_vec(), "trusted_hash", "sha256:ab")]).unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::metadata(&real).unwrap().permissions().mode() & 0o777, 0o640);
        assert!(fs::read_to_string(&real).unwrap().starts_with("a = 1\n"));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "nothing is left beside it");
    }
}
