//! Group commit: producers that meet share one write and one sync.
//!
//! While one write is under way the next parts gather. Whoever can wait [hands a part in and takes
//! its turn](Group::produce) at writing for all; whoever cannot block takes a [`Ticket`], and somebody
//! else writes.
//!
//! Producers that come again as soon as they are answered would fall into two halves, each of which
//! waits for a write of the other. A write therefore gives those whom the last one has answered a
//! moment to come again: half of what the last one took and never more than [`PATIENCE_MAX`], counted
//! from when all of them know. Whoever produces alone is held back once at most, after the others have
//! gone.

#[cfg(all(test, shuttle))]
mod schedules;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::panicking;
use std::time::{Duration, Instant};

use crate::interleave::thread::{self, Thread};
use crate::interleave::{Condvar, Mutex, MutexGuard};

/// Longest time for which a write waits for more parts. Larger helps producers that are slow to come
/// again only on disks that are slower still. (Where a scheduler draws the turns there is no time.)
const PATIENCE_MAX: Duration = Duration::from_millis(if cfg!(shuttle) { 0 } else { 2 });

/// What one producer hands in.
pub(crate) trait Part {
    /// Returns what it counts against the limits, in bytes.
    fn bytes(&self) -> usize;

    /// Returns whether it may be written together with another one.
    fn joins(&self, other: &Self) -> bool;
}

/// The limits of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Most bytes that one write takes, unless a single part is larger.
    pub(crate) write_bytes_max: usize,
    /// Most bytes that may wait.
    pub(crate) waiting_bytes_max: usize,
}

/// Why a part is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// Too much waits already.
    Full,
    /// Nobody writes any more.
    Closed,
}

/// Whoever was writing ended without an answer: nobody knows what became of the part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Abandoned;

/// Producers that share writes. `A` is what each of them is told.
pub(crate) struct Group<P, A> {
    limits: Limits,
    queue: Mutex<Queue<P, A>>,
    /// Told when a part has come or the group is closed, for a thread that does nothing but write.
    changed: Condvar,
    /// Told when as many parts wait as were expected, for the thread whose turn it is.
    gathered: Condvar,
}

struct Queue<P, A> {
    waiting: VecDeque<Waiting<P, A>>,
    waiting_bytes: usize,
    /// Somebody has its turn.
    is_writing: bool,
    is_closed: bool,
    /// How many parts there were, waiting and answered, when the last write ended.
    expected: usize,
    /// How long a write waits for so many.
    patience: Duration,
    /// How many writes have ended whose producers do not all know.
    answering: usize,
    /// How many threads wait for anything to come. Telling nobody costs a system call as well.
    idle: usize,
    /// Whoever has its turn waits for more.
    is_gathering: bool,
}

struct Waiting<P, A> {
    part: P,
    bytes: usize,
    /// Whether the producer takes its turn at writing when it is woken.
    takes_turns: bool,
    reply: Reply<A>,
}

impl<P, A> fmt::Debug for Group<P, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Group").field("limits", &self.limits).finish_non_exhaustive()
    }
}

impl<P: Part, A> Group<P, A> {
    pub(crate) fn new(limits: Limits) -> Self {
        let queue = Queue {
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            is_writing: false,
            is_closed: false,
            expected: 0,
            patience: Duration::ZERO,
            answering: 0,
            idle: 0,
            is_gathering: false,
        };
        let (changed, gathered) = (Condvar::new(), Condvar::new());
        Self { limits, queue: Mutex::new(queue), changed, gathered }
    }

    /// Hands a part in and blocks until it is answered; takes its turn at writing meanwhile.
    ///
    /// `write` gives one answer for each part, in their order.
    pub(crate) fn produce(
        &self,
        part: P,
        write: impl Fn(Vec<P>) -> Vec<A>,
    ) -> Result<Result<A, Abandoned>, Refused> {
        let ticket = self.hand_in(part, Some(this_thread()))?;
        loop {
            if let Some(answer) = ticket.take() {
                return Ok(answer);
            }
            if !self.write(&write, true) {
                thread::park();
            }
        }
    }

    /// Hands a part in, for somebody else to write.
    pub(crate) fn submit(&self, part: P) -> Result<Ticket<A>, Refused> {
        self.hand_in(part, None)
    }

