import { parseSealingKeys } from '@carillon/core/sealing';
import type { AppDocument } from '@carillon/store/documents';
import type { Store } from '@carillon/store/store';
import type { Command } from 'commander';
import {
  addSettingOptions,
  appLines,
  appView,
  type SettingOptions,
  settingsOf,
} from './app-settings.ts';
import { keepCredential } from './credential/keep.ts';
import { checkWebPush } from './credential/web-push.ts';
import { withStore } from './database.ts';
import { misused, refused } from './failure.ts';
import { makeKey } from './key.ts';
import type { Output } from './output.ts';
import { need, type Stack } from './stack.ts';

/** `carillon app …`: the tenants that own devices, topics and pushes. */
export function addAppCommands(
  program: Command,
  { stack, output }: { stack: () => Stack; output: Output },
): void {
  const app = program.command('app').description('apps: tenants and their settings');

  function showApp(id: string, found: AppDocument | undefined): void {
    if (found === undefined) throw refused(`There is no app ${id}.`);
    const view = appView(found);
    output.show(view, appLines(view));
  }

  app
    .command('create')
    .description(
      'make an app with a first key, which is shown this once, and a key pair for browsers',
    )
    .argument('<name>')
    .requiredOption('--account <id>', 'its account')
    .action(async (name: string, { account }: { account: string }) => {
      const where = stack();
      // Looked up before anything is made: an app without a key would be left behind.
      const pepper = need(where, 'pepper');
      const sealingKeys = parseSealingKeys(need(where, 'sealingKeys'));
      const made = await withStore(where, async (store) => {
        if ((await store.accounts.find(account)) === undefined) {
          throw refused(`There is no account ${account}.`);
        }
        const id = await store.apps.create(name, account);
        const pair = checkWebPush({});
        await keepCredential(store, sealingKeys, { app: id, channel: pair.channel }, pair);
        return { id, apiKey: (await makeKey(store, pepper, id)).apiKey };
      });
      output.show(made, [`App ${made.id} made.`, `API key, shown this once: ${made.apiKey}`]);
    });
  app
    .command('show')
    .description('show an app and its settings')
    .argument('<id>')
    .action(async (id: string) =>
      showApp(id, await withStore(stack(), (store) => store.apps.find(id))),
    );
  addSettingOptions(
    app.command('set').description('change settings of an app').argument('<id>'),
  ).action(async (id: string, options: SettingOptions) => {
    if (Object.keys(options).length === 0) {
      throw misused('Say what to set, for instance --payload-limit 8192.');
    }
    const change = (store: Store) => store.apps.change(id, settingsOf(options));
    showApp(id, await withStore(stack(), change));
  });
}
