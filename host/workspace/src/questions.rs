//! Questions about calls, and of plugins, that a user answers in another process: at a terminal or in the console, beside a
//! client that can't ask or whose user is not there.
//!
//! A question is a file in `.cofferdam/questions`, and its answer another one. Both are authenticated and
//! bound to the question's random name, so nothing that was written by a tool is an answer. The process
//! that asks holds a lock on its question, so that one of a process that was killed is not shown. The
//! process that answers holds a lock as well: without it, nothing is asked.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{AtFlags, FlockOperation, OFlags};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use cofferdam_core::form::{Form, FormAnswer};
use cofferdam_core::policy::CallPattern;

use crate::disk::{self, LockedFile};
use crate::layout::QUESTIONS;
use crate::own::{self, Own};
use crate::workspace::Workspace;

/// The domain of the tags, of questions and of answers.
const QUESTION: &str = "question";
const ANSWER: &str = "question-answer";

/// The file that the answering process locks.
const LISTENING: &str = "listening";

/// How the name of the file of an open console begins, and the domain of its tag. The console locks it,
/// whether it answers questions or not.
const CONSOLE: &str = "console-";
const OPEN_CONSOLE: &str = "open-console";

/// The path of the page that leads from a link to the console.
pub const LINK_PATH: &str = "/open";

/// How the name of a file begins that is not complete.
const NEW: &str = "new.";

/// How the name of an answer ends; its question's comes before.
const ANSWERED: &str = ".answer";

/// The largest question, in bytes.
const MAX_BYTES: u64 = 256 << 10;

/// How often to try to become the process that answers.
const LOCK_ATTEMPTS: usize = 20;

/// A question about a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Question {
    /// The tool's qualified name.
    pub tool: String,
    /// The session of the call.
    pub session: String,
    /// The name of the client.
    pub client: Option<String>,
    /// The role of the call.
    pub role: Option<String>,
    /// What the user is asked, with what the call would do.
    pub text: String,
    /// Whether later calls of the tool in the session can be approved as well.
    pub for_session: bool,
    /// The arguments of the call, if calls like it can be approved for a time.
    pub args: Option<Value>,
    /// Whether it is about one action of the call: then a yes for the session is for the same action.
    #[serde(default)]
    pub is_consent: bool,
    /// The form, if it is a question of a plugin: then nothing is approved by the answer.
    #[serde(default)]
    pub form: Option<AskedForm>,
}

/// The form of a question that a plugin asks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AskedForm {
    /// The name of the plugin.
    pub plugin: String,
    /// What the user is to fill in.
    pub form: Form,
}

/// The longest time for which calls are approved, in minutes.
const MAX_MINUTES: u32 = 24 * 60;

/// The answer of a user.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum QuestionAnswer {
    /// This call.
    Once,
    /// This call, and later ones of the tool in the session.
    ForSession,
    /// This call, and later ones of the tool in the session whose arguments match `pattern`.
    Like {
        /// The arguments, with `*` in strings.
        pattern: Value,
        /// For how long.
        minutes: u32,
    },
    /// No, with the reason for the agent.
    No(Option<String>),
    /// The answer to the question of a plugin.
    Form(FormAnswer),
}

impl Question {
    /// The pattern of exactly this call, if calls like it can be approved for a time.
    pub fn exact(&self) -> Option<CallPattern> {
        self.args.as_ref().and_then(CallPattern::exact)
    }

    /// A yes for so many minutes to this call and to later ones that match `pattern`.
    ///
    /// # Errors
    /// What is wrong: it is not offered, the minutes, or a pattern that this call does not match.
    pub fn like(&self, pattern: &CallPattern, minutes: &str) -> Result<QuestionAnswer, String> {
        let args = self.args.as_ref().ok_or("this call can't be approved by a pattern")?;
        let minutes = minutes.trim().parse().ok();
        let minutes = minutes
            .filter(|minutes| (1..=MAX_MINUTES).contains(minutes))
            .ok_or_else(|| format!("the time is 1 to {MAX_MINUTES} minutes"))?;
        match pattern.matches(args) {
            true => Ok(QuestionAnswer::Like { pattern: pattern.json().clone(), minutes }),
            false => Err("the pattern does not match this call".to_owned()),
        }
    }
}

/// An answer, and where the user has given it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GivenAnswer {
    /// What the user said.
    pub answer: QuestionAnswer,
    /// The program that the user has used, as [`Workspace::listen`] was told.
    pub by: String,
}

/// A question that was asked. Dropping it withdraws it.
#[derive(Debug)]
pub struct AskedQuestion {
    own: Arc<Own>,
    directory: OwnedFd,
    name: String,
    /// Locked as long as the question is open.
    #[expect(dead_code, reason = "only held")]
    file: LockedFile,
}

