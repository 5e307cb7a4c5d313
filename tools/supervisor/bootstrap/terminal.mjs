// Prints the bootstrap's messages. All of them go to standard error, because `carillon --json`
// writes its result to standard output.

const PROGRESS_INTERVAL_MS = 5_000;
const CLEAR_LINE = '\r\x1b[K';

/** Error that the user can fix: its message names the fix, and is printed without a stack trace. */
export class UserError extends Error {
  name = 'UserError';

  constructor(message, exitCode = 1) {
    super(message);
    this.exitCode = exitCode;
  }
}

/** Prints one line. */
export function print(line) {
  process.stderr.write(`${line}\n`);
}

let steps = { done: 0, total: 0 };

/** Begins a number of steps: each one then shows its place. A step that replaces a failed one has the last place. */
export function beginSteps(total) {
  steps = { done: 0, total };
  if (total > 0) print(`Installing what is missing: ${total} ${total === 1 ? 'step' : 'steps'}.`);
}

function placeOfStep() {
  if (steps.total === 0) return '';
  steps.done = Math.min(steps.done + 1, steps.total);
  return `[${steps.done}/${steps.total}] `;
}

/**
 * Runs a set-up step and prints its progress: on a terminal in the same line, otherwise a line every few seconds.
 *
 * @template T
 * @param {string} what
 * @param {(report: (progress: string) => void) => Promise<T>} action reports what it has done so far
 * @returns {Promise<T>}
 */
export async function runStep(what, action) {
  const title = `${placeOfStep()}${what}`;
  const startedAt = Date.now();
  const seconds = () => Math.round((Date.now() - startedAt) / 1000);
  let progress = '';
  const isTerminal = process.stderr.isTTY === true;
  if (isTerminal) process.stderr.write(`${title} …`);
  else print(`${title} …`);
  const timer = setInterval(
    () => {
      const now = `${title} … ${progress}${seconds()} s`;
      if (isTerminal)
        process.stderr.write(`${CLEAR_LINE}${now.slice(0, (process.stderr.columns || 80) - 1)}`);
      else print(now);
    },
    isTerminal ? 1000 : PROGRESS_INTERVAL_MS,
  );
  try {
    const result = await action((text) => {
      progress = `${text}, `;
    });
    if (isTerminal) print(`${CLEAR_LINE}${title}: ${seconds()} s`);
    return result;
  } catch (error) {
    if (isTerminal) print('');
    throw error;
  } finally {
    clearInterval(timer);
  }
}
