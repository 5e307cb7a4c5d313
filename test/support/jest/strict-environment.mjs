import { setTimeout as sleep } from 'node:timers/promises';
import { TestEnvironment as NodeEnvironment } from 'jest-environment-node';

/** Resources that a test file must have closed when it ends; the names are Node's. */
const TRACKED_HANDLES = [
  'TCPSocketWrap',
  'TCPServerWrap',
  'TLSWrap',
  'PipeServerWrap',
  'ProcessWrap',
];
const CLOSE_TIMEOUT_MS = 5_000;

/**
 * Node's test environment with two features: a test file that leaves sockets, servers or child processes open fails, and
 * `globalThis.failures` counts what failed so far in this file, so that support code can keep files for inspection.
 */
export default class StrictEnvironment extends NodeEnvironment {
  #before = openHandles();

  async setup() {
    await super.setup();
    this.global.failures = 0;
  }

  async handleTestEvent(event, state) {
    if (event.name === 'hook_failure') this.global.failures += 1;
    if (event.name === 'test_done' && event.test.errors.length > 0) this.global.failures += 1;
    if (event.name !== 'run_finish') return;
    const left = await this.#leftOpen();
    if (left.length > 0) state.unhandledErrors.push(new Error(`left open: ${left.join(', ')}`));
  }

  /** Closing takes a few turns of the loop, so a handle gets some time to go. */
  async #leftOpen() {
    const deadline = performance.now() + CLOSE_TIMEOUT_MS;
    let left = newHandles(this.#before);
    while (left.length > 0 && performance.now() < deadline) {
      await sleep(25);
      left = newHandles(this.#before);
    }
    return left;
  }
}

function openHandles() {
  return process.getActiveResourcesInfo().filter((name) => TRACKED_HANDLES.includes(name));
}

function newHandles(before) {
  const known = [...before];
  return openHandles().filter((name) => {
    const at = known.indexOf(name);
    if (at >= 0) known.splice(at, 1);
    return at < 0;
  });
}
