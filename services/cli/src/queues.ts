import { type QueuesView, readJobs, readQueues } from '@carillon/admin/queues';
import type { Command } from 'commander';
import { withStore } from './database.ts';
import { Failure } from './failure.ts';
import { type CommandContext, requireSetting } from './stack.ts';

/** Characters of a column with names or ids, and of one with numbers. */
const NAME_WIDTH = 24;
const NUMBER_WIDTH = 10;

/** Adds `carillon queues`, which shows what waits, by queue, channel and app. */
export function addQueuesCommand(program: Command, { stack, output }: CommandContext): void {
  program
    .command('queues')
    .description('show the jobs of the queues, and the pending batches of channels and apps')
    .action(async () => {
      const target = stack();
      const address = { url: requireSetting(target, 'redis'), ca: target.redisCa };
      const read = withStore(target, (store) => readQueues(store, address));
      const view = await read.catch(async (error: unknown) => {
        if (!(error instanceof Failure)) throw error;
        // MongoDB failed, and Redis has the jobs.
        const queues = await readJobs(address);
        output.show({ queues, error: error.message }, formatJobs(queues));
        throw new Failure(error.exitCode, error.message, '');
      });
      output.show(view, formatQueues(view));
    });
}

function formatJobs(queues: QueuesView['queues']): string[] {
  return [
    formatRow('QUEUE', ['WAITING', 'ACTIVE', 'DELAYED', 'OLDEST', 'WORKER']),
    ...queues.map(({ name, waiting, active, delayed, oldestWaitingMs, hasWorker }) =>
      formatRow(name, [
        ...[waiting, active, delayed, formatAge(oldestWaitingMs)],
        hasWorker ? 'yes' : 'none',
      ]),
    ),
  ];
}

function formatQueues({ queues, channels, apps }: QueuesView): string[] {
  return [
    ...formatJobs(queues),
    '',
    formatRow('CHANNEL', ['PENDING', 'DEFERRED', 'OLDEST']),
    ...channels.map(({ channel, pending, deferred, oldestMs }) =>
      formatRow(channel, [pending, deferred, formatAge(pending === 0 ? null : oldestMs)]),
    ),
    '',
    ...(apps.length === 0
      ? ['No app has pending batches.']
      : [formatRow('APP', ['PENDING', 'OLDEST'])]),
    ...apps.map(({ app, name, pending, isAtLeast, oldestMs, paused }) => {
      const row = formatRow(app, [`${isAtLeast ? '>=' : ''}${pending}`, formatAge(oldestMs)]);
      return `${row}  ${name}${paused ? ' (paused)' : ''}`;
    }),
  ];
}

function formatAge(ms: number | null): string {
  return ms === null ? '-' : `${Math.round(ms / 1_000)} s`;
}

function formatRow(name: string, cells: readonly (string | number)[]): string {
  return name.padEnd(NAME_WIDTH) + cells.map((cell) => `${cell}`.padStart(NUMBER_WIDTH)).join('');
}
