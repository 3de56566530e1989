//! What a user has trusted, and what has changed since.
//!
//! The client keeps a hash of each trusted handler in the user's `config.toml`. A hash does not say what it is of, so what is
//! approved here is kept beside it, in a file of our own, each text under its hash: a text that is not what its hash is of
//! counts for nothing. The client's rule for a plugin's files is not known; for plugins trust is kept in that file alone, for
//! a handler together with all that is in the plugin's folder.

use super::{
    edit,
    handler::{sha256, shown},
};
use crate::{
    json::{self, Node},
    report::{self, Report, Severity},
};
use sha2::{Digest, Sha256};
use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
};

/// How many files a plugin may have.
const FILES: usize = 20_000;
/// How large they may be together, in bytes.
const BYTES: u64 = 256 << 20;

/// Whether a hook may run, as far as its user has said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TrustStatus {
    /// It is the system's or an administrator's, and runs.
    Managed,
    /// It is what was trusted, and runs.
    Trusted,
    /// Nobody has trusted it; it does not run.
    Untrusted,
    /// It is not what was trusted, and does not run.
    Modified,
    /// Its user switched it off.
    Disabled,
}

impl TrustStatus {
    /// Its name: `managed`, `trusted`, `untrusted`, `modified` or `disabled`.
    pub fn name(self) -> &'static str {
        match self {
            TrustStatus::Managed => "managed",
            TrustStatus::Trusted => "trusted",
            TrustStatus::Untrusted => "untrusted",
            TrustStatus::Modified => "modified",
            TrustStatus::Disabled => "disabled",
        }
    }
}

/// What was approved here.
#[derive(Debug, Default, Clone)]
pub(crate) struct Record {
    /// Texts by their hash.
    texts: BTreeMap<String, String>,
    /// What is trusted of plugins, by the keys of their hooks.
    plugins: BTreeMap<String, String>,
}

/// A plugin's files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bundle {
    /// A line for each: its hash, two spaces, its path. Sorted by path.
    pub(crate) list: String,
    /// The hash of that.
    pub(crate) hash: String,
}

/// A value that is not what it was.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Change {
    /// What it is: a key of the handler, `matcher`, or a file of its plugin.
    pub what: String,
    /// What was trusted; nothing if it was not there.
    pub was: Option<String>,
    /// What is there now.
    pub is: Option<String>,
}

/// What has changed about a hook since it was trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Changed {
    /// Nothing, or there is nothing to compare it with.
    Nothing,
    /// Something: what was trusted is not known, since it was not approved here.
    Unknown,
    /// These.
    Known(Vec<Change>),
}

impl Record {
    /// The file, if there is one. What it holds and cannot be read is reported, and does not count.
    pub(super) fn read(path: Option<&Path>, reports: &mut Vec<Report>) -> Record {
        let Some(path) = path else { return Record::default() };
        Record::load(path).unwrap_or_else(|why| {
            let message = format!(
                "this file is not what `portcullis hooks trust` wrote, and nothing in it counts: {why}"
            );
            let mut report = Report::new(Severity::Warning, "hooks/bad-record", message).at(path, None);
            report.hint = Some("move it away, and approve the hooks of plugins again".into());
            reports.push(report);
            Record::default()
        })
    }

    fn load(path: &Path) -> Result<Record, String> {
        let bytes = match report::read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Record::default()),
            Err(error) => return Err(error.to_string()),
        };
        let text = String::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned())?;
        let root = json::parse(&text).map_err(|fault| fault.problem.to_string())?;
        if root.get("version").and_then(Node::number) != Some(1.0) {
            return Err("it is of another version".into());
        }
        let of = |key: &str| -> Result<BTreeMap<String, String>, String> {
            let entries =
                root.get(key).and_then(Node::entries).ok_or_else(|| format!("`{key}` is not an object"))?;
            let strings =
                entries.iter().map(|entry| Some((entry.key.to_string(), entry.value.str()?.to_owned())));
            strings.collect::<Option<_>>().ok_or_else(|| format!("`{key}` holds more than strings"))
        };
        Ok(Record { texts: of("texts")?, plugins: of("plugins")? })
    }

    /// Adds to the file, which is made if need be.
    pub(super) fn add(
        path: &Path,
        texts: &[String],
        plugins: &[(String, String)],
    ) -> Result<(), edit::Trouble> {
        let _held = edit::hold(path);
        let mut all = Record::load(path).map_err(edit::Trouble::Record)?;
        all.texts.extend(texts.iter().map(|text| (sha256(text.as_bytes()), text.clone())));
        all.plugins.extend(plugins.iter().cloned());
        let mut out = String::from("{\n  \"version\": 1");
        for (key, map) in [("texts", &all.texts), ("plugins", &all.plugins)] {
            // Writing to a String cannot fail.
            let _ = write!(out, ",\n  \"{key}\": {{");
            for (i, (key, value)) in map.iter().enumerate() {
                out.push_str(if i > 0 { ",\n    " } else { "\n    " });
                json::write_string(&mut out, key);
                out.push_str(": ");
                json::write_string(&mut out, value);
            }
            out.push_str(if map.is_empty() { "}" } else { "\n  }" });
        }
        out.push_str("\n}\n");
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(edit::Trouble::Write)?;
        }
        edit::replace(path, out.as_bytes())
    }

    pub(super) fn plugin(&self, key: &str) -> Option<&str> {
        self.plugins.get(key).map(String::as_str)
    }

    /// The text that has this hash.
    fn text(&self, hash: &str) -> Option<&str> {
        self.texts.get(hash).map(String::as_str).filter(|text| sha256(text.as_bytes()) == hash)
    }

    /// What differs between what had this hash when it was trusted and what is there now: the handler's identity, and the list
    /// of its plugin's files.
    pub(super) fn changed(&self, trusted: &str, identity: &str, bundle: Option<&str>) -> Changed {
        let (handler, files) = match trusted.split_once('/') {
            Some((handler, files)) if bundle.is_some() => (handler, Some(files)),
            _ => (trusted, None),
        };
        let earlier = self.text(handler).and_then(fields).zip(fields(identity));
        let listed = files.map(|files| self.text(files).map(listed)).zip(bundle.map(listed));
        match (earlier, listed) {
            (Some((was, is)), None) => Changed::Known(differences(&was, &is)),
            (Some((was, is)), Some((Some(were), are))) => {
                let mut all = differences(&was, &is);
                all.extend(differences(&were, &are));
                Changed::Known(all)
            }
            _ => Changed::Unknown,
        }
    }
}

