//! Work on several threads, results in order.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, mpsc};

use crate::lab::Stop;

/// Carries out numbered work on `threads` threads, and hands over each result in the order of `work`.
///
/// `perform` gets a number and a [`Stop`] that it should look at, and returns nothing if it was stopped.
/// `each` may end it all with `Break`: what runs is stopped, and no later result is handed over, so
/// that the same results are handed over whatever the number of threads. When `interrupt` is set, no
/// further work begins, and the results that there are by then are handed over, still in order.
///
/// # Examples
///
/// ```
/// use std::num::NonZeroUsize;
/// use std::ops::ControlFlow;
/// use std::sync::atomic::AtomicBool;
///
/// let mut seen = Vec::new();
/// narad_sim::sweep::in_order(
///     0..100,
///     NonZeroUsize::new(4).expect("not zero"),
///     &AtomicBool::new(false),
///     |number, _| Some(number * number),
///     |_, square| {
///         seen.push(square);
///         if square < 100 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
///     },
/// );
/// assert_eq!(seen, [0, 1, 4, 9, 16, 25, 36, 49, 64, 81, 100]);
/// ```
pub fn in_order<T: Send>(
    work: impl Iterator<Item = u64> + Send,
    threads: NonZeroUsize,
    interrupt: &AtomicBool,
    perform: impl Fn(u64, Stop<'_>) -> Option<T> + Sync,
    mut each: impl FnMut(u64, T) -> ControlFlow<()>,
) {
    let ended = AtomicBool::new(false);
    let stop = Stop::either(interrupt, &ended);
    let queue = Mutex::new((0_u64..).zip(work));
    // Never poisoned: nothing panics while it is held, as an iterator of numbers does not.
    let next = || queue.lock().ok().and_then(|mut queue| queue.next());
    let (results, arrivals) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..threads.get() {
            let (results, next, perform) = (results.clone(), &next, &perform);
            scope.spawn(move || {
                while !stop.is_set()
                    && let Some((position, number)) = next()
                {
                    let result = perform(number, stop);
                    if results.send((position, number, result)).is_err() {
                        break;
                    }
                }
            });
        }
        drop(results);
        let mut waiting = BTreeMap::new();
        let mut due = 0;
        for (position, number, result) in arrivals {
            waiting.insert(position, (number, result));
            while let Some((number, result)) = waiting.remove(&due) {
                due += 1;
                let Some(result) = result else { continue };
                if each(number, result).is_break() {
                    ended.store(true, Ordering::Relaxed);
                    return;
                }
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn threads(n: usize) -> NonZeroUsize {
        NonZeroUsize::new(n).expect("not zero")
    }

    fn squares(n: usize, until: u64) -> Vec<u64> {
        let mut seen = Vec::new();
        let perform = |number: u64, _: Stop<'_>| {
            // The early ones take longest, so that they arrive last.
            let spins = (1000 - number) * 20;
            Some((0..spins).fold(number, |sum, i| std::hint::black_box(sum ^ i ^ i)))
        };
        let interrupt = AtomicBool::new(false);
        in_order(0..1000, threads(n), &interrupt, perform, |number, result| {
            assert_eq!(number, result);
            seen.push(number);
            if number == until { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        seen
    }

    #[test]
    fn results_come_in_order_whatever_the_number_of_threads() {
        for n in [1, 2, 7] {
            assert_eq!(squares(n, 1000), (0..1000).collect::<Vec<_>>());
            assert_eq!(squares(n, 17), (0..=17).collect::<Vec<_>>());
        }
    }

    #[test]
    fn an_interrupt_keeps_what_is_done_and_begins_nothing() {
        let interrupt = AtomicBool::new(false);
        let mut seen = Vec::new();
        let perform = |number: u64, stop: Stop<'_>| {
            if number == 10 {
                interrupt.store(true, Ordering::Relaxed);
            }
            (!stop.is_set()).then_some(number)
        };
        in_order(0..1000, threads(1), &interrupt, perform, |number, _| {
            seen.push(number);
            ControlFlow::Continue(())
        });
        assert_eq!(seen, (0..10).collect::<Vec<_>>());
    }

    #[test]
    fn a_break_stops_what_still_runs() {
        let interrupt = AtomicBool::new(false);
        // Every number but the first runs until it is stopped.
        let perform = |number: u64, stop: Stop<'_>| {
            while number > 0 && !stop.is_set() {
                std::hint::spin_loop();
            }
            (number == 0).then_some(())
        };
        let mut seen = 0;
        in_order(0.., threads(3), &interrupt, perform, |_, ()| {
            seen += 1;
            ControlFlow::Break(())
        });
        assert_eq!(seen, 1);
    }
}
