//! The threads that calls run on. A call that hangs inside the host costs one of them, which
//! is replaced, and nothing else. Calls that take long give way to other clients' calls: those get
//! more threads, and the long ones go on with less of the processor.

use std::io;
use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::Prepared;
use super::engine::THREAD_STACK;
use super::instance::{Answer, CallRequest, Stop, call};
use super::queue::Queue;
use cofferdam_core::outcome::LimitCode;
use cofferdam_workspace::fair_queue::Client;

/// How long a call may stay away after its deadline before its thread is given up.
const GRACE: Duration = Duration::from_millis(500);

/// How long whoever waits for the only call that is under way stays awake: many calls take less
/// than waking a thread.
const SPIN: Duration = Duration::from_micros(100);

/// How often it looks for the answer before other tasks have their turn: each turn costs several
/// looks.
const LOOKS: usize = 8;

/// How long a call waits for a thread before those that take long give way to it.
const TURN: Duration = Duration::from_millis(20);

/// When a call takes long.
const LONG: Duration = Duration::from_millis(10);

/// How many threads there may be besides one for each call of a client that is alone: for those
/// calls that take long.
pub(super) const MORE: usize = 32;

struct Job {
    prepared: Arc<Prepared>,
    request: CallRequest,
    answer: oneshot::Sender<Answer>,
}

/// Threads that run calls. As many calls of one client run at a time as there are threads while
/// nothing takes long.
pub struct Workers {
    pool: Arc<Pool>,
    /// How many calls are under way or wait.
    pending: AtomicUsize,
}

/// What the threads have in common.
struct Pool {
    queue: Queue<Job>,
    count: usize,
    timers: Handle,
    threads: Mutex<Threads>,
}

/// The threads that there are, but for those that were given up.
#[derive(Default)]
struct Threads {
    number: usize,
    busy: Vec<Busy>,
}

impl Threads {
    /// How many are not held up by a call that takes long.
    fn quick(&self) -> usize {
        self.number - self.busy.iter().filter(|busy| busy.is_slow).count()
    }
}

/// A thread that runs a call.
struct Busy {
    thread: priority::Thread,
    since: Instant,
    /// Whether it has given way.
    is_slow: bool,
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
        let pool = Pool { queue: Queue::new(count), count, timers, threads: Mutex::default() };
        let workers = Self { pool: Arc::new(pool), pending: AtomicUsize::new(0) };
        (0..count).try_for_each(|_| workers.pool.spawn())?;
        Ok(workers)
    }

    /// How many calls of one client run at a time.
    pub fn count(&self) -> usize {
        self.pool.count
    }

    /// Runs one call; dropping the future cancels it.
    ///
    /// # Errors
    /// See [`Stop`].
    pub async fn run(&self, prepared: Arc<Prepared>, request: CallRequest) -> Answer {
        let (answer, mut answered) = oneshot::channel();
        let control = Arc::clone(&request.surroundings.control);
        let client = request.client;
        let _cancel = CancelOnDrop(Arc::clone(&control));
        let pending = Pending::new(&self.pending);
        self.pool.queue.add(client, Job { prepared, request, answer });
        if pending.is_alone()
            && let Some(answer) = soon(&mut answered).await
        {
            return answer;
        }
        let latest = tokio::time::Instant::from_std(control.deadline()) + GRACE;
        let mut turn = TURN;
        while control.waits() && tokio::time::Instant::now() + turn < latest {
            match tokio::time::timeout(turn, &mut answered).await {
                Ok(answer) => return answer.unwrap_or_else(|_| failed()),
                Err(_) if control.waits() => self.pool.make_way(client),
                Err(_) => {}
            }
            turn = (turn * 2).min(GRACE);
        }
        match tokio::time::timeout_at(latest, answered).await {
            Ok(answer) => answer.unwrap_or_else(|_| failed()),
            // Its thread is not stuck: it never had one.
            Err(_) if control.withdraw() => Err(Stop::Limit(LimitCode::WallClockLimit)),
            Err(_) => {
                if control.give_up() {
                    self.pool.replace(client);
                }
                Err(Stop::Limit(LimitCode::WallClockLimit))
            }
        }
    }
}

impl Pool {
    fn spawn(self: &Arc<Self>) -> io::Result<()> {
        self.threads().number += 1;
        let pool = Arc::clone(self);
        let thread = thread::Builder::new().name("cofferdam-call".to_owned());
        let spawned = thread.stack_size(THREAD_STACK).spawn(move || {
            let _timers = pool.timers.enter();
            pool.work();
        });
        spawned.map(drop).inspect_err(|_| self.threads().number -= 1)
    }

