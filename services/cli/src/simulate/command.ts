import { isTracked, PLATFORMS, type Platform } from '@carillon/core/platforms';
import { type Command, Option } from 'commander';
import { wholeNumber } from '../arguments.ts';
import { misused } from '../failure.ts';
import { count, type Output } from '../output.ts';
import { need, type Stack } from '../stack.ts';
import { createEvents } from './events.ts';
import { enrol, keepConnected, keepWatching } from './fleet.ts';
import { addressMaker, type MakeAddress } from './provider-address.ts';
import { type Run, together } from './together.ts';

const MOST_DEVICES = 100_000;
const LONGEST_SECONDS = 2_000_000;
const NO_ADDRESS: MakeAddress = async () => undefined;

interface SimulateOptions {
  app: string;
  devices: number;
  platform: Platform;
  fcm?: boolean;
  state?: string;
  seconds?: number;
}

/** `carillon simulate`: devices at the wire, to try a stack with. */
export function addSimulateCommand(
  program: Command,
  deps: { stack: () => Stack; output: Output; stopSignal: () => AbortSignal },
): void {
  program
    .command('simulate')
    .description('connect simulated devices and print the pushes that arrive, until stopped')
    .requiredOption('--app <id>', 'the app they register with')
    .option('--devices <n>', 'how many', wholeNumber(1, MOST_DEVICES), 1)
    .addOption(
      new Option('--platform <platform>', 'what they say they are')
        .choices(PLATFORMS)
        .default('electron'),
    )
    .option('--fcm', 'android devices can be reached by FCM too')
    .option('--state <file>', 'keep their credentials here, and use them again next time')
    .option(
      '--seconds <n>',
      'stop this long after all are connected',
      wholeNumber(1, LONGEST_SECONDS),
    )
    .action((options: SimulateOptions) => simulate(deps, options));
}

async function simulate(
  { stack, output, stopSignal }: Parameters<typeof addSimulateCommand>[1],
  { app, devices: size, platform, fcm = false, state, seconds }: SimulateOptions,
): Promise<void> {
  if (fcm && platform !== 'android') throw misused('Only android devices have FCM.');
  const where = stack();
  const api = need(where, 'api');
  const isConnected = isTracked(platform);
  const isWatched = fcm || !isConnected;
  const mqtt = isConnected ? need(where, 'mqtt') : '';
  const sandbox = isWatched ? need(where, 'sandbox') : '';
  const enough = new AbortController();
  const signal = AbortSignal.any([stopSignal(), enough.signal]);
  let timer: NodeJS.Timeout | undefined;
  const onAllReady = () => {
    if (!output.isJson())
      output.show(null, [`${count(size, 'device')} connected. Stop with Ctrl-C.`]);
    if (seconds !== undefined) timer = setTimeout(() => enough.abort(), seconds * 1_000);
  };
  try {
    const makeAddress = isWatched ? await addressMaker(sandbox, platform, fcm) : NO_ADDRESS;
    const stateFile = state !== undefined && { stateFile: state };
    const devices = await enrol(api, { app, platform, size, makeAddress, ...stateFile }, signal);
    const events = createEvents(output);
    const runs: Run[] = [];
    if (isConnected) runs.push((options) => keepConnected(mqtt, devices, events, options));
    if (isWatched) runs.push((options) => keepWatching(sandbox, devices, events, options));
    await together(runs, {
      signal,
      onReady: () => {
        // A device without a link of its own is there once what comes for it is seen.
        if (!isConnected) for (const { token } of devices) events.connected(token);
        onAllReady();
      },
    });
  } catch (error) {
    // What an early stop cuts off has not failed.
    if (!signal.aborted) throw error;
  } finally {
    clearTimeout(timer);
  }
}
