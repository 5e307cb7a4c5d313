import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { SecretOf } from '@carillon/core/credentials';

const MAIN = fileURLToPath(new URL('../../sandbox/src/main.ts', import.meta.url));
const START_MS = 20_000;

type Channel = 'apns' | 'fcm' | 'web-push';

/** One request that the sandbox got. */
export interface Received {
  to: string;
  push: string | null;
  status: number | null;
  headers: Record<string, string>;
  payload: unknown;
}

interface Counts {
  doubles: number;
  byChannel: Record<Channel, { connections: number }>;
}

interface Place {
  host: string;
  port: number;
}

interface Credentials {
  ca: string;
  apns: Place & {
    key: string;
    keyId: string;
    teamId: string;
    certificate: string;
    certificateKey: string;
    bundle: string;
  };
  fcm: Place & { serviceAccount: Record<string, string> };
  webPush: Place;
}

/** A simulated browser's subscription. */
export interface Subscription {
  endpoint: string;
  key: string;
  auth: string;
}

/** The providers' sandbox as a process of its own. */
export interface ProviderSandbox {
  bundle: string;
  apnsToken: SecretOf<'apns-token'>;
  apnsCertificate: SecretOf<'apns-certificate'>;
  fcm: SecretOf<'fcm'>;
  /** Where its Web Push service is, and what its certificate is checked against. */
  webPush: { host: string; ca: string };
  /** Makes a simulated browser. */
  subscribe(): Promise<Subscription>;
  /** The next requests for a provider token are answered so, one by one; the last stays. */
  script(channel: Channel, token: string, ...answers: object[]): Promise<void>;
  /** As {@link script}, and after the last one as usual. */
  scriptOnce(channel: Channel, token: string, ...answers: object[]): Promise<void>;
  conduct(channel: Channel, conduct: object): Promise<void>;
  received(channel: Channel, to?: string): Promise<Received[]>;
  /** Pushes that were accepted more than once for one device. */
  doubles(): Promise<number>;
  /** Connections that were made. */
  connections(channel: Channel): Promise<number>;
  /** Everything as usual, nothing received. */
  reset(): Promise<void>;
  stop(): Promise<void>;
}

/** Starts a sandbox with files of its own. */
export async function startProviderSandbox(): Promise<ProviderSandbox> {
  const files = await mkdtemp(join(tmpdir(), 'provider-sandbox-'));
  const port = await freePort();
  const anyPort = '127.0.0.1:0';
  const child = spawn(process.execPath, [MAIN], {
    stdio: ['ignore', 'ignore', 'inherit'],
    env: {
      PATH: process.env.PATH,
      LOG_LEVEL: 'warn',
      OPS_LISTEN: anyPort,
      SANDBOX_LISTEN: `127.0.0.1:${port}`,
      SANDBOX_APNS_LISTEN: anyPort,
      SANDBOX_FCM_LISTEN: anyPort,
      SANDBOX_WEB_PUSH_LISTEN: anyPort,
      SANDBOX_FILES: files,
    },
  });
  const call = caller(`http://127.0.0.1:${port}`);
  const stop = async (): Promise<void> => {
    if (child.exitCode === null && child.kill('SIGTERM')) await once(child, 'exit');
    await rm(files, { recursive: true });
  };
  try {
    return { ...secretsOf(await firstAnswer(call)), ...controls(call), stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

type Call = (method: string, path: string, body?: object) => Promise<unknown>;

function caller(base: string): Call {
  return async (method, path, body) => {
    const payload = body !== undefined && {
      body: JSON.stringify(body),
      headers: { 'content-type': 'application/json' },
    };
    const answer = await fetch(`${base}${path}`, { method, ...payload });
    const text = await answer.text();
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`);
    return text === '' ? undefined : JSON.parse(text);
  };
}

async function firstAnswer(call: Call): Promise<Credentials> {
  const deadline = performance.now() + START_MS;
  for (;;) {
    try {
      return (await call('GET', '/credentials')) as Credentials;
    } catch (error) {
      if (performance.now() > deadline) throw error;
      await sleep(50);
    }
  }
}

function secretsOf({ ca, apns, fcm, webPush }: Credentials) {
  const { serviceAccount: account } = fcm;
  const apple = { gateway: { host: apns.host, port: apns.port, ca } };
  return {
    bundle: apns.bundle,
    webPush: { host: `${webPush.host}:${webPush.port}`, ca },
    apnsToken: {
      kind: 'apns-token' as const,
      key: apns.key,
      keyId: apns.keyId,
      teamId: apns.teamId,
      ...apple,
    },
    apnsCertificate: {
      kind: 'apns-certificate' as const,
      certificate: apns.certificate,
      key: apns.certificateKey,
      ...apple,
    },
    fcm: {
      kind: 'fcm' as const,
      projectId: account.project_id ?? '',
      clientEmail: account.client_email ?? '',
      privateKey: account.private_key ?? '',
      privateKeyId: account.private_key_id ?? '',
      tokenUri: account.token_uri ?? '',
      gateway: { host: fcm.host, port: fcm.port, ca },
    },
  };
}

function controls(call: Call) {
  const counts = async () => (await call('GET', '/counts')) as Counts;
  const put = async (path: string, body: object) => void (await call('PUT', path, body));
  return {
    script: (channel: Channel, token: string, ...answers: object[]) =>
      put(`/scripts/${channel}/${encodeURIComponent(token)}`, { answers }),
    scriptOnce: (channel: Channel, token: string, ...answers: object[]) =>
      put(`/scripts/${channel}/${encodeURIComponent(token)}`, { answers, once: true }),
    subscribe: async () => (await call('POST', '/web-push/subscriptions', {})) as Subscription,
    conduct: (channel: Channel, conduct: object) => put(`/servers/${channel}`, conduct),
    async received(channel: Channel, to?: string) {
      const filter = to === undefined ? '' : `&to=${encodeURIComponent(to)}`;
      const answer = await call('GET', `/received?channel=${channel}${filter}&limit=1000`);
      return (answer as { received: Received[] }).received;
    },
    doubles: async () => (await counts()).doubles,
    connections: async (channel: Channel) => (await counts()).byChannel[channel].connections,
    async reset() {
      for (const path of ['/scripts', '/servers', '/received']) await call('DELETE', path);
    },
  };
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  if (typeof address !== 'object' || address === null) throw new Error('no port');
  return address.port;
}
