import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { describeError } from '@carillon/admin/admin-error';
import { createCanaryMetrics } from '@carillon/runtime/canary-metrics';
import { listenAddress } from '@carillon/runtime/env';
import { startOpsServer } from '@carillon/runtime/ops-server';
import { createProgress } from '@carillon/runtime/progress';
import { type Command, InvalidArgumentError } from 'commander';
import { requestApi } from './api-client.ts';
import { EXIT, Failure, usageError } from './failure.ts';
import { createIntegerParser } from './option-parsers.ts';
import type { Output } from './output.ts';
import { openConnection } from './simulate/connection.ts';
import type { Credentials } from './simulate/credentials.ts';
import { registerDevices } from './simulate/fleet.ts';
import { type CommandContext, requireSetting } from './stack.ts';

const MAX_INTERVAL_SECONDS = 3_600;
const MAX_TIMEOUT_SECONDS = 300;
/** Time to live of a push: a push of an earlier run is of no use to the next one. */
const TIME_TO_LIVE_SECONDS = 60;

type Step = 'register' | 'connect' | 'accept' | 'receive';

/** Result of one push. `seconds` is the time from the request of `POST /push` to the push's arrival. */
type CanaryResult =
  | { ok: true; seconds: number; push: string }
  | { ok: false; step: Step; error: string };

interface CanaryOptions {
  app?: string;
  state: string;
  interval: number;
  timeout: number;
  listen?: ReturnType<typeof listenAddress.parse>;
  once?: boolean;
}

interface CanaryContext extends CommandContext {
  stopSignal: () => AbortSignal;
  err: (text: string) => void;
}

interface CanarySettings {
  api: string;
  key: string;
  mqtt: string;
  app: string;
  stateFile: string;
  timeoutMs: number;
  print: (line: string) => void;
}

/** Adds `carillon canary`, which measures the delivery of a push from the API to a device. */
export function addCanaryCommand(program: Command, context: CanaryContext): void {
  program
    .command('canary')
    .description(
      'send pushes to a device of its own, and measure the time from POST /push to their arrival',
    )
    .option(
      '--app <id>',
      'app of the API key; the device registers with it (default: CARILLON_APP)',
    )
    .requiredOption('--state <file>', "the device's credentials between two runs")
    .option(
      '--interval <seconds>',
      'pause between two pushes',
      createIntegerParser(1, MAX_INTERVAL_SECONDS),
      30,
    )
    .option(
      '--timeout <seconds>',
      'a push that takes longer has failed',
      createIntegerParser(1, MAX_TIMEOUT_SECONDS),
      10,
    )
    .option('--listen <host:port>', 'serve /metrics at this address', parseListenAddress)
    .option('--once', 'send one push, print its result, and exit with 1 when it failed')
    .action((options: CanaryOptions) => runCanary(context, options));
}

async function runCanary(
  { stack, output, stopSignal, err }: CanaryContext,
  { app, state, interval, timeout, listen, once = false }: CanaryOptions,
): Promise<void> {
  const target = stack();
  const ownApp = app ?? target.app;
  if (ownApp === undefined) throw usageError('Give --app, or set CARILLON_APP.');
  const signal = stopSignal();
  const canary = createCanary({
    api: requireSetting(target, 'api'),
    key: requireSetting(target, 'apiKey'),
    mqtt: requireSetting(target, 'mqtt'),
    app: ownApp,
    stateFile: state,
    timeoutMs: timeout * 1_000,
    print: (line) => err(`${line}\n`),
  });
  const metrics = createCanaryMetrics();
  const { trackActivity, list } = createProgress();
  const noteMeasurement = trackActivity('measurement');
  const health = { readiness: async () => [], liveness: async () => [], progress: list };
  const closeServer =
    listen === undefined ? undefined : await startOpsServer(listen, metrics, health);
  try {
    do {
      const result = await canary.measure(signal);
      // A push that the stop interrupted has not failed.
      if (signal.aborted) return;
      noteMeasurement();
      if (result.ok) metrics.recordSuccess(result.seconds);
      else metrics.recordFailure();
      show(output, result);
      if (once) return exitWith(result);
      await sleep(interval * 1_000, undefined, { signal }).catch(() => undefined);
    } while (!signal.aborted);
  } finally {
    await canary.close();
    await closeServer?.();
  }
}

