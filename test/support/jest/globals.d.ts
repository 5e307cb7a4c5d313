/** Tests and hooks that failed so far in this test file; absent outside Jest. */
declare var failures: number | undefined;

/** Returns the stack that test files without faults share; call it by `useSharedStack`. */
declare var lendStack: typeof import('./lent-stack.ts').lend;
