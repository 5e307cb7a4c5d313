import { Agent } from 'node:https';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import webPush from 'web-push';
import WebSocket from 'ws';
import { until } from '../../../test/support/until.ts';
import { startSandbox, type UnderTest } from './sandbox-under-test.ts';

const vapid = webPush.generateVAPIDKeys();
const CHANNEL = 'a4b3c2d1-0000-4000-8000-000000000000';

let sandbox: UnderTest;
let agent: Agent;
const links: WebSocket[] = [];

beforeAll(async () => {
  sandbox = await startSandbox();
  agent = new Agent({ ca: sandbox.credentials.ca });
});

afterEach(async () => {
  for (const link of links.splice(0)) link.terminate();
  await sandbox.reset();
});

afterAll(async () => {
  agent.destroy();
  await sandbox.stop();
});

type Heard = Record<string, unknown>;

/** A browser's side of the protocol. */
interface Link {
  heard: Heard[];
  say(message: object): void;
  /** The next message of this type. */
  hear(messageType: string): Promise<Heard>;
  leave(): Promise<void>;
}

async function connect(uaid?: string): Promise<Link & { uaid: string }> {
  const socket = new WebSocket(sandbox.control.replace('http', 'ws'), 'push-notification');
  links.push(socket);
  const heard: Heard[] = [];
  socket.on('message', (data) => heard.push(JSON.parse(String(data))));
  await new Promise((resolve) => socket.once('open', resolve));
  const link: Link = {
    heard,
    say: (message) => socket.send(JSON.stringify(message)),
    hear: (type) =>
      until(() => {
        const at = heard.findIndex(({ messageType }) => messageType === type);
        return at < 0 ? undefined : heard.splice(at, 1)[0];
      }),
    leave: async () => {
      socket.close();
      await new Promise((resolve) => socket.once('close', resolve));
    },
  };
  link.say({ messageType: 'hello', use_webpush: true, broadcasts: {}, ...(uaid && { uaid }) });
  const hello = await link.hear('hello');
  expect(hello).toMatchObject({ status: 200, use_webpush: true });
  return { ...link, uaid: String(hello.uaid) };
}

async function register(link: Link, key?: string): Promise<string> {
  link.say({ messageType: 'register', channelID: CHANNEL, ...(key && { key }) });
  const { pushEndpoint, status } = await link.hear('register');
  expect(status).toBe(200);
  return String(pushEndpoint);
}

/** What the browser would decrypt is not of interest here, so its keys are anybody's. */
async function push(endpoint: string, options: webPush.RequestOptions = {}): Promise<number> {
  const { key, auth } = (await sandbox.call('POST', '/web-push/subscriptions')) as {
    key: string;
    auth: string;
  };
  const vapidDetails = { subject: 'mailto:a@example.com', ...vapid };
  const subscription = { endpoint, keys: { p256dh: key, auth } };
  try {
    const sent = await webPush.sendNotification(subscription, '{"a":1}', {
      agent,
      vapidDetails,
      ...options,
    });
    return sent.statusCode;
  } catch (error) {
    return error instanceof webPush.WebPushError ? error.statusCode : 0;
  }
}

describe('a browser', () => {
  test('gets a push, and what it says of it is shown', async () => {
    const link = await connect();
    // Firefox pads the key.
    const endpoint = await register(link, `${vapid.publicKey}=`);
    expect(await push(endpoint)).toBe(201);
    const { version, ...rest } = await link.hear('notification');
    expect(rest).toMatchObject({ channelID: CHANNEL, headers: { encoding: 'aes128gcm' } });
    expect(Buffer.from(String(rest.data), 'base64url').length).toBeGreaterThan(86);
    link.say({ messageType: 'ack', updates: [{ channelID: CHANNEL, version, code: 100 }] });
    await until(async () => (await sandbox.received())[0]?.acked === 100);
  });

  test('bound to a key gets no push of another', async () => {
    const endpoint = await register(await connect(), webPush.generateVAPIDKeys().publicKey);
    expect(await push(endpoint)).toBe(403);
  });

  test('that comes back gets what it missed, but not what it acknowledged', async () => {
    const link = await connect();
    const endpoint = await register(link);
    await push(endpoint);
    const { version } = await link.hear('notification');
    link.say({ messageType: 'ack', updates: [{ channelID: CHANNEL, version, code: 100 }] });
    await until(async () => (await sandbox.received())[0]?.acked === 100);
    await link.leave();
    await push(endpoint, { TTL: 60, topic: 'a' });
    await push(endpoint, { TTL: 60, topic: 'a' });
    await push(endpoint, { TTL: 0 });
    const again = await connect(link.uaid);
    expect(again.uaid).toBe(link.uaid);
    again.say({});
    await until(() => again.heard.some((message) => Object.keys(message).length === 0));
    expect(again.heard.filter(({ messageType }) => messageType === 'notification')).toHaveLength(1);
  });

  test('that unregisters is gone', async () => {
    const link = await connect();
    const endpoint = await register(link);
    link.say({ messageType: 'unregister', channelID: CHANNEL, code: 200 });
    expect(await link.hear('unregister')).toMatchObject({ status: 200 });
    expect(await push(endpoint)).toBe(410);
  });

  test('may say what nobody understands', async () => {
    const link = await connect();
    link.say({ messageType: 'broadcast_subscribe', broadcasts: {} });
    link.say([1]);
    expect(await register(link)).toContain('/wpush/v2/');
  });
});
