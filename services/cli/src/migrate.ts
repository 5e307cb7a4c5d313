import type { Command } from 'commander';
import { withStore } from './database.ts';
import type { Output } from './output.ts';
import type { Stack } from './stack.ts';

/** Building an index over many documents takes its time. */
const BUILD_MS = 6 * 3_600_000;

/** `carillon migrate`: brings the database to what this version expects. */
export function addMigrateCommand(
  program: Command,
  { stack, output }: { stack: () => Stack; output: Output },
): void {
  program
    .command('migrate')
    .description('create the indexes that are missing; harmless when repeated')
    .action(async () => {
      await withStore(stack(), (store) => store.migrate(), BUILD_MS);
      output.show({ migrated: true }, ['The database is up to date.']);
    });
}
