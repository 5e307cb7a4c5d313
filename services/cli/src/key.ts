import { createKey, listKeys, revokeKey } from '@carillon/admin/keys';
import type { Command } from 'commander';
import { withStore } from './database.ts';
import { type CommandContext, requireSetting } from './stack.ts';

/** Adds `carillon key …`: Secret API Keys, of which an app can have several. */
export function addKeyCommands(program: Command, { stack, output }: CommandContext): void {
  const key = program.command('key').description('manage Secret API Keys');
  key
    .command('create')
    .description('create a key, which is shown only once')
    .requiredOption('--app <id>', 'app of the key')
    .action(async ({ app }: { app: string }) => {
      const target = stack();
      const pepper = requireSetting(target, 'pepper');
      const created = await withStore(target, (store) => createKey(store, pepper, app));
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
      const views = await withStore(stack(), (store) => listKeys(store, app));
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
    .action(async (id: string) => {
      const revoked = await withStore(stack(), (store) => revokeKey(store, id));
      output.show(revoked, [`Key ${id} revoked.`]);
    });
}
