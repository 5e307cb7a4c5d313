import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, openSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { UserError } from '../bootstrap/terminal.mjs';
import { readLogTail } from './start-failure-hints.ts';

const INITIAL_BACKOFF_MS = 200;
const MAX_BACKOFF_MS = 10_000;
/** Uptime after which the next exit begins with the initial backoff. */
const STABLE_UPTIME_MS = 30_000;
const READY_POLL_INTERVAL_MS = 100;
const READY_TIMEOUT_MS = 60_000;

/** File descriptor of the first listening socket in a child process. */
export const FIRST_SOCKET_FD = 4;

/** Specification of a process that runs as long as the stack does. */
export interface ProcessSpec {
  service: string;
  index: number;
  command: string;
  args: readonly string[];
  env: NodeJS.ProcessEnv;
  cwd: string;
  /** File that its output is appended to. */
  logPath: string;
  /** Gives it an IPC channel to the supervisor; it exits when the channel closes. */
  exitWithParent: boolean;
  /** Listening sockets to pass on. The process gets them as file descriptors from FIRST_SOCKET_FD on. */
  socketFds?: readonly number[];
  /** Base URL of its ops port. */
  ops?: string;
  /** Number of exits before its first readiness after which the start fails. */
  maxStartAttempts: number;
  /** Returns advice for the user when the process does not start. */
  hint?(): string;
  /**
   * Finds why a restart after an exit would fail.
   *
   * @returns an error message; undefined if it is to be restarted
   */
  findFatalCause?(): string | undefined;
  isReady(): Promise<boolean>;
}

/** Callbacks of a supervised process. */
interface ProcessEvents {
  /** The process has been started again, or for the first time. */
  onChange(): void;
  print(line: string): void;
  /** An error that the stack can't survive happened outside of `start`. */
  onFatalError(error: unknown): void;
}

/** Runs a process, and restarts it with exponential backoff when it exits. */
export class SupervisedProcess {
  readonly spec: ProcessSpec;
  readonly #events: ProcessEvents;
  readonly #stopping = new AbortController();
  #childProcess: ChildProcess | undefined;
  #exited: Promise<void> = Promise.resolve();
  #wasReady = false;
  #restarting = false;
  #exitCount = 0;
  #backoffMs = INITIAL_BACKOFF_MS;

  constructor(spec: ProcessSpec, events: ProcessEvents) {
    this.spec = spec;
    this.#events = events;
  }

  /** Process id; undefined while the process is not running. */
  get pid(): number | undefined {
    return this.#childProcess?.pid;
  }

  /**
   * Starts the process; resolves once it is ready.
   * @throws {UserError} when it exits `maxStartAttempts` times or is not ready within a minute
   */
  async start(): Promise<void> {
    this.#spawn();
    const startedAt = performance.now();
    while (!this.#stopping.signal.aborted) {
      if (await this.#isReady()) {
        this.#wasReady = true;
        return;
      }
      if (this.#exitCount >= this.spec.maxStartAttempts)
        throw this.#createStartError('ended before it was ready');
      if (performance.now() - startedAt > READY_TIMEOUT_MS)
        throw this.#createStartError('did not get ready');
      await this.#delay(READY_POLL_INTERVAL_MS);
    }
    throw new UserError('Stopped.');
  }

  /**
   * Ends the process gracefully, SIGKILL after `stopTimeoutMs`, and starts it again at once. One that
   * waits for its next start is started without the rest of its pause.
   *
   * @returns whether the new process became ready; not when it ended before, or when the stack stops
   */
  async restart(stopTimeoutMs: number): Promise<boolean> {
    if (this.#stopping.signal.aborted) return false;
    this.#backoffMs = INITIAL_BACKOFF_MS;
    if (this.#childProcess === undefined) {
      this.#spawn();
    } else if (this.#restarting) {
      // A second SIGTERM would cut off what the process still finishes.
      await this.#exited;
    } else {
      this.#restarting = true;
      await this.#end(stopTimeoutMs);
    }
    return this.#becomesReady();
  }

  /** Stops the process: SIGTERM, then SIGKILL after `stopTimeoutMs`. May be called again with a shorter timeout. */
  async stop(stopTimeoutMs: number): Promise<void> {
    this.#stopping.abort();
    await this.#end(stopTimeoutMs);
  }

  async #end(timeoutMs: number): Promise<void> {
    signalProcess(this.#childProcess, 'SIGTERM');
    const killTimer = setTimeout(() => signalProcess(this.#childProcess, 'SIGKILL'), timeoutMs);
    await this.#exited;
    clearTimeout(killTimer);
  }

  async #becomesReady(): Promise<boolean> {
    const { pid } = this;
    const deadline = performance.now() + READY_TIMEOUT_MS;
    while (pid !== undefined && this.pid === pid && performance.now() < deadline) {
      if (await this.#isReady()) return this.pid === pid;
      await this.#delay(READY_POLL_INTERVAL_MS);
    }
    return false;
  }

  // Another program may respond on its port, so the process must be running before and after the probe.
  async #isReady(): Promise<boolean> {
    return (
      this.#childProcess !== undefined &&
      (await this.spec.isReady()) &&
      this.#childProcess !== undefined
    );
  }

  #spawn(): void {
    const startedAt = performance.now();
    this.#restarting = false;
    const childProcess = spawnProcess(this.spec);
    this.#childProcess = childProcess;
    this.#exited = new Promise((resolve) => {
      const onEnd = (reason: string) => {
        this.#childProcess = undefined;
        resolve();
        if (!this.#stopping.signal.aborted) {
          this.#restart(reason, performance.now() - startedAt).catch(this.#events.onFatalError);
        }
      };
      childProcess.once('error', (error) => onEnd(error.message));
      childProcess.once('exit', (code, signal) => onEnd(signal ?? `exit code ${code}`));
    });
    this.#events.onChange();
  }

