import { isTracked, PLATFORMS, type Platform } from '@carillon/core/channels';
import { type Command, Option } from 'commander';
import { usageError } from '../failure.ts';
import { createIntegerParser } from '../option-parsers.ts';
import { formatCount } from '../output.ts';
import { type CommandContext, requireSetting } from '../stack.ts';
import { createEvents, keepConnected, keepWatching, registerDevices } from './fleet.ts';
import { createAddressMaker, type MakeAddress } from './provider-address.ts';

const MAX_DEVICES = 100_000;
/** Maximum duration of a simulation. */
const MAX_SECONDS = 2_000_000;
const makeNoAddress: MakeAddress = async () => undefined;

interface SimulateOptions {
  app: string;
  devices: number;
  platform: Platform;
  fcm?: boolean;
  state?: string;
  seconds?: number;
}

interface SimulateContext extends CommandContext {
  stopSignal: () => AbortSignal;
  err: (text: string) => void;
}

/** Adds `carillon simulate`, which connects simulated devices to a stack. */
export function addSimulateCommand(program: Command, context: SimulateContext): void {
  program
    .command('simulate')
    .description('connect simulated devices and print the pushes that arrive, until stopped')
    .requiredOption('--app <id>', 'app that the devices register with')
    .option('--devices <n>', 'number of devices', createIntegerParser(1, MAX_DEVICES), 1)
    .addOption(
      new Option('--platform <platform>', 'platform of the devices')
        .choices(PLATFORMS)
        .default('electron'),
    )
    .option('--fcm', 'android devices also have an FCM token')
    .option(
      '--state <file>',
      'save the credentials of the devices in this file, and use them again in the next run',
    )
    .option(
      '--seconds <n>',
      'stop this many seconds after all devices are connected',
      createIntegerParser(1, MAX_SECONDS),
    )
    .action((options: SimulateOptions) => simulate(context, options));
}

async function simulate(
  { stack, output, stopSignal, err }: SimulateContext,
  { app, devices: size, platform, fcm = false, state, seconds }: SimulateOptions,
): Promise<void> {
  if (fcm && platform !== 'android') throw usageError('--fcm requires --platform android.');
  const target = stack();
  const api = requireSetting(target, 'api');
  const isConnected = isTracked(platform);
  const isWatched = fcm || !isConnected;
  const mqtt = isConnected ? requireSetting(target, 'mqtt') : '';
  const sandbox = isWatched ? requireSetting(target, 'sandbox') : '';
  const timeLimit = new AbortController();
  const signal = AbortSignal.any([stopSignal(), timeLimit.signal]);
  let timer: NodeJS.Timeout | undefined;
  const onAllReady = () => {
    if (!output.isJson())
      output.show(null, [`${formatCount(size, 'device')} connected. Stop with Ctrl-C.`]);
    if (seconds !== undefined) timer = setTimeout(() => timeLimit.abort(), seconds * 1_000);
  };
  try {
    const makeAddress = isWatched
      ? await createAddressMaker(sandbox, platform, fcm)
      : makeNoAddress;
    const stateFile = state !== undefined && { stateFile: state };
    const print = (line: string) => err(`${line}\n`);
    const fleet = { app, platform, size, makeAddress, print, ...stateFile };
    const devices = await registerDevices(api, fleet, signal);
    const events = createEvents(output);
    const tasks: SimulationTask[] = [];
    if (isConnected) tasks.push((options) => keepConnected(mqtt, devices, events, options));
    if (isWatched) tasks.push((options) => keepWatching(sandbox, devices, events, options));
    await runAll(tasks, {
      signal,
      onReady: () => {
        // A device without an MQTT connection counts as connected once the sandbox is watched.
        if (!isConnected) for (const { token } of devices) events.connected(token);
        onAllReady();
      },
    });
  } catch (error) {
    // An operation that the stop signal interrupted has not failed.
    if (!signal.aborted) throw error;
  } finally {
    clearTimeout(timer);
  }
}

/** Task that runs until its signal aborts, and reports when it is ready. */
type SimulationTask = (options: { signal: AbortSignal; onReady: () => void }) => Promise<void>;

/**
 * Runs tasks at the same time until `signal` aborts; when one fails, it stops the others and throws that error.
 *
 * @param onReady called once all tasks are ready
 */
async function runAll(
  tasks: readonly SimulationTask[],
  { signal, onReady }: { signal: AbortSignal; onReady: () => void },
): Promise<void> {
  const failure = new AbortController();
  const stopSignal = AbortSignal.any([signal, failure.signal]);
  let pendingCount = tasks.length;
  const onOneReady = () => {
    pendingCount -= 1;
    if (pendingCount === 0) onReady();
  };
  const running = tasks.map((task) => task({ signal: stopSignal, onReady: onOneReady }));
  try {
    await Promise.all(running);
  } finally {
    failure.abort();
    await Promise.allSettled(running);
  }
}
