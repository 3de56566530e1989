//! The directory that the tools work in.

use crate::path::{self, PathError, Target};
use crate::{Bash, Edit, Glob, Grep, Read, Write, file};
use portcullis_runtime::{Execution, SessionInfo, SpecError, Tool, ToolError, ToolSpec};
use std::{
    fs, io,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    sync::Arc,
};

/// A directory that the tools work in. Cloning shares it.
///
/// Its root is opened once and held, so the tools keep to that very directory even when it is renamed.
#[derive(Clone, Debug)]
pub struct Workspace(Arc<Inner>, Option<Sourced>);

#[derive(Debug)]
struct Inner {
    /// Without links.
    root: PathBuf,
    /// As the host named it, absolute: the model may have read that name somewhere.
    alias: PathBuf,
    fd: OwnedFd,
    specs: Specs,
}

/// Which shell files a session's commands read first.
type Files = dyn Fn(&SessionInfo) -> io::Result<Vec<PathBuf>> + Send + Sync;

#[derive(Clone)]
struct Sourced(Arc<Files>);

impl std::fmt::Debug for Sourced {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sourced")
    }
}

/// What the tools say of themselves, compiled once.
#[derive(Debug)]
pub(crate) struct Specs {
    pub(crate) bash: ToolSpec,
    pub(crate) read: ToolSpec,
    pub(crate) write: ToolSpec,
    pub(crate) edit: ToolSpec,
    pub(crate) glob: ToolSpec,
    pub(crate) grep: ToolSpec,
}

/// Why a directory cannot be a workspace.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkspaceError {
    /// It is missing, is no directory, or may not be entered.
    #[error("{} cannot be a workspace: {source}", path.display())]
    Root {
        /// The path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A tool's own description was not accepted: a defect of this build.
    #[error(transparent)]
    Spec(#[from] SpecError),
}

impl WorkspaceError {
    /// A stable code for programs and logs.
    pub fn code(&self) -> &'static str {
        match self {
            WorkspaceError::Root { .. } => "workspace_root",
            WorkspaceError::Spec(_) => "workspace_spec",
        }
    }
}

impl Workspace {
    /// Opens an existing directory as a workspace.
    ///
    /// # Errors
    /// [`WorkspaceError::Root`] if it is no directory that can be entered.
    pub fn new(root: impl AsRef<Path>) -> Result<Workspace, WorkspaceError> {
        let given = root.as_ref();
        let specs = Specs {
            bash: Bash::describe()?,
            read: Read::describe()?,
            write: Write::describe()?,
            edit: Edit::describe()?,
            glob: Glob::describe()?,
            grep: Grep::describe()?,
        };
        let open = || {
            let alias = std::path::absolute(given)?;
            let root = fs::canonicalize(given)?;
            let fd = file::open_root(&root)?;
            Ok((root, alias, fd))
        };
        let (root, alias, fd) =
            open().map_err(|source| WorkspaceError::Root { path: given.into(), source })?;
        Ok(Workspace(Arc::new(Inner { root, alias, fd, specs }), None))
    }

    /// Has `Bash` read these shell files before each command, in the command's own shell, one after another: the command finds in
    /// its environment what they export. They are asked for at each command, off the thread that holds the session; where that
    /// fails, the command does not run.
    ///
    /// Hooks that prepare a session's environment are connected so:
    /// `workspace.sourced(move |session| hooks.exports(session))`.
    pub fn sourced(
        mut self,
        files: impl Fn(&SessionInfo) -> io::Result<Vec<PathBuf>> + Send + Sync + 'static,
    ) -> Workspace {
        self.1 = Some(Sourced(Arc::new(files)));
        self
    }

    /// The files to be read before a command.
    pub(crate) fn sources(&self, session: &SessionInfo) -> io::Result<Vec<PathBuf>> {
        self.1.as_ref().map_or_else(|| Ok(Vec::new()), |sourced| (sourced.0)(session))
    }

    /// The root, absolute and without symbolic links.
    pub fn root(&self) -> &Path {
        &self.0.root
    }

    /// All tools, in the order in which a model should be shown them.
    pub fn tools(&self) -> Vec<Arc<dyn Tool>> {
        vec![
            Arc::new(Bash::new(self.clone())),
            Arc::new(Read::new(self.clone())),
            Arc::new(Write::new(self.clone())),
            Arc::new(Edit::new(self.clone())),
            Arc::new(Glob::new(self.clone())),
            Arc::new(Grep::new(self.clone())),
        ]
    }

    pub(crate) fn specs(&self) -> &Specs {
        &self.0.specs
    }

    pub(crate) fn fd(&self) -> &OwnedFd {
        &self.0.fd
    }

    /// The working directory of a call's session.
    ///
    /// # Errors
    /// [`PathError::ForeignDirectory`] if it is not inside the root; what the system says if it is gone.
    pub(crate) fn directory(&self, cwd: &Path) -> Result<PathBuf, PathError> {
        path::directory(&self.0.root, cwd)
    }

    /// The place of a path, which counts from the session's directory if it is relative.
    pub(crate) fn locate(&self, cwd: &Path, named: &str) -> Result<Target, PathError> {
        path::locate(&self.0.root, &self.0.alias, &self.directory(cwd)?, named)
    }

    /// Runs file work of a call off the arbiter's thread. A call that is dropped meanwhile does not undo it.
    pub(crate) async fn blocking<T: Send + 'static>(
        &self,
        call: &Execution,
        work: impl FnOnce(&Workspace, &Path) -> Result<T, ToolError> + Send + 'static,
    ) -> Result<T, ToolError> {
        let (workspace, session) = (self.clone(), call.scene.session.clone());
        match tokio::task::spawn_blocking(move || work(&workspace, &session.cwd)).await {
            Ok(done) => done,
            Err(error) => match error.try_into_panic() {
                // It belongs to this call; whoever contains the call reports it.
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_) => Err(ToolError::new("The runtime is shutting down; the call did not finish.")),
            },
        }
    }
}
