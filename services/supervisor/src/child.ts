import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, openSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { logTail } from './home.ts';
import { Refusal } from './refusal.ts';

const FIRST_BACKOFF_MS = 200;
const LAST_BACKOFF_MS = 10_000;
const STEADY_MS = 30_000;
const LOOK_MS = 100;
const READY_DEADLINE_MS = 60_000;

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
  /** A listening socket of ours, which it finds as file descriptor 4. */
  socket?: number;
  /** Base URL of its ops port. */
  ops?: string;
  /** How often it may die before it has been ready once. */
  patience: number;
  /** Gets its standard output in place of the log. */
  onOutput?(text: Buffer): void;
  isReady(): Promise<boolean>;
}

/** What the supervisor does when a process has come or gone. */
export interface ChildWatch {
  changed(): void;
  say(line: string): void;
}

/** A supervised process. */
export interface Child {
  plan: ChildPlan;
  /** Of the process that runs now; undefined between two lives. */
  pid(): number | undefined;
  /** Starts it; resolves once it is ready. */
  start(): Promise<void>;
  /** Ends it for good: SIGTERM, then SIGKILL after `patienceMs`. May be called again with less. */
  stop(patienceMs: number): Promise<void>;
}

/** The descriptor under which a child finds the listening socket in its plan. */
export const CHILD_SOCKET = 4;

/** Makes a supervised process; a dead one is started again with growing pauses. */
export function createChild(plan: ChildPlan, watch: ChildWatch): Child {
  const name = plan.index === 0 ? plan.service : `${plan.service} ${plan.index}`;
  const state = { stopping: false, wasReady: false, deaths: 0, backoffMs: FIRST_BACKOFF_MS };
  let child: ChildProcess | undefined;
  let ended: Promise<void> = Promise.resolve();
  const stopped = new AbortController();

  function launch(): void {
    const begun = performance.now();
    const live = spawnLogged(plan);
    child = live;
    ended = new Promise((resolve) => {
      const end = (how: string) => {
        child = undefined;
        resolve();
        if (!state.stopping) died(how, performance.now() - begun);
      };
      live.once('error', (error) => end(error.message));
      live.once('exit', (code, signal) => end(signal ?? `exit code ${code}`));
    });
    watch.changed();
  }

  function died(how: string, livedMs: number): void {
    state.deaths += 1;
    if (livedMs > STEADY_MS) state.backoffMs = FIRST_BACKOFF_MS;
    if (!state.wasReady && state.deaths >= plan.patience) return;
    const pauseMs = state.backoffMs;
    state.backoffMs = Math.min(LAST_BACKOFF_MS, pauseMs * 2);
    watch.say(`${name} ended (${how}); starting it again in ${pauseMs / 1000} s. See ${plan.log}`);
    void again(pauseMs);
  }

  async function again(pauseMs: number): Promise<void> {
    await sleep(pauseMs, undefined, { signal: stopped.signal }).catch(() => undefined);
    if (!state.stopping) launch();
  }

  async function start(): Promise<void> {
    launch();
    const begun = performance.now();
    while (!state.stopping) {
      if (child !== undefined && (await plan.isReady()) && child !== undefined) {
        state.wasReady = true;
        return;
      }
      if (state.deaths >= plan.patience) throw startRefusal('ended before it was ready');
      if (performance.now() - begun > READY_DEADLINE_MS) throw startRefusal('did not get ready');
      await sleep(LOOK_MS, undefined, { signal: stopped.signal }).catch(() => undefined);
    }
    throw new Refusal('Stopped.');
  }

  function startRefusal(what: string): Refusal {
    return new Refusal(`${name} ${what}. Its log, ${plan.log}, ends with:\n${logTail(plan.log)}`);
  }

  async function stop(patienceMs: number): Promise<void> {
    state.stopping = true;
    stopped.abort();
    signalGroup(child, 'SIGTERM');
    const deadline = setTimeout(() => signalGroup(child, 'SIGKILL'), patienceMs);
    await ended;
    clearTimeout(deadline);
  }

  return { plan, pid: () => child?.pid, start, stop };
}

// Each leads a process group of its own, so that a Ctrl-C in the terminal does not end it behind
// the supervisor's back.
function spawnLogged(plan: ChildPlan): ChildProcess {
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
        ...(plan.socket === undefined ? [] : [plan.socket]),
      ],
    });
    if (plan.onOutput !== undefined) child.stdout?.on('data', plan.onOutput);
    return child;
  } finally {
    closeSync(log);
  }
}

function signalGroup(child: ChildProcess | undefined, signal: NodeJS.Signals): void {
  if (child?.pid === undefined) return;
  try {
    // Only the last blow goes to the group: a clean stop is the process's own affair.
    process.kill(signal === 'SIGKILL' ? -child.pid : child.pid, signal);
  } catch {
    // It has ended between the look and the signal.
  }
}
