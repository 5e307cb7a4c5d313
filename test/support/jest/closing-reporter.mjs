import { relative } from 'node:path';
import { stopShared } from './shared-servers.ts';

const EXIT_TIMEOUT_MS = 10_000;

/**
 * Ends a run: stops the servers that test files shared, and prints the line `N passed, N failed` (numbers
 * of tests; a test file that could not be run counts as one failed, and so does a shared server that
 * did not end well), and before it a line `failed file: PATH` for each, when nothing but files failed. Makes a run red
 * in which no test ran, and ends one that something left open would keep alive for ever.
 */
export default class ClosingReporter {
  #error;
  #root;
  #isWatching;
  #mayBeEmpty;

  constructor({ rootDir, watch, watchAll, onlyChanged }) {
    this.#root = rootDir;
    this.#mayBeEmpty = onlyChanged;
    this.#isWatching = watch || watchAll;
  }

  async onRunComplete(_contexts, results) {
    const passed = results.numPassedTests;
    let failed = results.numFailedTests + results.numRuntimeErrorTestSuites;
    const failedFiles = results.testResults
      .filter(({ numFailingTests, testExecError }) => numFailingTests > 0 || testExecError)
      .map(({ testFilePath }) => `failed file: ${relative(this.#root, testFilePath)}\n`);
    if (passed + failed === 0 && !this.#mayBeEmpty) this.#error = new Error('no test ran');
    await stopShared(failed > 0).catch((error) => {
      failed += 1;
      failedFiles.length = 0;
      this.#error = error;
      process.stderr.write(`${error.message}\n`);
    });
    // Jest prints the same numbers, and goes on.
    if (this.#isWatching) return;
    setTimeout(() => {
      failed += 1;
      failedFiles.length = 0;
      process.stderr.write(`still open: ${process.getActiveResourcesInfo().join(', ')}\n`);
      process.exit(1);
    }, EXIT_TIMEOUT_MS).unref();
    // Jest's own summary comes after this reporter; only at exit is a line surely the last.
    process.once('exit', () => {
      process.stdout.write(`${failedFiles.join('')}${passed} passed, ${failed} failed\n`);
    });
  }

  getLastError() {
    return this.#error;
  }
}