/// The parts of an identity, by the names that a hook file has for them.
fn fields(identity: &str) -> Option<BTreeMap<String, String>> {
    let root = json::parse(identity).ok()?;
    let text = |node: &Node<'_>| {
        node.str().map(str::to_owned).unwrap_or_else(|| {
            let mut out = String::new();
            node.write(&mut out);
            out
        })
    };
    let handler = root.get("hooks")?.items()?.first()?.entries()?.iter();
    let group = root.entries()?.iter().filter(|entry| entry.key != "hooks");
    Some(group.chain(handler).map(|entry| (entry.key.to_string(), text(&entry.value))).collect())
}

/// The files of a list.
fn listed(list: &str) -> BTreeMap<String, String> {
    let lines = list.lines().filter_map(|line| line.split_once("  "));
    lines.map(|(hash, path)| (path.to_owned(), hash.to_owned())).collect()
}

fn differences(was: &BTreeMap<String, String>, is: &BTreeMap<String, String>) -> Vec<Change> {
    let mut keys: Vec<&String> = was.keys().chain(is.keys()).collect();
    keys.sort();
    keys.dedup();
    let one =
        |key: &String| Change { what: key.clone(), was: was.get(key).cloned(), is: is.get(key).cloned() };
    keys.into_iter().map(one).filter(|change| change.was != change.is).collect()
}

/// Everything that is in a plugin's folder, whatever it is called. The error is a sentence.
pub(super) fn bundle(root: &Path) -> Result<Bundle, String> {
    let mut files = BTreeMap::new();
    let mut bytes = 0;
    let root = &fs::canonicalize(root).unwrap_or_else(|_| root.to_owned());
    let walked = walk(root, root, &mut files, &mut bytes);
    walked.map_err(|error| {
        format!("what is in the plugin's folder cannot be read, so none of it is trusted: {error}")
    })?;
    let mut list = String::new();
    for (path, hash) in files {
        // Writing to a String cannot fail. A path is written so that it is one line.
        let _ = writeln!(list, "{hash}  {}", format!("{path:?}").trim_matches('"'));
    }
    let hash = sha256(list.as_bytes());
    Ok(Bundle { list, hash })
}

fn walk(
    root: &Path,
    folder: &Path,
    files: &mut BTreeMap<PathBuf, String>,
    bytes: &mut u64,
) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        let kind = entry.file_type()?;
        if kind.is_dir() {
            walk(root, &path, files, bytes)?;
            continue;
        }
        let hash = if kind.is_symlink() {
            // What a link leads to counts, too.
            let target = format!("link {:?}", fs::read_link(&path)?);
            match fs::metadata(&path) {
                Ok(meta) if meta.is_file() => format!("{target} {}", digest(&path, bytes)?),
                Ok(_) if !fs::canonicalize(&path)?.starts_with(root) => {
                    return Err(io::Error::other(format!("{} leads out of it", path.display())));
                }
                _ => target,
            }
        } else if kind.is_file() {
            digest(&path, bytes)?
        } else {
            return Err(io::Error::other(format!("{} is no plain file", path.display())));
        };
        let inside = path.strip_prefix(root).map(Path::to_owned).unwrap_or(path);
        files.insert(inside, hash);
        if files.len() > FILES {
            return Err(too_much());
        }
    }
    Ok(())
}

/// The hash of a file's content, and its length added to what was read before.
fn digest(path: &Path, bytes: &mut u64) -> io::Result<String> {
    let (mut file, mut hasher, mut buffer) = (fs::File::open(path)?, Sha256::new(), vec![0; 1 << 16]);
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            return Ok(shown(hasher.finalize()));
        }
        *bytes += read as u64;
        if *bytes > BYTES {
            return Err(too_much());
        }
        hasher.update(&buffer[..read]);
    }
}

fn too_much() -> io::Error {
    io::Error::other(format!("it has more than {FILES} files or {BYTES} bytes"))
}
