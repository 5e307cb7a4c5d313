import type { ChildProcess } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { type ChildPlan, signalChild, spawnPlanned } from './child-plan.ts';
import { lastWords } from './last-words.ts';
import { Refusal } from './refusal.ts';

const FIRST_BACKOFF_MS = 200;
const LAST_BACKOFF_MS = 10_000;
const STEADY_MS = 30_000;
const LOOK_MS = 100;
const READY_DEADLINE_MS = 60_000;

/** What the supervisor does when a process has come, and what it tells. */
export interface ChildWatch {
  changed(): void;
  say(line: string): void;
}

/** A supervised process: a dead one is started again with growing pauses. */
export class Child {
  readonly plan: ChildPlan;
  readonly #watch: ChildWatch;
  readonly #stopping = new AbortController();
  #live: ChildProcess | undefined;
  #ended: Promise<void> = Promise.resolve();
  #wasReady = false;
  #deaths = 0;
  #backoffMs = FIRST_BACKOFF_MS;

  constructor(plan: ChildPlan, watch: ChildWatch) {
    this.plan = plan;
    this.#watch = watch;
  }

  /** Of the process that runs now; undefined between two lives. */
  get pid(): number | undefined {
    return this.#live?.pid;
  }

  /**
   * Starts it; resolves once it is ready.
   * @throws {Refusal} when it dies too often or takes longer than a minute
   */
  async start(): Promise<void> {
    this.#launch();
    const begun = performance.now();
    while (!this.#stopping.signal.aborted) {
      if (await this.#isReady()) {
        this.#wasReady = true;
        return;
      }
      if (this.#deaths >= this.plan.patience) throw this.#refusal('ended before it was ready');
      if (performance.now() - begun > READY_DEADLINE_MS) throw this.#refusal('did not get ready');
      await this.#pause(LOOK_MS);
    }
    throw new Refusal('Stopped.');
  }

  /** Ends it for good: SIGTERM, then SIGKILL after `patienceMs`. May be called again with less. */
  async stop(patienceMs: number): Promise<void> {
    this.#stopping.abort();
    signalChild(this.#live, 'SIGTERM');
    const deadline = setTimeout(() => signalChild(this.#live, 'SIGKILL'), patienceMs);
    await this.#ended;
    clearTimeout(deadline);
  }

  // Dead or alive, another program may answer on its port: only a living one can be ready.
  async #isReady(): Promise<boolean> {
    return this.#live !== undefined && (await this.plan.isReady()) && this.#live !== undefined;
  }

  #launch(): void {
    const begun = performance.now();
    const live = spawnPlanned(this.plan);
    this.#live = live;
    this.#ended = new Promise((resolve) => {
      const end = (how: string) => {
        this.#live = undefined;
        resolve();
        if (!this.#stopping.signal.aborted) void this.#startAgain(how, performance.now() - begun);
      };
      live.once('error', (error) => end(error.message));
      live.once('exit', (code, signal) => end(signal ?? `exit code ${code}`));
    });
    this.#watch.changed();
  }

  async #startAgain(how: string, livedMs: number): Promise<void> {
    this.#deaths += 1;
    if (!this.#wasReady && this.#deaths >= this.plan.patience) return;
    if (livedMs > STEADY_MS) this.#backoffMs = FIRST_BACKOFF_MS;
    const pauseMs = this.#backoffMs;
    this.#backoffMs = Math.min(LAST_BACKOFF_MS, pauseMs * 2);
    const again = `starting it again in ${pauseMs / 1000} s`;
    this.#watch.say(`${this.#name()} ended (${how}); ${again}. Its log is ${this.plan.log}`);
    await this.#pause(pauseMs);
    if (!this.#stopping.signal.aborted) this.#launch();
  }

  async #pause(ms: number): Promise<void> {
    await sleep(ms, undefined, { signal: this.#stopping.signal }).catch(() => undefined);
  }

  #name(): string {
    return this.plan.index === 0 ? this.plan.service : `${this.plan.service} ${this.plan.index}`;
  }

  #refusal(what: string): Refusal {
    const { log, wayOut = '' } = this.plan;
    const words = `Its log, ${log}, ends with:\n${lastWords(log)}`;
    return new Refusal(`${this.#name()} ${what}. ${words}\n${wayOut}`.trimEnd());
  }
}
