/** Tests and hooks that failed so far in this test file; absent outside Jest. */
declare var failures: number | undefined;
