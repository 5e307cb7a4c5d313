import { apiKeyDigest } from '@carillon/core/api-key';
import { newApiKey } from '@carillon/core/ids';
import type { Store } from '@carillon/store/store';
import type { Command } from 'commander';
import { needApp, withStore } from './database.ts';
import { refused } from './failure.ts';
import type { Output } from './output.ts';
import { need, type Stack } from './stack.ts';

/** `carillon key …`: Secret API Keys, of which an app may have several. */
export function addKeyCommands(
  program: Command,
  { stack, output }: { stack: () => Stack; output: Output },
): void {
  const key = program.command('key').description('Secret API Keys');
  key
    .command('create')
    .description('make a key; it is shown this once')
    .requiredOption('--app <id>', 'its app')
    .action(async ({ app }: { app: string }) => {
      const where = stack();
      const pepper = need(where, 'pepper');
      const made = await withStore(where, async (store) => {
        await needApp(store, app);
        return makeKey(store, pepper, app);
      });
      output.show(made, [`Key ${made.id} made.`, `API key, shown this once: ${made.apiKey}`]);
    });
  key
    .command('list')
    .description("list an app's keys, never the keys themselves")
    .requiredOption('--app <id>', 'the app')
    .action(async ({ app }: { app: string }) => {
      const keys = await withStore(stack(), async (store) => {
        await needApp(store, app);
        return store.keys.list(app);
      });
      const views = keys.map(({ _id, ...facts }) => ({ id: _id, ...facts }));
      output.show(
        views,
        views.map(
          ({ id, lastFour, createdAt, revokedAt }) =>
            `${id}  …${lastFour}  made ${createdAt.toISOString()}${revokedAt ? `, revoked ${revokedAt.toISOString()}` : ''}`,
        ),
      );
    });
  key
    .command('revoke')
    .description('revoke a key; it may work for 10 more seconds')
    .argument('<id>', "the key's id")
    .action(async (id: string) => {
      const done = await withStore(stack(), (store) => store.keys.revoke(id));
      if (!done) throw refused(`There is no key ${id} that could be revoked.`);
      output.show({ id }, [`Key ${id} revoked.`]);
    });
}

/**
 * Makes a key of an app.
 *
 * @returns the key's id, and the key itself, which nothing can tell again
 */
export async function makeKey(
  store: Pick<Store, 'keys'>,
  pepper: string,
  app: string,
): Promise<{ id: string; apiKey: string }> {
  const apiKey = newApiKey();
  const id = await store.keys.create(app, apiKeyDigest(pepper, apiKey), apiKey.slice(-4));
  return { id, apiKey };
}
