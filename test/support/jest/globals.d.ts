/** Tests and hooks that failed so far in this test file; absent outside Jest. */
declare var failures: number | undefined;

/** Gives the stack that calm test files share; `useSharedStack` is the way to it. */
declare var lendStack: typeof import('./lent-stack.ts').lend;
