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
    serviceAccount: Record<'project_id' | 'client_email' | 'private_key' | 'token_uri', string>;
  };
}

/** The sandbox of a stack, by its control API. */
export interface Sandbox {
  credentials(): Promise<SandboxCredentials>;
  /** Requests for a push, in the order of arrival. */
  received(push: string): Promise<Received[]>;
  counts(): Promise<Counts>;
  /** Scripts the responses to the next requests for an address, step by step; later ones are as usual. */
  script(channel: string, address: string, responses: readonly ScriptedResponse[]): Promise<void>;
  /** Scripts the response to all further requests for an address. */
  scriptPermanently(channel: string, address: string, response: ScriptedResponse): Promise<void>;
  /** How one of the providers behaves from now on. */
  setFaults(channel: string, faults: Record<string, unknown>): Promise<void>;
  /** All as usual again, nothing counted. */
  reset(): Promise<void>;
  /** @param applicationServerKey the only one that may push to it; every one if absent */
  subscribe(
    applicationServerKey?: string,
  ): Promise<{ endpoint: string; key: string; auth: string }>;
}

/** @param base of its control API, as dev.json has it */
export function openSandbox(base: string | undefined): Sandbox {
  if (base === undefined) throw new Error('the stack has no sandbox');

  async function call(method: string, path: string, body?: unknown): Promise<string> {
    const response = await fetch(`${base}${path}`, {
      method,
      ...(body !== undefined && {
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(body),
      }),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`sandbox: ${method} ${path}: ${response.status} ${text}`);
    return text;
  }
  const getJson = async <T>(path: string): Promise<T> => JSON.parse(await call('GET', path)) as T;
  const scriptPath = (channel: string, address: string) =>
    `/scripts/${channel}/${encodeURIComponent(address.split('/').at(-1) ?? '')}`;

  return {
    credentials: () => getJson('/credentials'),
    async received(push) {
      return (await getJson<{ received: Received[] }>(`/received?push=${push}&limit=100000`))
        .received;
    },
    counts: () => getJson('/counts'),
    async script(channel, address, responses) {
      await call('PUT', scriptPath(channel, address), { answers: responses, once: true });
    },
    async scriptPermanently(channel, address, response) {
      await call('PUT', scriptPath(channel, address), { answers: [response] });
    },
    async setFaults(channel, faults) {
      await call('PUT', `/servers/${channel}`, faults);
    },
    async reset() {
      for (const what of ['scripts', 'servers', 'received']) await call('DELETE', `/${what}`);
    },
    async subscribe(applicationServerKey) {
      return JSON.parse(await call('POST', '/web-push/subscriptions', { applicationServerKey }));
    },
  };
}
