/** A gate for a stream of bytes that can be closed and opened. */
export interface Gate {
  isOpen(): boolean;
  close(): void;
  open(): void;
  /** Calls a function when the gate is open: now, or as soon as it is opened. */
  whenOpen(run: () => void): void;
}

/** Creates an open gate. */
export function createGate(): Gate {
  let waiting: (() => void)[] | undefined;
  return {
    isOpen: () => waiting === undefined,
    close() {
      waiting ??= [];
    },
    open() {
      const runs = waiting ?? [];
      waiting = undefined;
      for (const run of runs) run();
    },
    whenOpen(run) {
      if (waiting === undefined) run();
      else waiting.push(run);
    },
  };
}
