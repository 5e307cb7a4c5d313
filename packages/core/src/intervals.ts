/*
 * An idle process spends its CPU time on waking up, so all periodic tasks share one timer. Tasks are due at multiples
 * of their intervals: a task of 5 s runs together with a task of 1 s.
 */

interface Task {
  intervalMs: number;
  dueAt: number;
  run: () => void;
}

/** Time before its due time at which a task may run: a timer of Node may fire up to a millisecond early. */
const EARLY_MS = 2;

const tasks = new Set<Task>();
let timer: NodeJS.Timeout | undefined;

/** Returns the next multiple of an interval by the monotonic clock of the process, whose start differs between processes. */
function nextDueAt(intervalMs: number): number {
  return (Math.floor((performance.now() + EARLY_MS) / intervalMs) + 1) * intervalMs;
}

function schedule(): void {
  clearTimeout(timer);
  if (tasks.size === 0) return;
  const dueAt = Math.min(...[...tasks].map((task) => task.dueAt));
  timer = setTimeout(runDue, Math.max(1, Math.ceil(dueAt - performance.now())));
  timer.unref();
}

function runDue(): void {
  const dueUntil = performance.now() + EARLY_MS;
  const due = [...tasks].filter(({ dueAt }) => dueAt <= dueUntil);
  for (const task of due) task.dueAt = nextDueAt(task.intervalMs);
  // First: a task that throws, which ends most services, must not end the others.
  schedule();
  for (const task of due) if (tasks.has(task)) task.run();
}

/**
 * Calls a function every `intervalMs` ms, in the same turn of the event loop as others that are due. The first call comes within
 * an interval. A turn that is late skips the calls that it has missed. Does not keep the process alive.
 *
 * @returns a function that ends the calls
 */
export function startInterval(run: () => void, intervalMs: number): () => void {
  const task: Task = { intervalMs, dueAt: nextDueAt(intervalMs), run };
  tasks.add(task);
  schedule();
  return () => {
    tasks.delete(task);
    if (tasks.size === 0) clearTimeout(timer);
  };
}