  async #restart(reason: string, uptimeMs: number): Promise<void> {
    if (this.#restarting) {
      this.#spawn();
      return;
    }
    this.#exitCount += 1;
    if (!this.#wasReady && this.#exitCount >= this.spec.maxStartAttempts) return;
    const fatalCause = this.spec.findFatalCause?.();
    if (fatalCause !== undefined) {
      throw new UserError(`${this.#displayName()} ended (${reason}). ${fatalCause}`);
    }
    if (uptimeMs > STABLE_UPTIME_MS) this.#backoffMs = INITIAL_BACKOFF_MS;
    const delayMs = this.#backoffMs;
    this.#backoffMs = Math.min(MAX_BACKOFF_MS, delayMs * 2);
    const restartNote = `starting it again in ${delayMs / 1000} s`;
    this.#events.print(
      `${this.#displayName()} ended (${reason}); ${restartNote}. Its log is ${this.spec.logPath}`,
    );
    await this.#delay(delayMs);
    // A restart may have come first.
    if (!this.#stopping.signal.aborted && this.#childProcess === undefined) this.#spawn();
  }

  async #delay(ms: number): Promise<void> {
    await sleep(ms, undefined, { signal: this.#stopping.signal }).catch(() => undefined);
  }

  #displayName(): string {
    return this.spec.index === 0 ? this.spec.service : `${this.spec.service} ${this.spec.index}`;
  }

  #createStartError(problem: string): UserError {
    const { logPath } = this.spec;
    const hint = this.spec.hint?.() ?? '';
    const logExcerpt = `Its log, ${logPath}, ends with:\n${readLogTail(logPath)}`;
    return new UserError(`${this.#displayName()} ${problem}. ${logExcerpt}\n${hint}`.trimEnd());
  }
}

/**
 * Starts a process. It leads its own process group, so that Ctrl-C in the terminal signals only
 * the supervisor.
 */
function spawnProcess({ command, args, cwd, env, ...spec }: ProcessSpec): ChildProcess {
  const logFd = openSync(spec.logPath, 'a', 0o600);
  const channel = spec.exitWithParent ? ('ipc' as const) : ('ignore' as const);
  try {
    const stdio = ['ignore' as const, logFd, logFd, channel, ...(spec.socketFds ?? [])];
    return spawn(command, args, { cwd, env, detached: true, stdio });
  } finally {
    closeSync(logFd);
  }
}

/** Sends a signal to a process that may have ended already. */
function signalProcess(child: ChildProcess | undefined, signal: 'SIGTERM' | 'SIGKILL'): void {
  if (child?.pid === undefined) return;
  try {
    // SIGKILL goes to the whole group; on SIGTERM the process stops its own children.
    process.kill(signal === 'SIGKILL' ? -child.pid : child.pid, signal);
  } catch {
    // The process ended between the check and the signal.
  }
}

/** Copies the named variables of an environment. */
export function pickVariables(env: NodeJS.ProcessEnv, names: readonly string[]): NodeJS.ProcessEnv {
  return Object.fromEntries(names.flatMap((name) => (name in env ? [[name, env[name]]] : [])));
}