    fn hand_in(&self, part: P, turns: Option<Waker>) -> Result<Ticket<A>, Refused> {
        let bytes = part.bytes();
        let mut queue = self.lock();
        let fits = queue.waiting_bytes.saturating_add(bytes) <= self.limits.waiting_bytes_max;
        // What is too large by itself has no better time to come again.
        if !fits && !queue.waiting.is_empty() {
            return Err(Refused::Full);
        }
        let takes_turns = turns.is_some();
        if queue.is_closed && !takes_turns {
            return Err(Refused::Closed);
        }
        let seat = Arc::new(Seat(Mutex::new(Seated::Waiting(turns))));
        queue.waiting_bytes += bytes;
        let reply = Reply(Arc::clone(&seat));
        queue.waiting.push_back(Waiting { part, bytes, takes_turns, reply });
        let is_gathered = queue.is_gathering && queue.has_gathered(self.limits.write_bytes_max);
        let is_news = !takes_turns && queue.idle > 0;
        drop(queue);
        if is_gathered {
            self.gathered.notify_one();
        }
        if is_news {
            self.changed.notify_one();
        }
        Ok(Ticket(seat))
    }

    /// Writes once for those who wait, and waits for nobody; returns whether it did. Somebody else may
    /// be at it, or nobody may wait.
    pub(crate) fn write_once(&self, write: impl FnOnce(Vec<P>) -> Vec<A>) -> bool {
        self.write(write, false)
    }

    fn write(&self, write: impl FnOnce(Vec<P>) -> Vec<A>, gathers: bool) -> bool {
        let batch = {
            let mut queue = self.lock();
            if queue.is_writing || queue.waiting.is_empty() {
                return false;
            }
            queue.is_writing = true;
            if gathers {
                queue = self.gather(queue);
            }
            queue.take_batch(self.limits.write_bytes_max)
        };
        let turn = Turn { group: self, parts: batch.len(), begun: Instant::now() };
        let (parts, replies): (Vec<P>, Vec<Reply<A>>) =
            batch.into_iter().map(|waiting| (waiting.part, waiting.reply)).unzip();
        let answers = write(parts);
        debug_assert_eq!(answers.len(), replies.len(), "one answer for each part");
        // The next turn has begun before anybody learns of this one.
        let _answering = turn.end();
        for (reply, answer) in replies.into_iter().zip(answers) {
            reply.give(answer);
        }
        true
    }

    /// Waits a moment for those who may come again. Who has not been answered cannot come yet, so the
    /// moment begins when all have been.
    fn gather<'a>(&self, mut queue: MutexGuard<'a, Queue<P, A>>) -> MutexGuard<'a, Queue<P, A>> {
        let begun = Instant::now();
        let (mut since, patience) = (begun, queue.patience);
        while !patience.is_zero() && !queue.has_gathered(self.limits.write_bytes_max) {
            if queue.answering > 0 && begun.elapsed() < PATIENCE_MAX {
                since = Instant::now();
            }
            let left = patience.saturating_sub(since.elapsed());
            if left.is_zero() {
                break;
            }
            queue.is_gathering = true;
            let waited = self.gathered.wait_timeout(queue, left);
            queue = waited.unwrap_or_else(PoisonError::into_inner).0;
            queue.is_gathering = false;
        }
        queue
    }

    /// Writes for those who wait, until the group is closed and nobody waits.
    pub(crate) fn write_all(&self, write: impl Fn(Vec<P>) -> Vec<A>) {
        loop {
            let mut queue = self.lock();
            while queue.is_writing || (queue.waiting.is_empty() && !queue.is_closed) {
                queue.idle += 1;
                queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
                queue.idle -= 1;
            }
            if queue.waiting.is_empty() {
                return;
            }
            // Nobody comes again to a group that takes no tickets.
            let gathers = !queue.is_closed;
            drop(queue);
            self.write(&write, gathers);
        }
    }

    /// Takes tickets; so does a new group.
    pub(crate) fn open(&self) {
        self.lock().is_closed = false;
    }

    /// Takes no tickets any more, and ends [`write_all`](Self::write_all).
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Queue<P, A>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<P: Part, A> Queue<P, A> {
    /// Whether waiting for more would be of no use.
    fn has_gathered(&self, bytes_max: usize) -> bool {
        self.waiting.len() >= self.expected || self.waiting_bytes >= bytes_max
    }

    /// Takes from the front what may be written together.
    fn take_batch(&mut self, bytes_max: usize) -> Vec<Waiting<P, A>> {
        let (mut batch, mut bytes) = (Vec::<Waiting<P, A>>::new(), 0);
        while let Some(next) = self.waiting.front() {
            let joins = batch.first().is_none_or(|first| {
                bytes + next.bytes <= bytes_max && next.part.joins(&first.part)
            });
            if !joins {
                break;
            }
            bytes += next.bytes;
            batch.extend(self.waiting.pop_front());
        }
        self.waiting_bytes -= bytes;
        batch
    }
}

