import { setTimeout as sleep } from 'node:timers/promises';
import { nameMongodb } from '@carillon/admin/doctor';
import type { Store } from '@carillon/store/store';
import type { Command } from 'commander';
import { hostOf, withStore } from './database.ts';
import { commandFailed, EXIT, Failure } from './failure.ts';
import { createSecondsParser } from './option-parsers.ts';
import { formatCount } from './output.ts';
import { type CommandContext, requireSetting, type Stack } from './stack.ts';

/** Maximum duration of building an index: over many documents it can take hours. */
const INDEX_BUILD_TIMEOUT_MS = 6 * 3_600_000;
const MAX_WAIT_SECONDS = 86_400;
const RETRY_INTERVAL_MS = 1_000;

/** Adds `carillon migrate`, which updates the database to the schema of this version. */
export function addMigrateCommand(
  program: Command,
  context: CommandContext & { err(text: string): void },
): void {
  program
    .command('migrate')
    .description('update the schema of the database: indexes and steps; safe to repeat')
    .option('--check', 'change nothing; exit with 1 if the schema is behind')
    .option(
      '--wait <time>',
      'longest wait for MongoDB to be reachable, such as 2m',
      createSecondsParser(MAX_WAIT_SECONDS),
      0,
    )
    .action(({ check = false, wait }: { check?: boolean; wait: number }) =>
      check ? checkSchema(context) : runMigration(context, wait),
    );
}

async function runMigration(
  context: CommandContext & { err(text: string): void },
  waitSeconds: number,
): Promise<void> {
  const done = await migrate(context, waitSeconds);
  const { servers, version, steps, indexes } = done;
  context.output.show({ migrated: true, ...done }, [
    `MongoDB is ${servers}.`,
    `The database is up to date. Its schema has version ${version}.`,
    `Steps run: ${steps.join(', ') || 'none'}. Indexes created: ${indexes.join(', ') || 'none'}.`,
  ]);
}

/**
 * Updates the schema, once MongoDB can be reached.
 *
 * @param waitSeconds longest wait for MongoDB
 * @throws Failure when it can't be reached, or is of a kind that this release does not support
 */
export function migrate(
  { stack, err }: Pick<CommandContext, 'stack'> & { err(text: string): void },
  waitSeconds: number,
) {
  const onWait = (): void => err('Another migration runs; waiting for its end.\n');
  const update = async (store: Store) => ({
    servers: await requireSupportedServers(store, stack()),
    ...(await store.migrate({ onWait })),
  });
  const runOnce = () => withStore(stack(), update, { timeoutMs: INDEX_BUILD_TIMEOUT_MS });
  return repeatUntilReachable(runOnce, waitSeconds, err);
}

/** Names the servers of MongoDB. @throws Failure when this release does not support them: nothing is changed there */
async function requireSupportedServers(
  store: Pick<Store, 'topology'>,
  stack: Stack,
): Promise<string> {
  const topology = await store.topology();
  try {
    return nameMongodb(topology);
  } catch (error) {
    const host = hostOf(requireSetting(stack, 'mongodb'));
    throw commandFailed(`MongoDB at ${host} is ${(error as Error).message}.`);
  }
}

/** Repeats an operation while MongoDB can't be reached, for at most `waitSeconds`. @throws the last failure */
async function repeatUntilReachable<T>(
  operation: () => Promise<T>,
  waitSeconds: number,
  err: (text: string) => void,
): Promise<T> {
  const deadline = performance.now() + waitSeconds * 1_000;
  for (let isFirst = true; ; isFirst = false) {
    try {
      return await operation();
    } catch (error) {
      const isUnreachable = error instanceof Failure && error.exitCode === EXIT.unreachable;
      if (!isUnreachable || performance.now() >= deadline) throw error;
      if (isFirst) err(`${error.message} Waiting for it.\n`);
    }
    await sleep(RETRY_INTERVAL_MS);
  }
}

async function checkSchema({ stack, output }: CommandContext): Promise<void> {
  const status = await withStore(stack(), async (store) => {
    await requireSupportedServers(store, stack());
    return store.schema.status();
  });
  const { version, latest, steps, indexes } = status;
  const isCurrent = steps.length === 0 && indexes.length === 0;
  const lines = isCurrent ? [`The schema is up to date: version ${version}.`] : [];
  output.show({ current: isCurrent, ...status }, lines);
  if (isCurrent) return;
  const missing = indexes.length === 0 ? '' : ` Missing indexes: ${indexes.join(', ')}.`;
  const message = `The schema has version ${version} of ${latest}, ${formatCount(steps.length, 'step')} to run.${missing} Run carillon migrate.`;
  throw new Failure(EXIT.failure, message, '');
}
