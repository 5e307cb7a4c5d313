import { type PrunedDevices, pruneDevices } from '@carillon/admin/prune-devices';
import { requireApp } from '@carillon/admin/require-app';
import type { Command } from 'commander';
import { runAudited } from './audited.ts';
import { type CommandStore, withStore } from './database.ts';
import { Failure, usageError } from './failure.ts';
import { parsePastTime } from './option-parsers.ts';
import { formatCount } from './output.ts';
import { type ProgressContext, startProgress } from './progress.ts';
import { type CommandContext, requireSetting, type Stack } from './stack.ts';

interface PruneOptions {
  app: string;
  notSeenSince: Date;
  dryRun?: true;
  yes?: true;
}

/** Everything that the command needs besides its options. */
export type PruneContext = CommandContext &
  ProgressContext & {
    /** Asks a question of yes and no. Absent: nobody can answer. */
    confirm?: ((question: string) => Promise<boolean>) | undefined;
  };

/** Adds `carillon device prune`. */
export function addPruneCommand(device: Command, context: PruneContext): void {
  device
    .command('prune')
    .description(
      'delete the devices of an app that were not seen: they did not register or connect, acknowledged nothing, and their provider accepted nothing',
    )
    .requiredOption('--app <id>', 'the app')
    .requiredOption(
      '--not-seen-since <time>',
      'when they were last seen: a date (2026-01-01), or how long ago (90d); at least 7 days ago',
      parseDate,
    )
    .option('--dry-run', 'count the devices, and delete nothing')
    .option('--yes', 'do not ask')
    .action(async (options: PruneOptions) => {
      const target = stackOf(context);
      const counts = await withStore(target.stack, (store) =>
        prune(context, store, target.redis, options),
      );
      const isDryRun = options.dryRun === true;
      context.output.show({ ...counts, dryRun: isDryRun }, describe(counts, isDryRun));
    });
}

function stackOf({ stack: find }: PruneContext) {
  const stack: Stack = find();
  const queues = { url: requireSetting(stack, 'redis'), ca: stack.redisCa };
  const presence = { url: stack.presenceRedis ?? queues.url, ca: stack.redisCa };
  return { stack, redis: { queues, presence } };
}

async function prune(
  context: PruneContext,
  store: CommandStore,
  redis: Parameters<typeof pruneDevices>[1],
  { app, notSeenSince, dryRun, yes }: PruneOptions,
): Promise<PrunedDevices> {
  const { account } = await requireApp(store, app);
  const run = async (isDryRun: boolean, total: number | undefined): Promise<PrunedDevices> => {
    const progress = startProgress(context, { total, noun: 'devices' });
    const update = ({ deleted }: PrunedDevices) => progress.update(deleted);
    try {
      return await pruneDevices(store, redis, { app, notSeenSince, isDryRun }, update);
    } finally {
      progress.stop();
    }
  };
  const found = await run(true, undefined);
  if (dryRun || found.deleted === 0) return found;
  const question = `Delete ${formatCount(found.deleted, 'device')} of app ${app}?`;
  if (!yes && context.confirm === undefined)
    throw usageError('Nothing was deleted: without a terminal to ask on, give --yes.');
  if (!yes && !(await context.confirm?.(question)))
    throw new Failure(1, 'Nothing was deleted.', '');
  const facts = { app, notSeenSince: notSeenSince.toISOString() };
  return runAudited(store, { action: 'device.prune', account, facts }, () =>
    run(false, found.deleted),
  );
}

/** A date alone is its begin in UTC. */
function parseDate(text: string): Date {
  return parsePastTime(/^\d{4}-\d\d-\d\d$/.test(text) ? `${text}T00:00:00Z` : text);
}

function describe({ deleted, connected, kept }: PrunedDevices, isDryRun: boolean): string[] {
  return [
    `${formatCount(deleted, 'device')} ${isDryRun ? 'would be deleted' : 'deleted'}.`,
    ...(connected === 0 ? [] : [`${formatCount(connected, 'device')} stay: they are connected.`]),
    ...(kept === 0
      ? []
      : [
          `${formatCount(kept, 'device')} stay: they were imported since, or their provider may have accepted a push since.`,
        ]),
  ];
}
