//! Keeps the files of a project's sessions as long as their logs.

use super::{
    Shape, file,
    lines::{Lines, Whose},
};
use portcullis_runtime::{JournalError, Record, Scene, Seq, SessionId, SessionInfo, SessionLog};
use std::{
    collections::HashMap,
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// How many records are read at once.
const PAGE: usize = 256;
/// How long hooks wait for a file.
const PATIENCE: Duration = Duration::from_secs(10);
/// Files whose end is remembered. Of any other one it is read from the file itself.
const REMEMBERED: usize = 4096;

/// The transcripts below one folder.
#[derive(Debug)]
pub(crate) struct Keeper {
    shape: Shape,
    folder: PathBuf,
    places: Mutex<HashMap<SessionId, Arc<Place>>>,
}

/// Where one file ends.
#[derive(Debug, Default)]
struct Place {
    /// The next record, once it is known that the file is of this log. Never held for long.
    next: Mutex<Option<Seq>>,
    /// Held while the file is written, so never on a thread that has sessions.
    end: Mutex<Option<End>>,
}

#[derive(Debug)]
struct End {
    lines: Lines,
    len: u64,
    next: Seq,
}

/// Why a transcript is not as long as its log.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Trouble {
    #[error("the transcript could not be written: {0}")]
    File(#[from] io::Error),
    #[error("the log could not be read for the transcript: {0}")]
    Log(#[from] JournalError),
    #[error("the transcript was not written within {} s", PATIENCE.as_secs())]
    Late,
    #[error("the transcript is changed by somebody else, again and again")]
    Changed,
}

impl Keeper {
    pub(crate) fn new(shape: Shape, folder: PathBuf) -> Keeper {
        Keeper { shape, folder, places: Mutex::default() }
    }

    pub(crate) fn shape(&self) -> Shape {
        self.shape
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Where a session's own is.
    pub(crate) fn place_of(&self, session: &SessionId) -> PathBuf {
        self.shape.file(&self.folder, session, session)
    }

    /// Writes what the logs have and the files have not: of the session at the root and, in a subagent, of that one and of the
    /// one whose it is.
    pub(crate) async fn catch_up(&self, session: &SessionInfo) -> Result<(), Trouble> {
        let written = async {
            // One after another; a file that is as long as its log costs next to nothing.
            let parent = session.parent_log().filter(|log| *log.session() != session.root);
            let own = session.log().filter(|log| *log.session() != session.root);
            for log in [session.root_log(), parent, own].into_iter().flatten() {
                self.write(log, session.root.clone()).await?;
            }
            Ok(())
        };
        tokio::time::timeout(PATIENCE, written).await.unwrap_or(Err(Trouble::Late))
    }

    /// Does so when somebody gets to it.
    pub(crate) fn follow(self: &Arc<Self>, scene: &Scene) {
        let (keeper, session) = (self.clone(), scene.session.clone());
        // Whoever drops the handle lets the task go on: that is what is wanted.
        drop(tokio::spawn(async move {
            if let Err(error) = keeper.catch_up(&session).await {
                tracing::warn!(session = %session.id, %error, "a transcript is behind its log");
            }
        }));
    }

    async fn write(&self, log: SessionLog, root: SessionId) -> Result<(), Trouble> {
        let (place, shape) = (self.place(log.session()), self.shape);
        let path: Arc<Path> = shape.file(&self.folder, log.session(), &root).into();
        let whose = Whose { session: log.session().clone(), root };
        match add_all(&place, &log, (shape, &whose), &path).await {
            // Its end is looked for anew, in the file itself.
            Err(Trouble::Changed) => add_all(&place, &log, (shape, &whose), &path).await,
            done => done,
        }
    }

    fn place(&self, session: &SessionId) -> Arc<Place> {
        let mut places = lock(&self.places);
        if let Some(place) = places.get(session) {
            return place.clone();
        }
        if places.len() >= REMEMBERED {
            places.retain(|_, place| Arc::strong_count(place) > 1);
        }
        places.entry(session.clone()).or_default().clone()
    }
}

async fn add_all(
    place: &Arc<Place>,
    log: &SessionLog,
    (shape, whose): (Shape, &Whose),
    path: &Arc<Path>,
) -> Result<(), Trouble> {
    let known = *lock(&place.next);
    let mut next = match known {
        Some(next) => next,
        None => {
            let Some(first) = log.read(Seq(0), 1).await?.pop() else { return Ok(()) };
            let (place, whose, path) = (place.clone(), whose.clone(), path.clone());
            blocking(move || place.find_end(&path, Lines::new(shape, whose), &first)).await?
        }
    };
    loop {
        let page = log.read(next, PAGE).await?;
        if page.is_empty() && known.is_some() {
            return Ok(());
        }
        let (place, path) = (place.clone(), path.clone());
        let (on, is_all) = blocking(move || place.add(&path, next, &page)).await?;
        if is_all {
            return Ok(());
        }
        next = on;
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Trouble> + Send + 'static,
) -> Result<T, Trouble> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|stopped| Err(io::Error::other(stopped).into()))
}

impl Place {
    /// Where the file ends in the log, by its own last lines. The first record of the log says which log it is.
    fn find_end(&self, path: &Path, mut lines: Lines, first: &Record) -> Result<Seq, Trouble> {
        let mut end = lock(&self.end);
        let tail = file::open(path, lines.shape())?;
        lines.add(first, &mut String::new());
        let next = tail.last.as_ref().map_or(Seq(0), |last| last.from);
        if let Some(last) = tail.last {
            lines = lines.behind(last.uuid, last.model);
        }
        *end = Some(End { lines, len: tail.len, next });
        Ok(next)
    }

    /// Adds the lines of these records, which are the log's from `at` on, fewer than a page if they are its last ones. Says
    /// which record is next, and whether that was all.
    fn add(&self, path: &Path, at: Seq, page: &[Arc<Record>]) -> Result<(Seq, bool), Trouble> {
        let mut held = lock(&self.end);
        // Whoever failed meanwhile has said so, and left nothing to go on from.
        let Some(end) = held.as_mut() else { return Err(Trouble::Changed) };
        if end.next != at {
            return Ok((end.next, false));
        }
        let mut added = String::new();
        for record in page {
            end.lines.add(record, &mut added);
            end.next = Seq(record.seq.0 + 1);
        }
        let is_all = page.len() < PAGE;
        if is_all && end.lines.is_astray() {
            // The file is of another log of that name, or of an older kind.
            end.len = file::begin_anew(path)?;
            end.lines.begin_anew();
            end.next = Seq(0);
            return Ok((Seq(0), false));
        }
        let written = file::append(path, end.len, &added);
        match written {
            Ok(Some(len)) => {
                end.len = len;
                if !end.lines.is_astray() {
                    *lock(&self.next) = Some(end.next);
                }
                Ok((end.next, is_all))
            }
            failed => {
                (*held, *lock(&self.next)) = (None, None);
                failed?;
                Err(Trouble::Changed)
            }
        }
    }
}

/// Nothing that runs under these locks leaves anything half-done but what is found out when it is used.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