/// The one process that answers.
#[derive(Debug)]
pub struct Listener {
    own: Arc<Own>,
    directory: OwnedFd,
    /// What the user uses, for the record.
    by: &'static str,
    /// Locked as long as it listens.
    #[expect(dead_code, reason = "only held")]
    lock: LockedFile,
}

impl Workspace {
    /// Asks a question; `None` if no process answers.
    ///
    /// # Errors
    /// I/O errors.
    pub fn ask(&self, question: &Question) -> io::Result<Option<AskedQuestion>> {
        let Some(own) = self.existing_own()? else { return Ok(None) };
        let Some(directory) = own::existing_directory(&*own, QUESTIONS)? else { return Ok(None) };
        if !is_listening(&directory)? {
            return Ok(None);
        }
        let name = uuid::Uuid::new_v4().to_string();
        let content = sealed(&own, QUESTION, &name, question)?;
        let file =
            LockedFile::create(&directory, [&format!("{NEW}{name}"), &name], &content, false)?;
        Ok(Some(AskedQuestion { own, directory, name, file }))
    }

    /// Whether a process answers questions.
    pub fn has_listener(&self) -> bool {
        let own = self.existing_own().ok().flatten();
        let directory =
            own.and_then(|own| own::existing_directory(&*own, QUESTIONS).ok().flatten());
        directory.is_some_and(|directory| is_listening(&directory).unwrap_or(false))
    }

