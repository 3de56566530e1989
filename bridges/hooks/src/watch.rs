//! Files of hooks that are read again when they have changed: what they held when they were last taken over, and what they
//! hold now.

use crate::{
    definition::{Origin, Scope},
    options::TellReloaded,
    report::{self, Report, Severity},
    set::Loaded,
};
use std::{fs, io, os::unix::fs::MetadataExt, path::Path, sync::Arc};
use tokio::sync::{Mutex, OwnedMutexGuard};

/// A file of hooks, with what it holds.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    pub(crate) origin: Arc<Origin>,
    /// It is a mistake that it is not there.
    pub(crate) must_exist: bool,
    pub(crate) text: Text,
    stamp: Stamp,
}

/// What a file holds, or why that is not known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Text {
    Bytes(Arc<[u8]>),
    Failed(io::ErrorKind, Arc<str>),
}

/// By what a file is known to be the same without being read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stamp {
    /// Device and number, length, and the times of its content and of its state.
    There([u64; 3], [i64; 4]),
    Failed(io::ErrorKind),
    /// It is no file.
    Given,
}

impl Stamp {
    fn of(path: &Path) -> Stamp {
        match fs::metadata(path) {
            Ok(m) => Stamp::There(
                [m.dev(), m.ino(), m.size()],
                [m.mtime(), m.mtime_nsec(), m.ctime(), m.ctime_nsec()],
            ),
            Err(error) => Stamp::Failed(error.kind()),
        }
    }
}

impl Source {
    /// Reads a file.
    pub(crate) fn read(origin: Arc<Origin>, must_exist: bool) -> Source {
        // Before the text: what is written in between is found the next time.
        let stamp = Stamp::of(&origin.path);
        let text = match report::read(&origin.path) {
            Ok(bytes) => Text::Bytes(bytes.into()),
            Err(error) => Text::Failed(error.kind(), error.to_string().into()),
        };
        Source { origin, must_exist, text, stamp }
    }

    /// A text without a file.
    pub(crate) fn given(origin: Arc<Origin>, text: &str) -> Source {
        let text = Text::Bytes(text.as_bytes().into());
        Source { origin, must_exist: true, text, stamp: Stamp::Given }
    }

    /// Its bytes; nothing if it need not be there and is not.
    ///
    /// # Errors
    /// A report, if it cannot be read.
    pub(crate) fn bytes(&self) -> Result<Option<&[u8]>, Report> {
        match &self.text {
            Text::Bytes(bytes) => Ok(Some(bytes)),
            Text::Failed(io::ErrorKind::NotFound, _) if !self.must_exist => Ok(None),
            Text::Failed(_, why) => {
                let message = format!("this file cannot be read and is ignored: {why}");
                let report = Report::new(Severity::Error, "hooks/unreadable", message);
                Err(report.at(&self.origin.path, None))
            }
        }
    }
}

/// What a client makes of its files, as often as they are read.
pub(crate) trait Reader: Send + Sync + 'static {
    /// All of them put together.
    fn load(&self, sources: &[Source], reports: &mut Vec<Report>) -> Loaded;

    /// What is wrong with one of which as a whole nothing counts.
    fn rejected(&self, source: &Source) -> Option<Vec<Report>>;
}

/// How a client calls a change of a file, and whether its hooks may keep it out.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Watched {
    pub(crate) source: &'static str,
    pub(crate) may_be_kept: bool,
}

/// The files of a project, and who is told of their changes.
pub(crate) struct Watch {
    pub(crate) reader: Arc<dyn Reader>,
    pub(crate) tell: Option<TellReloaded>,
    files: Arc<Mutex<Files>>,
}

/// Nobody else looks meanwhile.
pub(crate) type Held = OwnedMutexGuard<Files>;

/// What the files of a project held.
pub(crate) struct Files {
    /// As it is in force.
    pub(crate) taken: Vec<Source>,
    /// When they were last looked at, whatever came of it.
    pub(crate) seen: Vec<Source>,
    /// What there was to say of what is in force.
    pub(crate) reports: Vec<Report>,
}

impl Watch {
    pub(crate) fn new(
        reader: impl Reader,
        sources: Vec<Source>,
        reports: Vec<Report>,
        tell: Option<TellReloaded>,
    ) -> Watch {
        let files = Files { taken: sources.clone(), seen: sources, reports };
        Watch { reader: Arc::new(reader), tell, files: Arc::new(Mutex::new(files)) }
    }

    /// The files, unless somebody else is at it: nobody waits for the hooks of another session.
    pub(crate) fn hold(&self) -> Option<Held> {
        self.files.clone().try_lock_owned().ok()
    }
}

impl Files {
    /// The files among these that hold something else than when they were last seen, by place. Reads the file system.
    pub(crate) fn changed(&mut self, is_watched: impl Fn(Scope) -> bool) -> Vec<(usize, Source)> {
        let mut changed = Vec::new();
        for (place, seen) in self.seen.iter_mut().enumerate() {
            if !is_watched(seen.origin.scope) || Stamp::of(&seen.origin.path) == seen.stamp {
                continue;
            }
            let now = Source::read(seen.origin.clone(), seen.must_exist);
            match now.text == seen.text {
                true => seen.stamp = now.stamp,
                false => changed.push((place, now)),
            }
        }
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::SystemTime;

    struct Nothing;

    impl Reader for Nothing {
        fn load(&self, _: &[Source], _: &mut Vec<Report>) -> Loaded {
            Loaded::default()
        }
        fn rejected(&self, _: &Source) -> Option<Vec<Report>> {
            None
        }
    }

    fn origin(path: &Path) -> Arc<Origin> {
        Arc::new(Origin { path: path.into(), named: None, scope: Scope::Project, plugin: None })
    }

    #[test]
    fn a_change_is_one_of_what_a_file_holds() {
        let dir = tempfile::tempdir().unwrap();
        let [one, two] = ["one", "two"].map(|name| dir.path().join(name));
        fs::write(&one, "1").unwrap();
        let sources = [&one, &two].map(|path| Source::read(origin(path), false));
        assert!(matches!(sources[1].bytes(), Ok(None)));
        let watch = Watch::new(Nothing, sources.into(), Vec::new(), None);
        let mut files = watch.hold().unwrap();
        assert!(watch.hold().is_none(), "one at a time");
        let mut changed = || -> Vec<usize> {
            let found = files.changed(|_| true);
            let places = found.iter().map(|(place, _)| *place).collect();
            found.into_iter().for_each(|(place, now)| files.seen[place] = now);
            places
        };
        assert_eq!(changed(), [0; 0]);
        // Touched, and written anew with the same.
        fs::File::open(&one).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
        assert_eq!(changed(), [0; 0]);
        fs::remove_file(&one).unwrap();
        fs::write(&one, "1").unwrap();
        assert_eq!(changed(), [0; 0]);
        // Another text of the same length and the same time.
        fs::write(&one, "2").unwrap();
        fs::File::open(&one).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
        fs::write(&two, "").unwrap();
        assert_eq!(changed(), [0, 1]);
        assert_eq!(changed(), [0; 0]);
        fs::remove_file(&one).unwrap();
        fs::remove_file(&two).unwrap();
        fs::create_dir(&two).unwrap();
        assert_eq!(changed(), [0, 1]);
        assert!(files.changed(|_| false).is_empty());
        assert!(matches!(files.seen[0].bytes(), Ok(None)) && files.seen[1].bytes().is_err());
    }
}
