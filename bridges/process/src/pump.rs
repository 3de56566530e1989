//! The three pipes of a child, served at the same time by one future.

use crate::finished::Captured;
use crate::spec::{ChunkSink, Spawn, Stream};
use std::io;
use std::os::fd::OwnedFd;
use std::process::Child;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe::{Receiver, Sender};

/// A quarter of a pipe's usual capacity: few system calls, and little memory for each of many children.
const CHUNK: usize = 16 * 1024;

/// What one step did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// stdout or stderr gave bytes or ended.
    Output,
    /// stdin took bytes or was closed.
    Input,
}

/// The pipes. Dropping it closes them.
pub(crate) struct Pump {
    stdin: Feed,
    stdout: Drain,
    stderr: Drain,
    sink: Option<ChunkSink>,
}

impl Pump {
    /// Takes the pipes of `child`. Needs a runtime with I/O.
    pub(crate) fn new(child: &mut Child, spec: &Spawn) -> io::Result<Self> {
        let stdin = match (child.stdin.take(), &spec.stdin) {
            (Some(pipe), Some(bytes)) => Feed {
                pipe: Some(Sender::from_owned_fd(OwnedFd::from(pipe))?),
                bytes: Arc::clone(bytes),
                written: 0,
            },
            _ => Feed { pipe: None, bytes: Arc::from([]), written: 0 },
        };
        let stdout = child.stdout.take().map(OwnedFd::from);
        let stderr = child.stderr.take().map(OwnedFd::from);
        Ok(Self {
            stdin,
            stdout: Drain::new(stdout, spec.stdout_cap)?,
            stderr: Drain::new(stderr, spec.stderr_cap)?,
            sink: spec.on_chunk.clone(),
        })
    }

    /// Whether nobody can write to stdout and stderr any more, and all they wrote is here.
    pub(crate) fn is_eof(&self) -> bool {
        self.stdout.pipe.is_none() && self.stderr.pipe.is_none()
    }

    /// Moves some bytes in one direction. Pending for ever when all three pipes are done. Dropping the future loses
    /// nothing: each branch is a single read or write.
    pub(crate) async fn step(&mut self) -> Step {
        let sink = self.sink.as_ref();
        tokio::select! {
            () = self.stdout.step(Stream::Stdout, sink), if self.stdout.pipe.is_some() => Step::Output,
            () = self.stderr.step(Stream::Stderr, sink), if self.stderr.pipe.is_some() => Step::Output,
            () = self.stdin.step(), if self.stdin.pipe.is_some() => Step::Input,
            else => std::future::pending().await,
        }
    }

    /// Serves the pipes until `until` completes. `until` is asked first, so that a flood cannot hold it up.
    pub(crate) async fn serve<F: Future + Send>(&mut self, until: F) -> F::Output {
        let mut until = std::pin::pin!(until);
        loop {
            tokio::select! {
                biased;
                out = &mut until => return out,
                _ = self.step() => {}
            }
        }
    }

    /// Closes all three. What was read stays.
    pub(crate) fn close(&mut self) {
        self.stdin.pipe = None;
        self.stdout.pipe = None;
        self.stderr.pipe = None;
    }

    /// What was read.
    pub(crate) fn into_captured(self) -> (Captured, Captured) {
        (self.stdout.captured, self.stderr.captured)
    }
}

/// stdin.
struct Feed {
    pipe: Option<Sender>,
    bytes: Arc<[u8]>,
    written: usize,
}

impl Feed {
    async fn step(&mut self) {
        let Some(pipe) = &mut self.pipe else { return };
        match pipe.write(&self.bytes[self.written..]).await {
            Ok(taken) if taken > 0 => self.written += taken,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return,
            // Nobody reads it (EPIPE), or nothing is left to write: both only mean that stdin is over.
            Ok(_) | Err(_) => self.written = self.bytes.len(),
        }
        if self.written >= self.bytes.len() {
            self.pipe = None;
        }
    }
}

/// stdout or stderr.
struct Drain {
    pipe: Option<Receiver>,
    chunk: Box<[u8]>,
    cap: usize,
    captured: Captured,
}

impl Drain {
    fn new(pipe: Option<OwnedFd>, cap: usize) -> io::Result<Self> {
        Ok(Self {
            pipe: pipe.map(Receiver::from_owned_fd).transpose()?,
            chunk: vec![0; CHUNK].into_boxed_slice(),
            cap,
            captured: Captured::default(),
        })
    }

    async fn step(&mut self, stream: Stream, sink: Option<&ChunkSink>) {
        let Some(pipe) = &mut self.pipe else { return };
        match pipe.read(&mut self.chunk).await {
            Ok(count) if count > 0 => {
                let kept = count.min(self.cap.saturating_sub(self.captured.bytes.len()));
                self.captured.bytes.extend_from_slice(&self.chunk[..kept]);
                self.captured.total += count as u64;
                if let Some(sink) = sink.filter(|_| kept > 0) {
                    sink(stream, &self.chunk[..kept]);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // A pipe that cannot be read any more has ended for us.
            Ok(_) | Err(_) => self.pipe = None,
        }
    }
}
