//! Files into which hooks write what later commands of their session find in the environment (`CLAUDE_ENV_FILE`).
//!
//! A file is shell text, read by the shell of each command before the command itself. What it says may be secret: nothing of it
//! is recorded or logged, and only its owner may look into the folder.

use crate::{
    dialect::{Dialect, Variables},
    event::Event,
    hook::{Hook, Work},
};
use portcullis_runtime::{Scene, SessionInfo};
use std::{
    fs, io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    sync::Arc,
};

/// The events whose hooks may write some, where the dialect has them do so.
const EVENTS: [Event; 1] = [Event::SessionStart];

/// Where hooks in shadow write: nobody reads it.
const SHADOW: &str = "shadow";

/// The files of all sessions.
#[derive(Debug, Clone)]
pub(crate) struct Exports {
    folder: PathBuf,
}

impl Exports {
    pub(crate) fn new(folder: PathBuf) -> Exports {
        // Hooks start in a directory of their own.
        Exports { folder: std::path::absolute(&folder).unwrap_or(folder) }
    }

    /// Whether hooks of a dialect write any.
    pub(crate) fn of_dialect(dialect: &dyn Dialect) -> bool {
        EVENTS.iter().any(|event| dialect.exports(*event))
    }

    /// A session's folder, which its subagents share.
    fn of(&self, session: &SessionInfo) -> PathBuf {
        self.folder.join(session.root.as_str())
    }

    fn file(&self, session: &SessionInfo, event: Event, place: usize, shadow: bool) -> PathBuf {
        let folder = self.of(session);
        let folder = if shadow { folder.join(SHADOW) } else { folder };
        folder.join(format!("{}{place}.sh", stem(event)))
    }

    /// What a session's hooks have written, in the order in which it counts. Reads a folder.
    ///
    /// # Errors
    /// What the file system says, except that there is no such folder.
    pub(crate) fn written(&self, session: &SessionInfo) -> io::Result<Vec<PathBuf>> {
        let folder = match fs::read_dir(self.of(session)) {
            Ok(folder) => folder,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut found = Vec::new();
        for entry in folder {
            let path = entry?.path();
            if let Some(place) = place(&path).filter(|_| path.is_file()) {
                found.push((place, path));
            }
        }
        found.sort();
        Ok(found.into_iter().map(|(_, path)| path).collect())
    }

    /// Makes the folder of a file: the session's own and all in it for nobody but its owner.
    pub(crate) async fn make_room(self, file: &Path) {
        let Some(of_file) = file.parent().map(Path::to_owned) else { return };
        let made = tokio::task::spawn_blocking(move || {
            fs::create_dir_all(&self.folder)?;
            fs::DirBuilder::new().recursive(true).mode(0o700).create(of_file)
        });
        let made = made.await.unwrap_or_else(|stopped| Err(io::Error::other(stopped)));
        if let Err(error) = made {
            // The hook finds out itself if it has something to write.
            tracing::warn!(file = %file.display(), %error, "a hook has no folder for what it exports");
        }
    }
}

fn stem(event: Event) -> String {
    format!("{}-hook-", event.name().to_lowercase())
}

/// By what the files of a session are ordered: the event, and the hook's place in it.
fn place(path: &Path) -> Option<(usize, usize)> {
    let name = path.file_name()?.to_str()?.strip_suffix(".sh")?;
    let events = EVENTS.into_iter().enumerate();
    events
        .filter_map(|(number, event)| Some((number, name.strip_prefix(&*stem(event))?.parse().ok()?)))
        .next()
}

impl Hook {
    fn may_export(&self) -> bool {
        let event = self.definition.event;
        EVENTS.contains(&event) && self.house.dialect.exports(event)
    }

    /// The same hook, told which place it has among those that run, where that matters.
    pub(crate) fn at(self: &Arc<Self>, place: usize) -> Arc<Hook> {
        match self.may_export() {
            true => Arc::new(Hook { place, ..(**self).clone() }),
            false => self.clone(),
        }
    }

    /// Where it may write what it exports.
    pub(crate) fn exports(&self, scene: &Scene) -> Option<PathBuf> {
        let writes = self.may_export() && matches!(self.work, Work::Process(_));
        let (house, event) = (&self.house, self.definition.event);
        writes.then(|| house.exports.file(&scene.session, event, self.place, house.shadow))
    }

    /// Its environment, on top of this process's own.
    pub(crate) fn variables(&self, scene: &Scene, cwd: &Path) -> Variables {
        let (house, exports) = (&self.house, self.exports(scene));
        house.dialect.variables(&house.env, scene, cwd, self.origin.plugin.as_ref(), exports.as_deref())
    }
}
