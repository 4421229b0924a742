//! Lets a run reach the ports of its session's programs: in the network namespace of the run, the host
//! listens on the same ports, and passes each connection on to the program, in whose namespace it opens
//! the other end. No socket of the host's own network takes part.

use std::collections::HashMap;
use std::io;
use std::net::TcpListener;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use cofferdam_sandbox::Loopback;
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinHandle;

use super::{Background, Program};

/// How often programs are asked for their ports.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);

/// How many connections of a run are passed on at a time; others wait.
const MAX_CONNECTIONS: usize = 128;

/// The way from one run to the ports of its session's programs. Dropping it closes all connections.
pub(crate) struct Reach {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

/// The run from which connections come.
pub(crate) enum Source {
    /// The run of a call.
    Call(Loopback),
    /// Another program of the session.
    Program(Arc<Program>),
}

impl Source {
    fn loopback(&self) -> Option<&Loopback> {
        match self {
            Self::Call(loopback) => Some(loopback),
            Self::Program(program) => program.loopback(),
        }
    }

    fn is(&self, program: &Program) -> bool {
        matches!(self, Self::Program(own) if std::ptr::eq(&raw const **own, program))
    }
}

impl Reach {
    /// Opens the ports of the session's programs in a run, starts its program, and follows the programs
    /// on a thread of its own.
    ///
    /// # Errors
    /// Returns an error if the run has ended, or there are no more threads or descriptors.
    pub(crate) fn start(from: Source, session: &Arc<Background>) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let mut ports = Ports {
            from,
            session: Arc::downgrade(session),
            open: HashMap::new(),
            places: Arc::new(Semaphore::new(MAX_CONNECTIONS)),
        };
        let (stop, stopped) = oneshot::channel();
        {
            let _entered = runtime.enter();
            ports.look();
        }
        if let Some(loopback) = ports.from.loopback() {
            loopback.start_program()?;
        }
        let follow = async move {
            loop {
                tokio::time::sleep(LOOK_INTERVAL).await;
                if !ports.look() {
                    return;
                }
            }
        };
        let thread =
            thread::Builder::new().name("cofferdam-ports".to_owned()).spawn(move || {
                runtime.block_on(async {
                    tokio::select! {
                        () = follow => {}
                        _ = stopped => {}
                    }
                });
                runtime.shutdown_background();
            })?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Reach {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The ports that are open in a run.
struct Ports {
    from: Source,
    session: Weak<Background>,
    /// The program that each leads to, and the task that takes its connections.
    open: HashMap<u16, (Arc<Program>, JoinHandle<io::Result<()>>)>,
    places: Arc<Semaphore>,
}

impl Ports {
    /// Opens the ports on which programs listen by now, and closes the others. Returns whether the
    /// session goes on.
    fn look(&mut self) -> bool {
        let Some(session) = self.session.upgrade() else { return false };
        let programs = session.programs();
        drop(session);
        let Some(loopback) = self.from.loopback() else { return false };
        let mut listening: HashMap<u16, Arc<Program>> = HashMap::new();
        for program in programs.iter().filter(|program| !self.from.is(program)) {
            for port in program.ports() {
                listening.entry(port).or_insert_with(|| Arc::clone(program));
            }
        }
        self.open.retain(|port, (program, task)| {
            let stays = listening.get(port).is_some_and(|now| Arc::ptr_eq(now, program));
            if !stays {
                task.abort();
            }
            stays
        });
        for (port, program) in listening {
            if self.open.contains_key(&port) {
                continue;
            }
            // A program of the run may listen on the port itself.
            let Ok(listener) = loopback.listen(port) else { continue };
            let places = Arc::clone(&self.places);
            let task = tokio::spawn(pass_on(listener, Arc::clone(&program), port, places));
            self.open.insert(port, (program, task));
        }
        true
    }
}

/// Passes the connections of a listener on to a port of a program.
async fn pass_on(
    listener: TcpListener,
    program: Arc<Program>,
    port: u16,
    places: Arc<Semaphore>,
) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let listener = tokio::net::TcpListener::from_std(listener)?;
    loop {
        let Ok((mut near, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        // A port without connections takes no place.
        let place = Arc::clone(&places).acquire_owned().await.map_err(io::Error::other)?;
        let program = Arc::clone(&program);
        tokio::spawn(async move {
            let _place = place;
            let Ok(mut far) = connected(&program, port).await else { return };
            let _ = (near.set_nodelay(true), far.set_nodelay(true));
            // Both sides see the end.
            let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
        });
    }
}

/// Connects to a port of a program, in its network namespace.
async fn connected(program: &Program, port: u16) -> io::Result<TcpStream> {
    let mut last = io::ErrorKind::NotConnected.into();
    for address in Loopback::ADDRESSES {
        let Some(loopback) = program.loopback() else { break };
        let connecting = loopback.connect(port, address).and_then(TcpStream::from_std);
        let connecting = match connecting {
            Ok(connecting) => connecting,
            Err(error) => {
                last = error;
                continue;
            }
        };
        connecting.writable().await?;
        match connecting.take_error()? {
            None => return Ok(connecting),
            Some(error) => last = error,
        }
    }
    Err(last)
}
