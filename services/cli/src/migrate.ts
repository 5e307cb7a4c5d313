import type { Command } from 'commander';
import { withStore } from './database.ts';
import { EXIT, Failure } from './failure.ts';
import { formatCount } from './output.ts';
import type { CommandContext } from './stack.ts';

/** Building an index over many documents can take hours. */
const INDEX_BUILD_TIMEOUT_MS = 6 * 3_600_000;

/** Adds `carillon migrate`, which updates the database to the schema of this version. */
export function addMigrateCommand(
  program: Command,
  context: CommandContext & { err(text: string): void },
): void {
  program
    .command('migrate')
    .description('update the schema of the database: indexes and steps; safe to repeat')
    .option('--check', 'change nothing; exit with 1 if the schema is behind')
    .action(({ check = false }: { check?: boolean }) =>
      check ? checkSchema(context) : runMigration(context),
    );
}

async function runMigration({
  stack,
  output,
  err,
}: CommandContext & { err(text: string): void }): Promise<void> {
  const onWait = (): void => err('Another migration runs; waiting for its end.\n');
  const { version, steps, indexes } = await withStore(
    stack(),
    (store) => store.migrate({ onWait }),
    INDEX_BUILD_TIMEOUT_MS,
  );
  const done = `Steps run: ${steps.join(', ') || 'none'}. Indexes created: ${indexes.join(', ') || 'none'}.`;
  const lines = [`The database is up to date. Its schema has version ${version}.`, done];
  output.show({ migrated: true, version, steps, indexes }, lines);
}

async function checkSchema({ stack, output }: CommandContext): Promise<void> {
  const status = await withStore(stack(), (store) => store.schema.status());
  const { version, latest, steps, indexes } = status;
  const isCurrent = steps.length === 0 && indexes.length === 0;
  const lines = isCurrent ? [`The schema is up to date: version ${version}.`] : [];
  output.show({ current: isCurrent, ...status }, lines);
  if (isCurrent) return;
  const missing = indexes.length === 0 ? '' : ` Missing indexes: ${indexes.join(', ')}.`;
  const message = `The schema has version ${version} of ${latest}, ${formatCount(steps.length, 'step')} to run.${missing} Run carillon migrate.`;
  throw new Failure(EXIT.failure, message, '');
}
