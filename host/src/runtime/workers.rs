//! The threads that calls run on. A call that hangs inside the host costs one of them, which
//! is replaced, and nothing else.

use std::io;
use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::Prepared;
use super::engine::THREAD_STACK;
use super::instance::{Answer, CallRequest, Stop, call};
use super::queue::Queue;

/// How long a call may stay away after its deadline before its thread is given up.
const GRACE: Duration = Duration::from_millis(500);

/// How long whoever waits for the only call that is under way stays awake: many calls take less
/// than waking a thread.
const SPIN: Duration = Duration::from_micros(100);

/// How often it looks for the answer before other tasks have their turn: each turn costs several
/// looks.
const LOOKS: usize = 8;

struct Job {
    prepared: Arc<Prepared>,
    request: CallRequest,
    answer: oneshot::Sender<Answer>,
}

/// A fixed number of threads that run calls, oldest first.
pub struct Workers {
    queue: Arc<Queue<Job>>,
    count: usize,
    timers: Handle,
    /// How many calls are under way or wait.
    pending: AtomicUsize,
}

impl Workers {
    /// One thread for each core that this process may use.
    pub fn default_count() -> usize {
        thread::available_parallelism().map_or(1, NonZero::get)
    }

    /// Starts `count` threads. `timers` is where plugins' sleeps are waited for.
    ///
    /// # Errors
    /// A system that gives no more threads.
    pub fn new(count: usize, timers: Handle) -> io::Result<Self> {
        let workers = Self { queue: Arc::default(), count, timers, pending: AtomicUsize::new(0) };
        (0..count).try_for_each(|_| workers.spawn())?;
        Ok(workers)
    }

    /// How many calls run at a time.
    pub fn count(&self) -> usize {
        self.count
    }

    fn spawn(&self) -> io::Result<()> {
        let (queue, timers) = (Arc::clone(&self.queue), self.timers.clone());
        thread::Builder::new().name("cofferdam-call".to_owned()).stack_size(THREAD_STACK).spawn(
            move || {
                let _timers = timers.enter();
                while let Some(job) = queue.next() {
                    if !job.request.surroundings.control.begin() {
                        continue;
                    }
                    let (answer, remains) = call(&job.prepared, &job.request);
                    if job.request.surroundings.control.was_given_up() {
                        // This thread was replaced meanwhile.
                        break;
                    }
                    // Whoever asked may have gone away.
                    let _ = job.answer.send(answer);
                    drop(remains);
                }
            },
        )?;
        Ok(())
    }

    /// Runs one call; dropping the future cancels it.
    ///
    /// # Errors
    /// See [`Stop`].
    pub async fn run(&self, prepared: Arc<Prepared>, request: CallRequest) -> Answer {
        let (answer, mut answered) = oneshot::channel();
        let control = Arc::clone(&request.surroundings.control);
        let _cancel = CancelOnDrop(Arc::clone(&control));
        let pending = Pending::new(&self.pending);
        self.queue.add(Job { prepared, request, answer });
        if pending.is_alone()
            && let Some(answer) = soon(&mut answered).await
        {
            return answer;
        }
        let latest = tokio::time::Instant::from_std(control.deadline()) + GRACE;
        match tokio::time::timeout_at(latest, answered).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => {
                let _ = self.spawn();
                Err(Stop::Trap("the host failed in one of its own functions".to_owned()))
            }
            // Its thread is not stuck: it never had one.
            Err(_) if control.withdraw() => Err(Stop::Limit("WallClockLimit")),
            Err(_) => {
                control.give_up();
                // Without a replacement, the remaining threads carry on.
                let _ = self.spawn();
                Err(Stop::Limit("WallClockLimit"))
            }
        }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.queue.close();
    }
}

/// The answer, if it comes within [`SPIN`]. Other tasks of the runtime go on meanwhile.
async fn soon(answered: &mut oneshot::Receiver<Answer>) -> Option<Answer> {
    let started = Instant::now();
    while started.elapsed() < SPIN {
        for _ in 0..LOOKS {
            if let Ok(answer) = answered.try_recv() {
                return Some(answer);
            }
            // The call's thread may have been given this very core.
            thread::yield_now();
        }
        tokio::task::yield_now().await;
    }
    None
}

/// One of the calls that [`Workers::run`] waits for.
struct Pending<'a>(&'a AtomicUsize);

impl<'a> Pending<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }

    fn is_alone(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 1
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Cancels a call whose caller went away.
struct CancelOnDrop(Arc<super::Control>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// Does what may take a while, on a thread of its own, so that others go on meanwhile.
pub(crate) async fn blocking<T: Send + 'static, E: Send + 'static>(
    work: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> Result<T, E> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}
