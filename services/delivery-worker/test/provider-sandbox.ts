import type { SecretOf } from '@carillon/core/channels';
import { startSandboxProcess } from '../../../test/support/providers/sandbox-process.ts';
import { until } from '../../../test/support/until.ts';

const START_TIMEOUT_MS = 20_000;

type Channel = 'apns' | 'fcm' | 'web-push';

/** One request that the sandbox received. */
export interface Received {
  to: string;
  push: string | null;
  status: number | null;
  headers: Record<string, string>;
  payload: unknown;
}

interface Counts {
  duplicates: number;
  byChannel: Record<Channel, { connections: number }>;
}

interface HostPort {
  host: string;
  port: number;
}

interface Credentials {
  ca: string;
  apns: HostPort & {
    key: string;
    keyId: string;
    teamId: string;
    certificate: string;
    certificateKey: string;
    bundle: string;
  };
  fcm: HostPort & { serviceAccount: Record<string, string> };
  webPush: HostPort;
}

/** A simulated browser's subscription. */
export interface Subscription {
  endpoint: string;
  key: string;
  auth: string;
}

/** The providers' sandbox as a separate process. */
export interface ProviderSandbox {
  bundle: string;
  apnsToken: SecretOf<'apns-token'>;
  apnsCertificate: SecretOf<'apns-certificate'>;
  fcm: SecretOf<'fcm'>;
  /** Host of its Web Push service, and the certificate of its authority. */
  webPush: { host: string; ca: string };
  /** Creates a simulated browser. */
  subscribe(): Promise<Subscription>;
  /** Scripts the responses to the next requests for a provider token, in order; the last one is repeated. */
  script(channel: Channel, token: string, ...responses: object[]): Promise<void>;
  /** Like {@link script}, but after the last response the sandbox responds as usual. */
  scriptOnce(channel: Channel, token: string, ...responses: object[]): Promise<void>;
  injectFaults(channel: Channel, injectFaults: object): Promise<void>;
  received(channel: Channel, to?: string): Promise<Received[]>;
  /** Counts pushes that were accepted more than once for one device. */
  duplicates(): Promise<number>;
  /** Counts the connections of a channel. */
  connections(channel: Channel): Promise<number>;
  /** Removes all faults, scripts and received requests. */
  reset(): Promise<void>;
  stop(): Promise<void>;
}

/** Starts a sandbox with its own files. */
export async function startProviderSandbox(): Promise<ProviderSandbox> {
  const { url, stop } = await startSandboxProcess();
  const call = createApiClient(url);
  try {
    const options = { timeoutMs: START_TIMEOUT_MS, everyMs: 50, what: 'a sandbox' };
    const credentials = await until(() => call('GET', '/credentials'), options);
    return { ...toSecrets(credentials as Credentials), ...createControls(call), stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

type ApiCall = (method: string, path: string, body?: object) => Promise<unknown>;

function createApiClient(base: string): ApiCall {
  return async (method, path, body) => {
    const payload = body !== undefined && {
      body: JSON.stringify(body),
      headers: { 'content-type': 'application/json' },
    };
    const response = await fetch(`${base}${path}`, { method, ...payload });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
    return text === '' ? undefined : JSON.parse(text);
  };
}

function toSecrets({ ca, apns, fcm, webPush }: Credentials) {
  const { serviceAccount: account } = fcm;
  const gatewayOptions = { gateway: { host: apns.host, port: apns.port, ca } };
  return {
    bundle: apns.bundle,
    webPush: { host: `${webPush.host}:${webPush.port}`, ca },
    apnsToken: {
      kind: 'apns-token' as const,
      key: apns.key,
      keyId: apns.keyId,
      teamId: apns.teamId,
      ...gatewayOptions,
    },
    apnsCertificate: {
      kind: 'apns-certificate' as const,
      certificate: apns.certificate,
      key: apns.certificateKey,
      ...gatewayOptions,
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

function createControls(call: ApiCall) {
  const counts = async () => (await call('GET', '/counts')) as Counts;
  const put = async (path: string, body: object) => void (await call('PUT', path, body));
  return {
    script: (channel: Channel, token: string, ...responses: object[]) =>
      put(`/scripts/${channel}/${encodeURIComponent(token)}`, { answers: responses }),
    scriptOnce: (channel: Channel, token: string, ...responses: object[]) =>
      put(`/scripts/${channel}/${encodeURIComponent(token)}`, { answers: responses, once: true }),
    subscribe: async () => (await call('POST', '/web-push/subscriptions', {})) as Subscription,
    injectFaults: (channel: Channel, injectFaults: object) =>
      put(`/servers/${channel}`, injectFaults),
    async received(channel: Channel, to?: string) {
      const filter = to === undefined ? '' : `&to=${encodeURIComponent(to)}`;
      const response = await call('GET', `/received?channel=${channel}${filter}&limit=1000`);
      return (response as { received: Received[] }).received;
    },
    duplicates: async () => (await counts()).duplicates,
    connections: async (channel: Channel) => (await counts()).byChannel[channel].connections,
    async reset() {
      for (const path of ['/scripts', '/servers', '/received']) await call('DELETE', path);
    },
  };
}
