const LAST_WORDS_MS = 10_000;

/**
 * Ends a run with the line `N passed, N failed` (numbers of tests; a test file that could not be
 * run counts as one failed), makes a run red in which no test ran, and ends one that something
 * left open would keep alive for ever.
 */
export default class ClosingReporter {
  #noTestRan = false;

  onRunComplete(_contexts, results) {
    const passed = results.numPassedTests;
    let failed = results.numFailedTests + results.numRuntimeErrorTestSuites;
    this.#noTestRan = passed + failed === 0;
    setTimeout(() => {
      failed += 1;
      process.stderr.write(`still open: ${process.getActiveResourcesInfo().join(', ')}\n`);
      process.exit(1);
    }, LAST_WORDS_MS).unref();
    // Jest's own summary comes after this reporter; only at exit is a line surely the last.
    process.once('exit', () => process.stdout.write(`${passed} passed, ${failed} failed\n`));
  }

  getLastError() {
    return this.#noTestRan ? new Error('no test ran') : undefined;
  }
}
