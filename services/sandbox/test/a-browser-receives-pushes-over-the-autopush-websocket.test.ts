import { once } from 'node:events';
import { Agent } from 'node:https';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import webPush from 'web-push';
import WebSocket from 'ws';
import { until } from '../../../test/support/until.ts';
import { type SandboxUnderTest, startSandbox } from './sandbox-under-test.ts';

const vapid = webPush.generateVAPIDKeys();
const CHANNEL = 'a4b3c2d1-0000-4000-8000-000000000000';

let sandbox: SandboxUnderTest;
let agent: Agent;
const sockets: WebSocket[] = [];

beforeAll(async () => {
  sandbox = await startSandbox();
  agent = new Agent({ ca: sandbox.credentials.ca });
});

afterEach(async () => {
  for (const connection of sockets.splice(0)) connection.terminate();
  await sandbox.reset();
});

afterAll(async () => {
  agent.destroy();
  await sandbox.stop();
});

type ServerMessage = Record<string, unknown>;

/** The browser's side of the protocol. */
async function connectBrowser(uaid?: string) {
  const socket = new WebSocket(sandbox.control.replace('http', 'ws'), 'push-notification');
  sockets.push(socket);
  const serverMessages: ServerMessage[] = [];
  socket.on('message', (data) => serverMessages.push(JSON.parse(String(data))));
  await once(socket, 'open');
  const send = (message: object) => socket.send(JSON.stringify(message));
  /** Returns the next message of this type. */
  const waitForMessage = (type: string): Promise<ServerMessage> =>
    until(() => {
      const at = serverMessages.findIndex(({ messageType }) => messageType === type);
      return at < 0 ? undefined : serverMessages.splice(at, 1)[0];
    });
  const disconnect = async () => {
    socket.close();
    await once(socket, 'close');
  };
  send({ messageType: 'hello', use_webpush: true, broadcasts: {}, ...(uaid && { uaid }) });
  const hello = await waitForMessage('hello');
  expect(hello).toMatchObject({ status: 200, use_webpush: true });
  return { serverMessages, send, waitForMessage, disconnect, uaid: String(hello.uaid) };
}

type BrowserConnection = Awaited<ReturnType<typeof connectBrowser>>;

async function register(connection: BrowserConnection, key?: string): Promise<string> {
  connection.send({ messageType: 'register', channelID: CHANNEL, ...(key && { key }) });
  const { pushEndpoint, status } = await connection.waitForMessage('register');
  expect(status).toBe(200);
  return String(pushEndpoint);
}

/** Keys of a subscription whose pushes nothing decrypts. */
async function sendPush(endpoint: string, options: webPush.RequestOptions = {}): Promise<number> {
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
  test('receives a push, and its acknowledgement is logged', async () => {
    const connection = await connectBrowser();
    // Firefox pads the key.
    const endpoint = await register(connection, `${vapid.publicKey}=`);
    expect(await sendPush(endpoint)).toBe(201);
    const { version, ...rest } = await connection.waitForMessage('notification');
    expect(rest).toMatchObject({ channelID: CHANNEL, headers: { encoding: 'aes128gcm' } });
    expect(Buffer.from(String(rest.data), 'base64url').length).toBeGreaterThan(86);
    connection.send({ messageType: 'ack', updates: [{ channelID: CHANNEL, version, code: 100 }] });
    await until(async () => (await sandbox.received())[0]?.acked === 100);
  });

  test('with a VAPID key receives no push signed with another key', async () => {
    const endpoint = await register(await connectBrowser(), webPush.generateVAPIDKeys().publicKey);
    expect(await sendPush(endpoint)).toBe(403);
  });

  test('that reconnects receives missed pushes, but none that it acknowledged', async () => {
    const connection = await connectBrowser();
    const endpoint = await register(connection);
    await sendPush(endpoint);
    const { version } = await connection.waitForMessage('notification');
    connection.send({ messageType: 'ack', updates: [{ channelID: CHANNEL, version, code: 100 }] });
    await until(async () => (await sandbox.received())[0]?.acked === 100);
    await connection.disconnect();
    await sendPush(endpoint, { TTL: 60, topic: 'a' });
    await sendPush(endpoint, { TTL: 60, topic: 'a' });
    await sendPush(endpoint, { TTL: 0 });
    const reconnected = await connectBrowser(connection.uaid);
    expect(reconnected.uaid).toBe(connection.uaid);
    reconnected.send({});
    await until(() =>
      reconnected.serverMessages.some((message) => Object.keys(message).length === 0),
    );
    expect(
      reconnected.serverMessages.filter(({ messageType }) => messageType === 'notification'),
    ).toHaveLength(1);
  });

  test('that unregisters has no endpoint: pushes get status 410', async () => {
    const connection = await connectBrowser();
    const endpoint = await register(connection);
    connection.send({ messageType: 'unregister', channelID: CHANNEL, code: 200 });
    expect(await connection.waitForMessage('unregister')).toMatchObject({ status: 200 });
    expect(await sendPush(endpoint)).toBe(410);
  });

  test('may send unknown messages, which are ignored', async () => {
    const connection = await connectBrowser();
    connection.send({ messageType: 'broadcast_subscribe', broadcasts: {} });
    connection.send([1]);
    expect(await register(connection)).toContain('/wpush/v2/');
  });
});
