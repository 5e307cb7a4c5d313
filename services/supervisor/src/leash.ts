import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const CLEAN_UP = fileURLToPath(new URL('../bootstrap/leash.mjs', import.meta.url));

/** The watcher that outlives a killed supervisor. */
export interface Leash {
  /** Calls it off: the supervisor has ended everything itself. */
  end(): void;
}

/**
 * Starts the watcher: a shell that waits for the end of its standard input, which comes when this
 * process is gone, and then runs the clean-up. (A waiting shell costs 1 MB, a waiting Node 40.)
 */
export function startLeash(home: string): Leash {
  const child = spawn(
    '/bin/sh',
    ['-c', 'cat >/dev/null; exec "$0" "$@"', process.execPath, CLEAN_UP, home],
    { detached: true, stdio: ['pipe', 'ignore', 'ignore'] },
  );
  // Without it a stack is only less tidy after a kill -9.
  child.on('error', () => undefined);
  return {
    end: () => {
      if (child.pid === undefined || child.exitCode !== null) return;
      process.kill(-child.pid, 'SIGKILL');
    },
  };
}
