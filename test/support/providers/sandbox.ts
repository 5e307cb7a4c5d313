import type { SecretOf } from '../../../packages/core/src/channels.ts';

/** A request that a provider got, as the sandbox has recorded it. */
export interface Received {
  n: number;
  at: number;
  channel: 'apns' | 'fcm' | 'web-push';
  /** Provider token, or endpoint. */
  to: string;
  /** Our push's id. */
  push: string | null;
  status: number | null;
  /** The header or field that the provider refuses. */
  detail?: string;
  headers: Record<string, string>;
  payload: Record<string, unknown> | null;
  acked?: number;
}

export interface ChannelCounts {
  requests: number;
  accepted: number;
  connections: number;
}

export interface Counts extends ChannelCounts {
  byChannel: Record<string, ChannelCounts>;
  duplicates: number;
}

export type ScriptedResponse = Record<string, unknown>;

/** Credentials that the sandbox accepts, and its addresses. */
export interface SandboxCredentials {
  ca: string;
  apns: {
    host: string;
    port: number;
    key: string;
    keyId: string;
    teamId: string;
    certificate: string;
    certificateKey: string;
    bundle: string;
  };
  fcm: {
    host: string;
    port: number;
    serviceAccount: Record<
      'project_id' | 'client_email' | 'private_key' | 'private_key_id' | 'token_uri',
      string
    >;
  };
  webPush: { host: string; port: number };
}

/** The sandbox's signing key for APNs. */
export function createApnsSecret({ apns, ca }: SandboxCredentials): SecretOf<'apns-token'> {
  const { host, port, key, keyId, teamId } = apns;
  return { kind: 'apns-token', key, keyId, teamId, gateway: { host, port, ca } };
}

/** The sandbox's service account. */
export function createFcmSecret({ fcm, ca }: SandboxCredentials): SecretOf<'fcm'> {
  const account = fcm.serviceAccount;
  return {
    kind: 'fcm',
    projectId: account.project_id,
    clientEmail: account.client_email,
    privateKey: account.private_key,
    privateKeyId: account.private_key_id,
    tokenUri: account.token_uri,
    gateway: { host: fcm.host, port: fcm.port, ca },
  };
}

/** A sandbox, by its control API. */
export type Sandbox = ReturnType<typeof openSandbox>;

/** @param base of its control API, as dev.json has it */
export function openSandbox(base: string | undefined) {
  if (base === undefined) throw new Error('the stack has no sandbox');

  async function call<T>(method: string, path: string, body?: unknown): Promise<T> {
    const headers = { 'content-type': 'application/json' };
    const payload = body === undefined ? {} : { headers, body: JSON.stringify(body) };
    const response = await fetch(`${base}${path}`, { method, ...payload });
    const text = await response.text();
    if (!response.ok) throw new Error(`sandbox: ${method} ${path}: ${response.status} ${text}`);
    return (text === '' ? undefined : JSON.parse(text)) as T;
  }
  const scriptPath = (channel: string, address: string) =>
    `/scripts/${channel}/${encodeURIComponent(address.split('/').at(-1) ?? '')}`;
  const listReceived = async (query: object) => {
    const path = `/received?${new URLSearchParams({ ...query, limit: '100000' })}`;
    return (await call<{ received: Received[] }>('GET', path)).received;
  };

  return {
    credentials: () => call<SandboxCredentials>('GET', '/credentials'),
    /** Requests for a push, in the order of arrival. */
    received: (push: string) => listReceived({ push }),
    /** Requests over a channel, in the order of arrival. */
    receivedOver: (channel: string, to?: string) =>
      listReceived({ channel, ...(to !== undefined && { to }) }),
    /** Returns the log of a channel as it is sent: JSON.parse would round its numbers. */
    readLog: async (channel: string) =>
      (await fetch(`${base}/received?${new URLSearchParams({ channel })}`)).text(),
    counts: () => call<Counts>('GET', '/counts'),
    /** Scripts the responses to the next requests for an address, step by step; later ones are as usual. */
    async script(channel: string, address: string, responses: readonly ScriptedResponse[]) {
      await call('PUT', scriptPath(channel, address), { answers: responses, once: true });
    },
    /** Scripts the response to all further requests for an address. */
    async scriptPermanently(channel: string, address: string, response: ScriptedResponse) {
      await call('PUT', scriptPath(channel, address), { answers: [response] });
    },
    /** How one of the providers behaves from now on. */
    async setFaults(channel: string, faults: Record<string, unknown>) {
      await call('PUT', `/servers/${channel}`, faults);
    },
    /** All as usual again, nothing counted. */
    async reset() {
      for (const what of ['scripts', 'servers', 'received']) await call('DELETE', `/${what}`);
    },
    /** @param applicationServerKey the only one that may push to it; every one if absent */
    subscribe: (applicationServerKey?: string) =>
      call<{ endpoint: string; key: string; auth: string }>('POST', '/web-push/subscriptions', {
        applicationServerKey,
      }),
  };
}