    /// Becomes the process that answers; `None` if another one is. `by` names the program that the user
    /// answers with, for the record.
    ///
    /// # Errors
    /// I/O errors.
    pub fn listen(&self, by: &'static str) -> io::Result<Option<Listener>> {
        let own = self.own()?;
        let directory = own::directory(&*own, QUESTIONS)?;
        match disk::create(&directory, LISTENING) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        // A process that asks holds it for a moment.
        for _ in 0..LOCK_ATTEMPTS {
            let lock = disk::open(&directory, LISTENING, OFlags::RDONLY)?;
            if let Some(lock) = LockedFile::new(lock, FlockOperation::NonBlockingLockExclusive)? {
                let listener = Listener { own, directory, by, lock };
                listener.tidy()?;
                return Ok(Some(listener));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(None)
    }
}

/// Says to other processes that a console is open, until it is dropped.
#[derive(Debug)]
pub struct OpenConsole {
    directory: OwnedFd,
    name: String,
    /// Locked as long as the console is open.
    #[expect(dead_code, reason = "only held")]
    file: LockedFile,
}

impl Drop for OpenConsole {
    fn drop(&mut self) {
        withdraw(&self.directory, &self.name);
    }
}

impl Workspace {
    /// Says to other processes that a console is open for this workspace, at a port of 127.0.0.1.
    ///
    /// # Errors
    /// I/O errors.
    pub fn open_console(&self, port: u16) -> io::Result<OpenConsole> {
        let own = self.own()?;
        let directory = own::directory(&*own, QUESTIONS)?;
        for (name, is_open) in consoles(&directory)? {
            if !is_open {
                withdraw(&directory, &name);
            }
        }
        let name = format!("{CONSOLE}{}", uuid::Uuid::new_v4());
        let content = sealed(&own, OPEN_CONSOLE, &name, &port)?;
        let file =
            LockedFile::create(&directory, [&format!("{NEW}{name}"), &name], &content, false)?;
        Ok(OpenConsole { directory, name, file })
    }

    /// Returns the address at which an open console shows a proposal; `None` if no console is open. It has
    /// no secret: a browser that has not opened the console is not let in. What can't be read is as if there
    /// were no console.
    pub fn console_link(&self, proposal: &str) -> Option<String> {
        let own = self.existing_own().ok().flatten()?;
        let directory = own::existing_directory(&*own, QUESTIONS).ok().flatten()?;
        let open = consoles(&directory).ok()?.into_iter().filter(|(_, is_open)| *is_open);
        let port = |(name, _): (String, bool)| -> Option<u16> {
            unsealed(&own, &directory, OPEN_CONSOLE, &name, "").ok().flatten()
        };
        let port = { open }.find_map(port)?;
        Some(format!("http://127.0.0.1:{port}{LINK_PATH}?proposal={proposal}"))
    }
}

/// The files of consoles, and whether each is still open.
fn consoles(directory: &OwnedFd) -> io::Result<Vec<(String, bool)>> {
    let mut consoles = Vec::new();
    for entry in disk::entries(directory)? {
        let Ok(name) = entry?.name.into_string() else { continue };
        if name.starts_with(CONSOLE)
            && let Ok(file) = disk::open(directory, &name, OFlags::RDONLY)
        {
            let is_free = disk::try_lock(&file, FlockOperation::NonBlockingLockShared)?;
            consoles.push((name, !is_free));
        }
    }
    Ok(consoles)
}

impl AskedQuestion {
    /// Returns the answer, if there is one already.
    ///
    /// # Errors
    /// I/O errors; an answer that no process of this user wrote; or no process answers any more.
    pub fn answer(&self) -> io::Result<Option<GivenAnswer>> {
        let answer = unsealed(&self.own, &self.directory, ANSWER, &self.name, ANSWERED)?;
        if answer.is_none() && !is_listening(&self.directory)? {
            return Err(io::Error::other("nobody answers any more"));
        }
        Ok(answer)
    }
}

impl Drop for AskedQuestion {
    fn drop(&mut self) {
        withdraw(&self.directory, &self.name);
    }
}

impl Listener {
    /// Removes what killed processes have left.
    fn tidy(&self) -> io::Result<()> {
        for entry in disk::entries(&self.directory)? {
            let name = entry?.name;
            if let Some(name) = name.to_str().filter(|name| name.starts_with(NEW)) {
                disk::remove_all(&self.directory, name)?;
            }
        }
        Ok(())
    }

    /// Returns the open questions with their names.
    ///
    /// # Errors
    /// I/O errors.
    pub fn questions(&self) -> io::Result<Vec<(String, Question)>> {
        let mut questions = Vec::new();
        for entry in disk::entries(&self.directory)? {
            let Ok(name) = entry?.name.into_string() else { continue };
            if name.parse::<uuid::Uuid>().is_err() || self.is_answered(&name)? {
                continue;
            }
            match self.question(&name) {
                Ok(Some(question)) => questions.push((name, question)),
                Ok(None) => withdraw(&self.directory, &name),
                Err(error) => tracing::warn!("a question is not shown: {error}"),
            }
        }
        Ok(questions)
    }

    /// Answers a question. Returns whether it was still open.
    ///
    /// # Errors
    /// I/O errors.
    pub fn answer(&self, name: &str, answer: &QuestionAnswer) -> io::Result<bool> {
        if self.question(name)?.is_none() {
            return Ok(false);
        }
        let answer = GivenAnswer { answer: answer.clone(), by: self.by.to_owned() };
        let new = format!("{NEW}{name}{ANSWERED}");
        let mut file = disk::create(&self.directory, &new)?;
        file.write_all(&sealed(&self.own, ANSWER, name, &answer)?)?;
        disk::rename(&self.directory, &new, &self.directory, format!("{name}{ANSWERED}"))?;
        Ok(true)
    }

    fn is_answered(&self, name: &str) -> io::Result<bool> {
        Ok(disk::look(&self.directory, &format!("{name}{ANSWERED}"))?.is_some())
    }

    /// `None` if the process that asked has ended or has withdrawn the question.
    fn question(&self, name: &str) -> io::Result<Option<Question>> {
        let file = match disk::open(&self.directory, name, OFlags::RDONLY) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        if disk::try_lock(&file, FlockOperation::NonBlockingLockShared)? {
            return Ok(None);
        }
        unsealed(&self.own, &self.directory, QUESTION, name, "")
    }
}

/// Whether a process answers.
fn is_listening(directory: &OwnedFd) -> io::Result<bool> {
    match disk::open(directory, LISTENING, OFlags::RDONLY) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        lock => Ok(!disk::try_lock(&lock?, FlockOperation::NonBlockingLockShared)?),
    }
}

/// Removes a question and its answer.
fn withdraw(directory: &OwnedFd, name: &str) {
    for file in [name, &format!("{name}{ANSWERED}")] {
        match disk::remove(directory, file, AtFlags::empty()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!("the question {file} was not removed: {error}");
            }
            _ => {}
        }
    }
}

fn sealed(own: &Own, domain: &str, name: &str, content: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut sealed = serde_json::to_vec(content)?;
    own.key().append(domain, name, &mut sealed);
    match sealed.len() as u64 > MAX_BYTES {
        true => Err(io::Error::other("the question is too large")),
        false => Ok(sealed),
    }
}

/// Reads the file of a question, or of its answer; `None` if there is none.
fn unsealed<T: DeserializeOwned>(
    own: &Own,
    directory: &OwnedFd,
    domain: &str,
    name: &str,
    end: &str,
) -> io::Result<Option<T>> {
    let file: File = match disk::open(directory, &format!("{name}{end}"), OFlags::RDONLY) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?.into(),
    };
    let content = own.content(file, (domain, name), MAX_BYTES)?;
    let content = content.ok_or_else(|| io::Error::other("no process of this user wrote it"))?;
    Ok(Some(serde_json::from_slice(&content)?))
}
