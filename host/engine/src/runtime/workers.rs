//! The threads that calls run on. A thread whose call hangs inside the host is replaced. If other
//! clients' calls wait, they get more threads, and calls that take long continue at a lower
//! priority.

use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::engine::{CALL_STACK, MAX_EXTRA_THREADS, MAX_EXTRA_THREADS_OF_ADDRESS};
use super::instance::{Answer, CallRequest, call};
use super::prepared::Prepared;
use super::queue::{MaxRunning, Queue};
use crate::call::{Control, Stop};
use crate::capability::cores;
use cofferdam_core::outcome::LimitCode;
use cofferdam_workspace::fair_queue::Client;

/// How long after its deadline a call may run before its thread is abandoned.
const GRACE: Duration = Duration::from_millis(500);

/// How long to poll for the result of the only running call before sleeping: many calls take less
/// time than waking a thread.
const SPIN: Duration = Duration::from_micros(100);

/// How often to poll before yielding to other tasks, which costs as much as many polls: everything that
/// waits for the call is polled, too. It takes some 50 us, in which most calls end.
const POLLS_PER_YIELD: usize = 128;

/// How long a call waits for a thread before long calls give way to it.
const MAX_WAIT: Duration = Duration::from_millis(20);

/// The time from which on a call is long.
const LONG_CALL: Duration = Duration::from_millis(10);

enum Job {
    Call {
        prepared: Arc<Prepared>,
        request: CallRequest,
        answer: oneshot::Sender<Answer>,
    },
    /// Other work; it does not panic.
    Other(Box<dyn FnOnce() + Send>),
}

/// Threads that run calls. One client's calls run on at most [`Workers::count`] threads at a time,
/// those of one address on at most [`MAX_EXTRA_THREADS_OF_ADDRESS`] more.
pub struct Workers {
    pool: Arc<Pool>,
    /// How many calls are running or waiting.
    pending: AtomicUsize,
}

/// The state that the threads share.
struct Pool {
    queue: Queue<Job>,
    count: usize,
    timers: Handle,
    threads: Mutex<Threads>,
}

/// The threads, without those that were abandoned.
#[derive(Default)]
struct Threads {
    number: usize,
    busy: Vec<Busy>,
}

impl Threads {
    /// How many threads do not run a long call.
    fn quick(&self) -> usize {
        self.number - self.busy.iter().filter(|busy| busy.is_slow).count()
    }
}

/// A thread that runs a call.
struct Busy {
    thread: priority::Thread,
    since: Instant,
    /// Whether its priority was lowered.
    is_slow: bool,
}

impl Workers {
    /// One thread for each core that this process may use.
    pub fn default_count() -> usize {
        cores()
    }

    /// Starts `count` threads. Plugins' sleeps use the timers of `timers`.
    ///
    /// # Errors
    /// The system refuses to start a thread.
    pub fn new(count: usize, timers: Handle) -> io::Result<Self> {
        let of_address = count + MAX_EXTRA_THREADS_OF_ADDRESS;
        let queue = Queue::new(MaxRunning { of_client: count, of_address });
        let pool = Pool { queue, count, timers, threads: Mutex::default() };
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
        let control = Arc::clone(&request.context.control);
        let client = request.client;
        let _cancel = CancelOnDrop(Arc::clone(&control));
        let pending = Pending::new(&self.pending);
        self.pool.queue.add(client, Job::Call { prepared, request, answer });
        if pending.is_alone()
            && let Some(answer) = soon(&mut answered).await
        {
            return answer;
        }
        let latest = tokio::time::Instant::from_std(control.deadline()) + GRACE;
        let mut turn = MAX_WAIT;
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
            // No thread had taken it.
            Err(_) if control.withdraw() => Err(Stop::Limit(LimitCode::WallClockLimit)),
            Err(_) => {
                if control.give_up() {
                    self.pool.replace(client);
                }
                Err(Stop::Limit(LimitCode::WallClockLimit))
            }
        }
    }

    /// Runs blocking work that is brief as a rule: on the thread of a call that has just ended, if one
    /// polls for the next call, since waking another thread can take longer than the work.
    pub async fn brief<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        let (answer, mut answered) = oneshot::channel();
        let job = move || {
            let done = panic::catch_unwind(AssertUnwindSafe(work));
            // The caller may have dropped its future.
            let _ = answer.send(done);
        };
        let handed = self.pool.queue.hand(Client::default(), Job::Other(Box::new(job)));
        let is_handed = handed.is_ok();
        if let Err(Job::Other(job)) = handed {
            tokio::task::spawn_blocking(job);
        }
        let early = if is_handed { soon(&mut answered).await } else { None };
        let done = match early {
            Some(done) => Ok(done),
            None => answered.await,
        };
        done.unwrap_or_else(|_| Err(Box::new("the work was never begun")))
            .unwrap_or_else(|panic| panic::resume_unwind(panic))
    }
}

