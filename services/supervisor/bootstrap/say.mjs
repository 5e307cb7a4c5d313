// What the bootstrap tells the person at the terminal. All of it goes to standard error, because
// `carillon --json` owns standard output.

const STILL_AT_IT_MS = 15_000;
const CLEAR_LINE = '\r\x1b[K';

/** An end that the reader can mend: one sentence with the way out, and no stack trace. */
export class Refusal extends Error {
  name = 'Refusal';

  constructor(message, exitCode = 1) {
    super(message);
    this.exitCode = exitCode;
  }
}

/** Prints one line. */
export function say(line) {
  process.stderr.write(`${line}\n`);
}

/**
 * Runs a piece of set-up under a title. On a terminal a counter of seconds moves beside it;
 * elsewhere a plain line comes every 15 s, so that a long step never looks hung.
 */
export async function step(title, work) {
  const begun = Date.now();
  const seconds = () => Math.round((Date.now() - begun) / 1000);
  const moving = process.stderr.isTTY === true;
  if (moving) process.stderr.write(`${title} …`);
  else say(`${title} …`);
  const timer = setInterval(
    () => {
      if (moving) process.stderr.write(`${CLEAR_LINE}${title} … ${seconds()} s`);
      else say(`${title}: still at it after ${seconds()} s`);
    },
    moving ? 1000 : STILL_AT_IT_MS,
  );
  try {
    const answer = await work();
    if (moving) say(`${CLEAR_LINE}${title}: ${seconds()} s`);
    return answer;
  } catch (error) {
    if (moving) say('');
    throw error;
  } finally {
    clearInterval(timer);
  }
}
