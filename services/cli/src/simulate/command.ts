import { isTracked, PLATFORMS } from '@carillon/core/platforms';
import { type Command, Option } from 'commander';
import { wholeNumber } from '../arguments.ts';
import { count, type Output } from '../output.ts';
import { need, type Stack } from '../stack.ts';
import { createEvents } from './events.ts';
import { enrol, keepConnected } from './fleet.ts';

const MOST_DEVICES = 100_000;
const LONGEST_SECONDS = 2_000_000;

interface SimulateOptions {
  app: string;
  devices: number;
  platform: string;
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
        .choices(PLATFORMS.filter(isTracked))
        .default('electron'),
    )
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
  { app, devices: size, platform, state, seconds }: SimulateOptions,
): Promise<void> {
  const where = stack();
  const api = need(where, 'api');
  const mqtt = need(where, 'mqtt');
  const enough = new AbortController();
  const signal = AbortSignal.any([stopSignal(), enough.signal]);
  let timer: NodeJS.Timeout | undefined;
  const onReady = () => {
    if (!output.isJson())
      output.show(null, [`${count(size, 'device')} connected. Stop with Ctrl-C.`]);
    if (seconds !== undefined) timer = setTimeout(() => enough.abort(), seconds * 1_000);
  };
  try {
    const fleet = { app, platform, size, ...(state !== undefined && { stateFile: state }) };
    const devices = await enrol(api, fleet, signal);
    await keepConnected(mqtt, devices, createEvents(output), { signal, onReady });
  } catch (error) {
    // What an early stop cuts off has not failed.
    if (!signal.aborted) throw error;
  } finally {
    clearTimeout(timer);
  }
}
