import type { Command } from 'commander';
import { withAdmin } from './admin/with-admin.ts';
import type { CommandContext } from './stack.ts';

/** Adds `carillon key …`: Secret API Keys, of which an app can have several. */
export function addKeyCommands(program: Command, { stack, output }: CommandContext): void {
  const key = program.command('key').description('manage Secret API Keys');
  key
    .command('create')
    .description('create a key, which is shown only once')
    .requiredOption('--app <id>', 'app of the key')
    .action(async ({ app }: { app: string }) => {
      const created = await withAdmin(stack(), (admin) => admin.createKey(app));
      output.show(created, [
        `Key ${created.id} created.`,
        `API key, shown only once: ${created.apiKey}`,
      ]);
    });
  key
    .command('list')
    .description("list an app's keys without their secrets")
    .requiredOption('--app <id>', 'the app')
    .action(async ({ app }: { app: string }) => {
      const views = await withAdmin(stack(), (admin) => admin.listKeys(app));
      output.show(
        views,
        views.map(
          ({ id, lastFour, createdAt, lastUsedAt, revokedAt }) =>
            `${id}  …${lastFour}  created ${createdAt.toISOString()}, ${lastUsedAt ? `last used ${lastUsedAt.toISOString()}` : 'no use recorded'}${revokedAt ? `, revoked ${revokedAt.toISOString()}` : ''}`,
        ),
      );
    });
  key
    .command('revoke')
    .description('revoke a key; it can work for up to 10 more seconds')
    .argument('<id>', 'id of the key')
    .option('--app <id>', 'app of the key; over the console it must be given')
    .action(async (id: string, { app }: { app?: string }) => {
      const revoked = await withAdmin(stack(), (admin) => admin.revokeKey(id, app));
      output.show(revoked, [`Key ${id} revoked.`]);
    });
}