function exitWith(result: CanaryResult): void {
  if (!result.ok) throw new Failure(EXIT.failure, `The canary failed: ${result.error}`, '');
}

function show(output: Output, result: CanaryResult): void {
  const line = result.ok
    ? `push ${result.push} arrived after ${(result.seconds * 1_000).toFixed(0)} ms`
    : `failed at the step ${result.step}: ${result.error}`;
  output.show(result, [line]);
}

/** Creates a device that sends pushes to itself. After a failure the next push connects again. */
function createCanary({ api, key, mqtt, app, stateFile, timeoutMs, print }: CanarySettings) {
  let connection: ReturnType<typeof openConnection> | undefined;
  let device: Credentials | undefined;
  let awaited: { mark: string; arrived: () => void } | undefined;

  async function register(signal: AbortSignal): Promise<Credentials> {
    const fleet = { app, platform: 'electron', size: 1, stateFile, print };
    const makeAddress = async () => undefined;
    const [registered] = await registerDevices(api, { ...fleet, makeAddress }, signal);
    if (registered === undefined) throw new Error('no device was registered');
    return registered;
  }
  function connect(credentials: Credentials): Promise<void> {
    connection ??= openConnection(mqtt, credentials, {
      connected: () => undefined,
      disconnected: () => undefined,
      // Late pushes of earlier runs arrive too.
      push: (_id, payload) => {
        if (awaited !== undefined && payload.includes(awaited.mark)) awaited.arrived();
      },
      rejected: () => undefined,
    });
    return connection.ready;
  }
  async function send({ token }: Credentials, mark: string): Promise<string> {
    const push = { to: token, data: { canary: mark }, time_to_live: TIME_TO_LIVE_SECONDS };
    const text = await requestApi(api, {
      method: 'POST',
      path: '/push',
      body: JSON.stringify(push),
      key,
    });
    return (JSON.parse(text) as { id: string }).id;
  }
  async function close(): Promise<void> {
    const closing = connection?.close();
    connection = undefined;
    await closing;
  }

  return {
    close,
    /** Sends a push and waits for it. A failure is a result, not an error. */
    async measure(stopSignal: AbortSignal): Promise<CanaryResult> {
      const deadline = AbortSignal.timeout(timeoutMs);
      const signal = AbortSignal.any([stopSignal, deadline]);
      // By hand: withTimeout of core takes a time, while here the end of the command stops the wait too.
      const within = <T>(task: Promise<T>) => Promise.race([task, rejectOnAbort(signal)]);
      let step: Step = 'register';
      try {
        device ??= await within(register(signal));
        step = 'connect';
        await within(connect(device));
        step = 'accept';
        const mark = randomUUID();
        const arrival = Promise.withResolvers<void>();
        awaited = { mark, arrived: arrival.resolve };
        const startedAt = performance.now();
        let arrivedAt = 0;
        const arrived = arrival.promise.then(() => {
          arrivedAt = performance.now();
        });
        const push = await within(send(device, mark));
        step = 'receive';
        await within(arrived);
        return { ok: true, seconds: (arrivedAt - startedAt) / 1_000, push };
      } catch (error) {
        // The device may have been deleted: the next run checks it, and registers another.
        device = undefined;
        await close();
        const isLate = deadline.aborted && !stopSignal.aborted;
        const text = isLate ? `not within ${timeoutMs / 1_000} s` : describeError(error);
        return { ok: false, step, error: text };
      } finally {
        awaited = undefined;
      }
    },
  };
}

function rejectOnAbort(signal: AbortSignal): Promise<never> {
  return new Promise((_resolve, reject) => {
    if (signal.aborted) reject(signal.reason);
    signal.addEventListener('abort', () => reject(signal.reason), { once: true });
  });
}

function parseListenAddress(text: string): ReturnType<typeof listenAddress.parse> {
  const { success, data } = listenAddress.safeParse(text);
  if (success) return data;
  throw new InvalidArgumentError('It must be host:port.');
}