    /// Runs calls, one after the other, as long as its thread is needed.
    fn work(self: &Arc<Self>) {
        let thread = priority::this_thread();
        while let Some((client, job)) = self.queue.next() {
            let mut turn = Turn::begin(self, client, thread);
            let control = &job.request.surroundings.control;
            if !control.begin() {
                continue;
            }
            let (answer, remains) = call(&job.prepared, &job.request);
            if !control.end() {
                turn.was_given_up = true;
                return;
            }
            // Whoever asked may have gone away.
            let _ = job.answer.send(answer);
            drop(remains);
            if !turn.end() {
                return;
            }
        }
        self.threads().number -= 1;
    }

    /// A call of a client waits longer than it should: those that take long give way, and it gets
    /// one more thread, if there may be one.
    fn make_way(self: &Arc<Self>, client: Client) {
        if !self.queue.has_turn(client) {
            return;
        }
        let mut threads = self.threads();
        let is_long = |busy: &&mut Busy| !busy.is_slow && busy.since.elapsed() >= LONG;
        for busy in threads.busy.iter_mut().filter(is_long) {
            busy.is_slow = true;
            priority::lower(busy.thread);
        }
        let is_short = threads.busy.len() >= threads.number && threads.number < self.count + MORE;
        drop(threads);
        if is_short {
            // Without it, the call has its turn later.
            let _ = self.spawn();
        }
    }

    /// The thread of a client's call is lost, and another one takes its place.
    fn replace(self: &Arc<Self>, client: Client) {
        self.threads().number -= 1;
        self.queue.done(client);
        // Without a replacement, the remaining threads carry on.
        let _ = self.spawn();
    }

    fn threads(&self) -> MutexGuard<'_, Threads> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A client's turn on a thread.
struct Turn<'a> {
    pool: &'a Arc<Pool>,
    client: Client,
    thread: priority::Thread,
    /// Whether it was over before its call was, with the thread.
    was_given_up: bool,
}

impl<'a> Turn<'a> {
    fn begin(pool: &'a Arc<Pool>, client: Client, thread: priority::Thread) -> Self {
        let busy = Busy { thread, since: Instant::now(), is_slow: false };
        pool.threads().busy.push(busy);
        Self { pool, client, thread, was_given_up: false }
    }

    /// Ends it. Says whether its thread goes on.
    fn end(self) -> bool {
        let pool = self.pool;
        let mut threads = pool.threads();
        // A priority can't be raised again.
        let is_slow = threads.busy.iter().any(|busy| busy.thread == self.thread && busy.is_slow);
        let goes_on = !is_slow && (threads.quick() <= pool.count || !pool.queue.is_empty());
        if !goes_on {
            threads.number -= 1;
            threads.busy.retain(|busy| busy.thread != self.thread);
        }
        let is_replaced = threads.quick() < pool.count && threads.number < pool.count + MORE;
        drop(threads);
        drop(self);
        if is_replaced {
            // Without a replacement, the remaining threads carry on.
            let _ = pool.spawn();
        }
        goes_on
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.pool.threads().busy.retain(|busy| busy.thread != self.thread);
        if self.was_given_up {
            return;
        }
        if thread::panicking() {
            self.pool.replace(self.client);
        } else {
            self.pool.queue.done(self.client);
        }
    }
}

/// How much of the processor a thread gets beside others.
mod priority {
    #[cfg(target_os = "linux")]
    pub(super) type Thread = rustix::process::Pid;
    #[cfg(not(target_os = "linux"))]
    pub(super) type Thread = std::thread::ThreadId;

    /// A tenth of what others get: enough to end in time beside other programs of the machine.
    #[cfg(target_os = "linux")]
    const LOW: i32 = 10;

    pub(super) fn this_thread() -> Thread {
        #[cfg(target_os = "linux")]
        return rustix::thread::gettid();
        #[cfg(not(target_os = "linux"))]
        std::thread::current().id()
    }

    /// Other threads go first from now on. Without that, it only takes more of their time.
    pub(super) fn lower(thread: Thread) {
        #[cfg(target_os = "linux")]
        let _ = rustix::process::setpriority_process(Some(thread), LOW);
        #[cfg(not(target_os = "linux"))]
        let _ = thread;
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.pool.queue.close();
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

/// A call whose thread has ended with it.
fn failed() -> Answer {
    Err(Stop::Trap("the host failed in one of its own functions".to_owned()))
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
pub async fn blocking<T: Send + 'static, E: Send + 'static>(
    work: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> Result<T, E> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}
