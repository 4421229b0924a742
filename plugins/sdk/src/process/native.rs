//! Running programs in a native build, for tests of a plugin: without a sandbox, with the rights of
//! this process, and with all changes kept.

use std::io::{Read, Write as _};
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::{Captured, Command, End, Error, Output, Repository};
use crate::Context;

/// The interval between checks whether the program has exited.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// The default timeout of a program.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(600);

#[expect(clippy::disallowed_methods, reason = "a developer's test runs a program")]
pub(super) fn run(command: &Command, context: &Context) -> Result<Output, Error> {
    let workspace = context.local_root();
    let started = Instant::now();
    let mut child = std::process::Command::new(&command.program)
        .args(&command.arguments)
        .current_dir(workspace.join(&command.directory))
        .envs(command.environment.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => {
                Error::NotFound(format!("there is no program '{}'", command.program))
            }
            _ => Error::Failed(error.to_string()),
        })?;
    let input = child.stdin.take();
    let stdin = command.stdin.clone();
    let feeding = thread::spawn(move || input.map(|mut input| input.write_all(&stdin)));
    let [stdout, stderr] = [reading(child.stdout.take()), reading(child.stderr.take())];
    let timeout = match command.timeout_ms {
        0 => DEFAULT_TIMEOUT,
        timeout => Duration::from_millis(timeout.into()),
    };
    let end = wait(&mut child, started + timeout).map_err(|e| Error::Failed(e.to_string()))?;
    // A program need not read all of its input, so a broken pipe is not an error.
    let _ = feeding.join();
    let captured = |reading: thread::JoinHandle<Vec<u8>>| {
        let bytes = reading.join().unwrap_or_default();
        Captured { total: bytes.len() as u64, bytes }
    };
    Ok(Output {
        end,
        stdout: captured(stdout),
        stderr: captured(stderr),
        duration_ms: u32::try_from(started.elapsed().as_millis()).unwrap_or(u32::MAX),
        workspace: workspace.to_string_lossy().into_owned(),
    })
}

/// The `.git` in the directory or the nearest one above; unlike the host, this confirms nothing.
pub(super) fn repository(context: &Context) -> Result<Repository, Error> {
    let root = context.local_root();
    let above = root.ancestors().find(|directory| directory.join(".git").exists());
    let Some(above) = above else {
        return Err(Error::NotFound("the workspace is not a git repository".to_owned()));
    };
    let text = |path: &std::path::Path| path.to_string_lossy().into_owned();
    let (git_dir, work_tree, outside) = if above == root {
        (".git".to_owned(), ".".to_owned(), Vec::new())
    } else {
        let git = text(&above.join(".git"));
        (git.clone(), text(above), vec![git])
    };
    let prefix = text(root.strip_prefix(above).unwrap_or(root));
    Ok(Repository { git_dir, work_tree, prefix, outside })
}

/// Without a host, nothing is discarded.
pub(super) fn keep_files(_: &[String]) -> Result<(), Error> {
    Ok(())
}

pub(super) fn cache_directory(context: &Context) -> String {
    context.local_root().join(".cofferdam/cache").to_string_lossy().into_owned()
}

fn reading(stream: Option<impl Read + Send + 'static>) -> thread::JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut stream) = stream {
            // After a read error, the bytes read so far are returned.
            let _ = stream.read_to_end(&mut bytes);
        }
        bytes
    })
}

fn wait(child: &mut Child, deadline: Instant) -> std::io::Result<End> {
    use std::os::unix::process::ExitStatusExt as _;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(match status.code() {
                Some(code) => End::Exited(code),
                None => End::Signalled(status.signal().unwrap_or_default()),
            });
        }
        if Instant::now() >= deadline {
            child.kill()?;
            child.wait()?;
            return Ok(End::TimedOut);
        }
        thread::sleep(POLL_INTERVAL);
    }
}