impl Pool {
    fn spawn(self: &Arc<Self>) -> io::Result<()> {
        self.threads().number += 1;
        let pool = Arc::clone(self);
        let thread = thread::Builder::new().name("cofferdam-call".to_owned());
        let spawned = thread.stack_size(CALL_STACK).spawn(move || {
            let _timers = pool.timers.enter();
            pool.work();
        });
        spawned.map(drop).inspect_err(|_| self.threads().number -= 1)
    }

    /// Runs calls, one after the other, until its thread is not needed any more.
    fn work(self: &Arc<Self>) {
        let thread = priority::this_thread();
        while let Some((client, job)) = self.queue.next() {
            let mut turn = Turn::begin(self, client, thread);
            match job {
                Job::Other(work) => work(),
                Job::Call { prepared, request, answer } => {
                    let control = &request.context.control;
                    if !control.begin() {
                        continue;
                    }
                    request.context.observer.started();
                    let (answered, spent) = call(&prepared, &request);
                    if !control.end() {
                        turn.was_given_up = true;
                        return;
                    }
                    // The caller may have dropped its future.
                    let _ = answer.send(answered);
                    drop(spent);
                }
            }
            if !turn.end() {
                return;
            }
        }
        self.threads().number -= 1;
    }

    /// Lowers the priority of long calls, and starts one more thread if there may be one, since a
    /// call of a client waits for too long.
    fn make_way(self: &Arc<Self>, client: Client) {
        if !self.queue.has_turn(client) {
            return;
        }
        let mut threads = self.threads();
        let is_long = |busy: &&mut Busy| !busy.is_slow && busy.since.elapsed() >= LONG_CALL;
        for busy in threads.busy.iter_mut().filter(is_long) {
            busy.is_slow = true;
            priority::lower(busy.thread);
        }
        let is_short =
            threads.busy.len() >= threads.number && threads.number < self.count + MAX_EXTRA_THREADS;
        drop(threads);
        if is_short {
            // Without it, the call runs later.
            let _ = self.spawn();
        }
    }

    /// Starts a thread in place of one that was lost with a client's call.
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

/// The time for which a client's call occupies a thread.
struct Turn<'a> {
    pool: &'a Arc<Pool>,
    client: Client,
    thread: priority::Thread,
    /// Whether the thread was abandoned before the call ended.
    was_given_up: bool,
}

impl<'a> Turn<'a> {
    fn begin(pool: &'a Arc<Pool>, client: Client, thread: priority::Thread) -> Self {
        let busy = Busy { thread, since: Instant::now(), is_slow: false };
        pool.threads().busy.push(busy);
        Self { pool, client, thread, was_given_up: false }
    }

    /// Ends it. Returns whether the thread continues.
    fn end(self) -> bool {
        let pool = self.pool;
        let mut threads = pool.threads();
        // An unprivileged process can't raise a priority again.
        let is_slow = threads.busy.iter().any(|busy| busy.thread == self.thread && busy.is_slow);
        let goes_on = !is_slow && (threads.quick() <= pool.count || !pool.queue.is_empty());
        if !goes_on {
            threads.number -= 1;
            threads.busy.retain(|busy| busy.thread != self.thread);
        }
        let is_replaced =
            threads.quick() < pool.count && threads.number < pool.count + MAX_EXTRA_THREADS;
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

/// The scheduling priority of threads.
mod priority {
    #[cfg(target_os = "linux")]
    pub(super) type Thread = rustix::process::Pid;
    #[cfg(not(target_os = "linux"))]
    pub(super) type Thread = std::thread::ThreadId;

    /// The nice value of long calls: a tenth of the processor time of others, enough to end in time
    /// beside other programs of the machine.
    #[cfg(target_os = "linux")]
    const LOW: i32 = 10;

    pub(super) fn this_thread() -> Thread {
        #[cfg(target_os = "linux")]
        return rustix::thread::gettid();
        #[cfg(not(target_os = "linux"))]
        std::thread::current().id()
    }

    /// Lowers the priority of a thread. If that fails, the thread slows others down.
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

/// Returns the answer if it comes within [`SPIN`]. Other tasks of the runtime continue meanwhile.
async fn soon<T>(answered: &mut oneshot::Receiver<T>) -> Option<T> {
    let started = Instant::now();
    while started.elapsed() < SPIN {
        for _ in 0..POLLS_PER_YIELD {
            if let Ok(answer) = answered.try_recv() {
                return Some(answer);
            }
            // The call's thread may need this core.
            thread::yield_now();
        }
        tokio::task::yield_now().await;
    }
    None
}

/// The answer of a call whose thread panicked.
fn failed() -> Answer {
    Err(Stop::Trap("the host failed in one of its own functions".to_owned()))
}

/// Counts a call while [`Workers::run`] waits for it.
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

/// Cancels a call whose future is dropped.
struct CancelOnDrop(Arc<Control>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// Runs blocking work on a thread of the runtime's pool for that.
pub async fn blocking<T: Send + 'static, E: Send + 'static>(
    work: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> Result<T, E> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => panic::resume_unwind(error.into_panic()),
    }
}