/// Somebody's turn at writing. It ends with a panic as well, or everybody would wait for ever.
struct Turn<'a, P: Part, A> {
    group: &'a Group<P, A>,
    /// How many parts it writes.
    parts: usize,
    begun: Instant,
}

impl<'a, P: Part, A> Turn<'a, P, A> {
    /// Ends it, for producers who are about to be answered.
    fn end(self) -> Answering<'a, P, A> {
        self.group.lock().answering += 1;
        Answering { group: self.group }
    }
}

/// A write is over, and its producers learn of it.
struct Answering<'a, P: Part, A> {
    group: &'a Group<P, A>,
}

impl<P: Part, A> Drop for Answering<'_, P, A> {
    fn drop(&mut self) {
        let mut queue = self.group.lock();
        queue.answering -= 1;
        let is_awaited = queue.is_gathering;
        drop(queue);
        // From now on it counts how long it waits.
        if is_awaited {
            self.group.gathered.notify_one();
        }
    }
}

impl<P: Part, A> Drop for Turn<'_, P, A> {
    fn drop(&mut self) {
        let mut queue = self.group.lock();
        queue.is_writing = false;
        queue.expected = queue.waiting.len() + self.parts;
        queue.patience = (self.begun.elapsed() / 2).min(PATIENCE_MAX);
        let producers = queue.waiting.iter().filter(|waiting| waiting.takes_turns);
        // A thread that panics may be the next one as well.
        let woken = if panicking() { usize::MAX } else { 1 };
        let next: Vec<Waker> =
            producers.filter_map(|waiting| waiting.reply.waker()).take(woken).collect();
        let is_news = next.is_empty() && queue.idle > 0;
        drop(queue);
        if is_news {
            self.group.changed.notify_one();
        }
        next.into_iter().for_each(Waker::wake);
    }
}

/// Where a producer waits for its answer.
struct Seat<A>(Mutex<Seated<A>>);

enum Seated<A> {
    Waiting(Option<Waker>),
    Answered(Result<A, Abandoned>),
    Left,
}

impl<A> Seat<A> {
    fn lock(&self) -> MutexGuard<'_, Seated<A>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leaves an answer, unless there is one.
    fn answer(&self, answer: Result<A, Abandoned>) {
        let mut seated = self.lock();
        let Seated::Waiting(waker) = &mut *seated else { return };
        let waker = waker.take();
        *seated = Seated::Answered(answer);
        drop(seated);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// The writer's end of a seat.
struct Reply<A>(Arc<Seat<A>>);

impl<A> Reply<A> {
    fn give(self, answer: A) {
        self.0.answer(Ok(answer));
    }

    fn waker(&self) -> Option<Waker> {
        match &*self.0.lock() {
            Seated::Waiting(waker) => waker.clone(),
            Seated::Answered(_) | Seated::Left => None,
        }
    }
}

impl<A> Drop for Reply<A> {
    fn drop(&mut self) {
        self.0.answer(Err(Abandoned));
    }
}

/// The producer's end of a seat: a future, for whatever runs futures.
#[must_use = "only a ticket tells what became of the records"]
pub(crate) struct Ticket<A>(Arc<Seat<A>>);

impl<A> fmt::Debug for Ticket<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket").finish_non_exhaustive()
    }
}

impl<A> Ticket<A> {
    /// Takes the answer, if it is there.
    pub(crate) fn take(&self) -> Option<Result<A, Abandoned>> {
        let mut seated = self.0.lock();
        match std::mem::replace(&mut *seated, Seated::Left) {
            Seated::Answered(answer) => Some(answer),
            before @ (Seated::Waiting(_) | Seated::Left) => {
                *seated = before;
                None
            }
        }
    }

    /// Blocks until the answer is there.
    pub(crate) fn wait(mut self) -> Result<A, Abandoned> {
        let waker = this_thread();
        let mut context = Context::from_waker(&waker);
        loop {
            if let Poll::Ready(answer) = Pin::new(&mut self).poll(&mut context) {
                return answer;
            }
            thread::park();
        }
    }
}

impl<A> Future for Ticket<A> {
    type Output = Result<A, Abandoned>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let Some(answer) = self.take() {
            return Poll::Ready(answer);
        }
        match &mut *self.0.lock() {
            Seated::Waiting(waker) => *waker = Some(context.waker().clone()),
            // It came between the two looks.
            Seated::Answered(_) => context.waker().wake_by_ref(),
            Seated::Left => panic!("a ticket is answered once"),
        }
        Poll::Pending
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn this_thread() -> Waker {
    Waker::from(Arc::new(Unpark(thread::current())))
}
