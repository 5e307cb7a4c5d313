// Prints the bootstrap's messages. All of them go to standard error, because `carillon --json`
// writes its result to standard output.

const PROGRESS_INTERVAL_MS = 15_000;
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

/**
 * Runs a set-up step and prints its progress: on a terminal a counter of seconds, otherwise a line
 * every 15 s.
 */
export async function runStep(title, action) {
  const startedAt = Date.now();
  const seconds = () => Math.round((Date.now() - startedAt) / 1000);
  const isTerminal = process.stderr.isTTY === true;
  if (isTerminal) process.stderr.write(`${title} …`);
  else print(`${title} …`);
  const timer = setInterval(
    () => {
      if (isTerminal) process.stderr.write(`${CLEAR_LINE}${title} … ${seconds()} s`);
      else print(`${title}: still running after ${seconds()} s`);
    },
    isTerminal ? 1000 : PROGRESS_INTERVAL_MS,
  );
  try {
    const result = await action();
    if (isTerminal) print(`${CLEAR_LINE}${title}: ${seconds()} s`);
    return result;
  } catch (error) {
    if (isTerminal) print('');
    throw error;
  } finally {
    clearInterval(timer);
  }
}
