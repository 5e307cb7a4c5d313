import { default as ParallelRunner } from 'jest-runner';
import { retireLent } from './lent-stack.ts';
import { isSharing } from './sharing.mjs';

/**
 * Jest's runner in two lanes: beside the workers, this process runs the files that share a stack, one after the other.
 */
export default class StackRunner extends ParallelRunner {
  async runTests(tests, watcher, options) {
    if (options.serial) return super.runTests(tests, watcher, options);
    const sharing = tests.filter(({ path }) => isSharing(path));
    const others = tests.filter((test) => !sharing.includes(test));
    // First, so that the workers are no handles that a file of this process left open.
    const parallel = super.runTests(others, watcher, options);
    const serial = super.runTests(sharing, watcher, { ...options, serial: true });
    // Ports are chosen by this id.
    process.env.JEST_WORKER_ID = `${this._globalConfig.maxWorkers + 1}`;
    await Promise.all([parallel, serial.finally(retireLent)]);
  }
}
