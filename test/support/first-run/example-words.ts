import { generateKeyPairSync, randomUUID } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { newRequestId } from '../../../packages/core/src/ids.ts';
import { withStore } from '../api/tenants.ts';
import { runCarillonJson } from '../carillon.ts';
import { registerDevice } from '../register-device.ts';
import type { SharedStack } from '../shared-stack.ts';
import { callApi } from '../stack/call-api.ts';
import type { Dev } from '../stack/dev-file.ts';
import { createTemporaryFolder } from '../temporary-folder.ts';

/** Only in links: the stack runs no console. */
const CONSOLE = 'http://127.0.0.1:1';

/** A stack with an app for one example. */
interface ExampleApp {
  home: string;
  account: string;
  /** The stack's addresses with the app and its key. */
  dev: Dev;
  folder: string;
}

/** What a word of an example stands for. It is made for each run of the example. */
const WORDS: Record<string, (app: ExampleApp) => string | Promise<string>> = {
  ACCOUNT: ({ account }) => account,
  APP: ({ dev }) => dev.app,
  KEY: async ({ home, dev }) =>
    (await runCarillonJson<{ id: string }>(home, 'key', 'create', '--app', dev.app)).id,
  LINK: findInvite,
  OPERATOR: createOperator,
  OPERATOR_TOKEN: async ({ home }) =>
    (await runCarillonJson<{ id: string }>(home, 'operator', 'token', 'create', 'example')).id,
  PUSH: async ({ dev }) => {
    const { token } = await registerDevice(dev);
    const { json } = await callApi(dev, 'POST', '/push', { to: token, data: { a: 1 } });
    return `${json.id}`;
  },
  TOKEN: async ({ dev }) => (await registerDevice(dev)).token,
  TOPIC: async ({ dev }) => {
    const { token } = await registerDevice(dev);
    await callApi(dev, 'POST', '/topics/subscribe', { token, topics: ['news'] });
    return 'news';
  },
  WEBHOOK: async ({ home, dev }) => {
    const args = ['--app', dev.app, '--url', 'https://127.0.0.1:1/events'];
    type Added = { webhook: { id: string } };
    return (await runCarillonJson<Added>(home, 'webhook', 'add', ...args)).webhook.id;
  },
  // Of the webhook before it.
  REQUEST: ({ dev }) =>
    withStore({ dev }, async ({ webhooks, webhookRequests }) => {
      const [webhook] = await webhooks.list(dev.app);
      const [request, id] = [newRequestId(Date.now()), webhook?._id ?? ''];
      await webhookRequests.record(id, [
        {
          ...{ _id: request, webhook: id, at: new Date(), status: 200, milliseconds: 1, bytes: 2 },
          ...{ events: [`${id}.test.1`], types: [{ type: 'test', count: 1 }] },
        },
      ]);
      return request;
    }),
  'AuthKey_ABCDE12345.p8': ({ folder }) => {
    const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
    const key = privateKey.export({ format: 'pem', type: 'pkcs8' });
    return writeIn(folder, 'AuthKey_ABCDE12345.p8', `${key}`);
  },
  'service-account.json': ({ folder }) => {
    const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2_048 });
    const account = {
      ...{ type: 'service_account', project_id: 'demo', client_email: 'push@example.com' },
      private_key: privateKey.export({ format: 'pem', type: 'pkcs8' }),
      token_uri: 'https://oauth2.googleapis.com/token',
    };
    return writeIn(folder, 'service-account.json', JSON.stringify(account));
  },
  'fcm-tokens.csv': ({ folder }) => writeIn(folder, 'fcm-tokens.csv', `${randomUUID()}:APA91b\n`),
  'devices.ndjson': ({ folder }) => join(folder, 'devices.ndjson'),
  'canary.json': ({ folder }) => join(folder, 'canary.json'),
};

/**
 * Makes an app of its own for an example, and all that the example names.
 *
 * @param line the example as the help shows it
 * @returns its arguments, and the environment for its app
 */
export async function prepareExample({ home, dev }: SharedStack, line: string) {
  type Created = { id: string; apiKey: string };
  const { id: account } = await runCarillonJson<Created>(home, 'account', 'create', 'Example');
  await runCarillonJson(home, 'account', 'limit', account, 'unlimited');
  const ofAccount = ['--account', account];
  const created = await runCarillonJson<Created>(home, 'app', 'create', 'Shop', ...ofAccount);
  const { id: app, apiKey } = created;
  const own = { home, account, dev: { ...dev, app, apiKey }, folder: createTemporaryFolder() };
  const [, ...words] = line.match(/'[^']*'|\S+/g) ?? [];
  const args: string[] = [];
  for (const word of words) args.push((await WORDS[word]?.(own)) ?? word.replaceAll("'", ''));
  return { args, env: { CARILLON_API: dev.api, CARILLON_API_KEY: apiKey, CONSOLE_URL: CONSOLE } };
}

function createOperator({ dev }: ExampleApp): Promise<string> {
  return withStore({ dev }, async ({ operators }) => {
    const operator = {
      name: randomUUID(),
      role: 'viewer',
      accounts: [],
      passwordHash: 'h',
    } as const;
    const id = await operators.create(operator);
    if (id === undefined) throw new Error('the operator exists');
    return id;
  });
}

async function findInvite({ home, account }: ExampleApp): Promise<string> {
  const options = ['--account', account, '--console', CONSOLE];
  await runCarillonJson(home, 'operator', 'invite', ...options);
  type Link = { id: string; accounts: string[] | 'all' };
  const links = await runCarillonJson<Link[]>(home, 'operator', 'links', '--limit', '1000');
  const link = links.find(({ accounts }) => accounts.includes(account));
  if (link === undefined) throw new Error('the invite is not listed');
  return link.id;
}

function writeIn(folder: string, name: string, content: string): string {
  const path = join(folder, name);
  writeFileSync(path, content);
  return path;
}
