import { ensureDemoApp } from '@carillon/admin/demo-app';
import { createSetupLink } from '@carillon/admin/operators';
import { parseSealingKeys } from '@carillon/core/sealing';
import type { Command } from 'commander';
import { withStore } from './database.ts';
import { migrate } from './migrate.ts';
import { type CommandContext, requireSetting } from './stack.ts';

/** Adds `carillon prepare`, by which `npm start` prepares the database: one process instead of one for each step. */
export function addPrepareCommand(
  program: Command,
  context: CommandContext & { err(text: string): void },
): void {
  const { stack, output } = context;
  program
    .command('prepare', { hidden: true })
    .description('update the schema; ensure a demo app with credentials of the sandbox, if it runs')
    .option('--existing <id>', 'app to keep if the database has it')
    .option('--console <url>', 'console for the link that creates its first operator')
    .action(async (options: { existing?: string; console?: string }) => {
      const target = stack();
      const secrets = {
        pepper: requireSetting(target, 'pepper'),
        sealingKeys: parseSealingKeys(requireSetting(target, 'sealingKeys')),
      };
      const places = { existing: options.existing, sandbox: target.sandbox };
      await migrate(context, 0);
      const prepared = await withStore(target, async (store) => {
        const link = options.console && (await createSetupLink(store, options.console));
        // Last: the key of a new app is known to nobody if another step fails.
        const demo = await ensureDemoApp(store, secrets, places);
        return { ...demo, ...(link && { link }) };
      });
      const verb = prepared.apiKey === undefined ? 'exists' : 'created';
      output.show(prepared, [`App ${prepared.app} ${verb}.`]);
    });
}
