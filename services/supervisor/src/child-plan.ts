import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, openSync } from 'node:fs';

/** One process that is to run as long as the stack does. */
export interface ChildPlan {
  service: string;
  index: number;
  command: string;
  args: readonly string[];
  env: NodeJS.ProcessEnv;
  cwd: string;
  /** Path of the file that takes its output. */
  log: string;
  /** It follows the supervisor when its IPC channel closes. */
  leashed: boolean;
  /** Listening sockets of ours, which it finds as file descriptors from FIRST_CHILD_SOCKET on. */
  sockets: readonly number[];
  /** Base URL of its ops port. */
  ops?: string;
  /** How often it may die before it has been ready once. */
  patience: number;
  /** The way out, said after its last words when it does not start. */
  wayOut?: string;
  /** Gets its standard output in place of the log. */
  onOutput?(text: Buffer): void;
  isReady(): Promise<boolean>;
}

/** The descriptor under which a child finds the first listening socket of its plan. */
export const FIRST_CHILD_SOCKET = 4;

/**
 * Starts the process of a plan. It leads a process group of its own, so that a Ctrl-C in the
 * terminal does not end it behind the supervisor's back.
 */
export function spawnPlanned(plan: ChildPlan): ChildProcess {
  const log = openSync(plan.log, 'a', 0o600);
  try {
    const child = spawn(plan.command, plan.args, {
      cwd: plan.cwd,
      env: plan.env,
      detached: true,
      stdio: [
        'ignore',
        plan.onOutput === undefined ? log : 'pipe',
        log,
        plan.leashed ? 'ipc' : 'ignore',
        ...plan.sockets,
      ],
    });
    if (plan.onOutput !== undefined) child.stdout?.on('data', plan.onOutput);
    return child;
  } finally {
    closeSync(log);
  }
}

/** Sends a signal to a process that may have ended. */
export function signalChild(child: ChildProcess | undefined, signal: 'SIGTERM' | 'SIGKILL'): void {
  if (child?.pid === undefined) return;
  try {
    // Only the last blow goes to the group: a clean stop is the process's own affair.
    process.kill(signal === 'SIGKILL' ? -child.pid : child.pid, signal);
  } catch {
    // It has ended between the look and the signal.
  }
}
